"""A Spark that is not in our process: a standalone master and two workers, from the wheel."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyspark
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from acceptance.paired import PATIENCE_S, PIPELINE_READY, free_ports
from acceptance.served import FANLOG, clean_environ
from spark.reading import kept_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
WORKERS = 2
COUNT = 1_000


class Cluster:
    """A master and workers on the loopback address, and one pipeline that joins them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[psutil.Popen] = []
        [port] = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        self._master_log = self._start_daemon("master", MASTER, "--port", str(port))

    def _start_daemon(self, name: str, program: str, *arguments: str) -> Path:
        flags = ["--host", "127.0.0.1", "--webui-port", "0"]
        limits = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        return self._start(name, [str(SPARK_CLASS), program, *flags, *arguments], limits)

    def _start(self, name: str, command: list[str], more: dict[str, str]) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("wb") as file:
            self._started.append(
                psutil.Popen(command, stdout=file, stderr=file, env=clean_environ() | more)
            )
        return log

    def add_workers(self) -> None:
        self.await_said(self._master_log, "New state: ALIVE")
        for number in range(WORKERS):
            folder = self._folder / f"work-{number}"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
            self._start_daemon(f"worker-{number}", WORKER, *limits, self.url)

    def start_pipeline(self, endpoint: str) -> psutil.Popen:
        flags = ["--endpoint", endpoint, "--master", self.url]
        flags += ["--state-dir", str(self._folder / "state")]
        # Nothing begins before both workers are there.
        for setting in ("spark.cores.max=2", "spark.scheduler.minRegisteredResourcesRatio=1.0"):
            flags += ["--spark-conf", setting]
        log = self._start("pipeline", [*FANLOG, "pipeline", *flags], {})
        self.await_said(log, PIPELINE_READY)
        return self._started[-1]

    def tasks_done(self) -> list[int]:
        """How many tasks each executor has finished, as they say themselves."""
        said = [path.read_text() for path in self._folder.glob("work-*/*/*/stderr")]
        return [one.count("Finished task") for one in said]

    def await_said(self, log: Path, sentence: str, times: int = 1) -> None:
        self.await_that(lambda: log.read_text().count(sentence) >= times, sentence)

    def await_that(self, is_so: Callable[[], bool], what: str) -> None:
        late_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert all(one.poll() is None for one in self._started), self.said()
            assert time.monotonic() < late_s, f"not {what}: {self.said()}"
            # Nobody tells us: it is what other processes have written.
            time.sleep(0.05)

    def said(self) -> str:
        logs = [*self._folder.glob("*.log"), *self._folder.glob("work-*/*/*/std*")]
        return "\n".join(f"{path}:\n{path.read_text()[-4000:]}" for path in sorted(logs))

    def stop(self) -> None:
        """End it, the last first; executors go with their workers."""
        running = [each for each in self._started if each.poll() is None]
        below = [one for each in running for one in each.children(recursive=True)]
        for each in reversed(running):
            each.terminate()
        _, left = psutil.wait_procs([*below, *running], timeout=30)
        for one in left:
            one.kill()
        assert not left


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def archived(lake: Path, topic: str) -> Counter[bytes]:
    """What the lake has of a topic, read as anybody would, without Fanlog."""
    try:
        table = DeltaTable(str(lake / "messages"))
    except TableNotFoundError:
        return Counter()
    rows = table.to_pyarrow_table(columns=["topic", "data"], filters=[("topic", "=", topic)])
    return Counter(rows["data"].to_pylist())


def test_a_pipeline_that_joins_a_standalone_cluster(cluster, start_broker, tmp_path):
    """`fanlog pipeline --master spark://…`: executors archive, and do a job."""
    lake = tmp_path / "lake"
    server = start_broker(lake=str(lake))
    topic = kept_topic(server)
    published = [b"message %d" % number for number in range(COUNT)]
    for first in range(0, COUNT, 100):
        server.publish(topic, *published[first : first + 100], part=str(first // 100))
    cluster.add_workers()
    pipeline = cluster.start_pipeline(server.endpoint)
    cluster.await_that(lambda: len(archived(lake, topic)) >= COUNT, "archived")
    assert archived(lake, topic) == Counter(published)
    asked = ["job", "backtest", "--topic", topic, "--filter", 'attributes.part = "3"', "--json"]
    done = subprocess.run(
        [*FANLOG, *asked],
        env=clean_environ() | {"PUBSUB_EMULATOR_HOST": server.endpoint},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, (done.stdout, done.stderr, cluster.said())
    job = json.loads(done.stdout.splitlines()[-1])
    assert job["state"] == "DONE"
    assert (job["result"]["messages"], job["result"]["matched"]) == (COUNT, 100)
    counts = cluster.tasks_done()
    assert len(counts) == WORKERS
    assert all(counts), cluster.said()
    pipeline.send_signal(signal.SIGTERM)
    assert pipeline.wait(PATIENCE_S) == 0, cluster.said()
