"""A Spark that is not in our process: a standalone master and two workers, from the wheel."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.paired import PATIENCE_S, free_ports
from spark.daemons import Daemons, archived, run_job
from spark.reading import kept_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
WORKERS = 2
COUNT = 1_000
_FLAGS = ("--host", "127.0.0.1", "--webui-port", "0")


class Cluster(Daemons):
    """A master and workers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        [port] = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        self._master_log = self.start_spark("master", MASTER, *_FLAGS, "--port", str(port))

    def add_workers(self) -> None:
        self.await_said(self._master_log, "New state: ALIVE")
        for number in range(WORKERS):
            folder = self.folder / f"work-{number}"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
            self.start_spark(f"worker-{number}", WORKER, *_FLAGS, *limits, self.url)

    def tasks_done(self) -> list[int]:
        """How many tasks each executor has finished, as they say themselves."""
        said = [path.read_text() for path in self.folder.glob("work-*/*/*/stderr")]
        return [one.count("Finished task") for one in said]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster")
    try:
        yield cluster
    finally:
        cluster.stop()


def test_a_pipeline_that_joins_a_standalone_cluster(cluster, start_broker, tmp_path):
    """`fanlog pipeline --master spark://…`: executors archive, and do a job."""
    lake = tmp_path / "lake"
    server = start_broker(lake=str(lake))
    topic = kept_topic(server)
    published = [b"message %d" % number for number in range(COUNT)]
    for first in range(0, COUNT, 100):
        server.publish(topic, *published[first : first + 100], part=str(first // 100))
    cluster.add_workers()
    pipeline, _ = cluster.start_pipeline(
        server.endpoint,
        cluster.url,
        # Nothing begins before both workers are there.
        "spark.cores.max=2",
        "spark.scheduler.minRegisteredResourcesRatio=1.0",
    )
    cluster.await_that(lambda: len(archived(lake, topic)) >= COUNT, "archived")
    assert archived(lake, topic) == Counter(published)
    asked = ["backtest", "--topic", topic, "--filter", 'attributes.part = "3"']
    result = run_job(server.endpoint, *asked)
    assert (result["messages"], result["matched"]) == (COUNT, 100)
    counts = cluster.tasks_done()
    assert len(counts) == WORKERS
    assert all(counts), cluster.said()
    pipeline.send_signal(signal.SIGTERM)
    assert pipeline.wait(PATIENCE_S) == 0, cluster.said()
