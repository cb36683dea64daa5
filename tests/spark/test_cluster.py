"""A Spark that is not in our process: a standalone master and two workers, from the wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from acceptance.paired import PATIENCE_S, free_ports
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from spark.reading import kept_topic

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

TESTS = Path(__file__).resolve().parent.parent
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A master and workers on the loopback address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[psutil.Popen] = []
        [port] = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        self._master_log = self._start("master", MASTER, "--port", str(port))

    def _start(self, name: str, program: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("wb") as file:
            self._started.append(
                psutil.Popen(
                    [SPARK_CLASS, program, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    stdout=file,
                    stderr=file,
                    env=environ() | {"SPARK_DAEMON_MEMORY": "256m"},
                )
            )
        return log

    def add_workers(self, count: int) -> None:
        self._await("New state: ALIVE", 1)
        for number in range(count):
            folder = self._folder / f"work-{number}"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
            self._start(f"worker-{number}", WORKER, *limits, self.url)
        self._await("Registering worker", count)

    def _await(self, sentence: str, times: int) -> None:
        late_s = time.monotonic() + PATIENCE_S
        while self._master_log.read_text().count(sentence) < times:
            assert all(one.poll() is None for one in self._started), self.said()
            assert time.monotonic() < late_s, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        logs = [*self._folder.glob("*.log"), *self._folder.glob("work-*/*/*/std*")]
        return "\n".join(f"{path}:\n{path.read_text()[-4000:]}" for path in sorted(logs))

    def stop(self) -> None:
        """End it, workers first; executors go with them."""
        below = [one for each in self._started for one in each.children(recursive=True)]
        for each in reversed(self._started):
            each.terminate()
        _, left = psutil.wait_procs([*below, *self._started], timeout=30)
        for one in left:
            one.kill()
        assert not left


def environ() -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        cluster.add_workers(2)
        yield cluster
    finally:
        cluster.stop()


def test_a_standalone_cluster_reads_and_archives(cluster, start_broker, tmp_path):
    server = start_broker()
    topic = kept_topic(server)
    published = [f"message {number}" for number in range(1_000)]
    for first in range(0, 1_000, 100):
        server.publish(topic, *(one.encode() for one in published[first : first + 100]))
    lake = tmp_path / "lake"
    program = [sys.executable, "-m", "spark.joined", cluster.url, server.endpoint, topic]
    done = subprocess.run(
        [*program, str(lake), str(tmp_path)],
        env=environ(),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 0, (done.stderr, cluster.said())
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["executors"] == 2
    assert said["read"] == [[offset, data] for offset, data in enumerate(published)]
    rows = open_table(Location.parse(str(lake)), MESSAGES).to_pyarrow_table()
    archived = sorted(zip(rows["offset"].to_pylist(), rows["data"].to_pylist(), strict=True))
    assert archived == [(offset, data.encode()) for offset, data in enumerate(published)]
