"""A Spark Connect server, from the wheel, and its clients: programs, and `fanlog pipeline`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.paired import PATIENCE_S, free_ports
from acceptance.served import clean_environ
from spark.daemons import Daemons, archived, rows_of, run_job
from spark.reading import kept_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("connect")]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
COUNT = 200


class ConnectServer(Daemons):
    """A Spark Connect server with a local Spark behind it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        [port] = free_ports(1)
        self.url = f"sc://127.0.0.1:{port}"
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        flags = [flag for each in settings.items() for flag in ("--conf", "=".join(each))]
        log = self.start_spark(
            "server",
            "org.apache.spark.deploy.SparkSubmit",
            *("--master", "local[2]", "--class", SERVER),
            *flags,
            "spark-internal",
            memory="1g",
        )
        self.await_said(log, "Spark Connect server started at")


@pytest.fixture(scope="module")
def connect(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect") / "server")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def run_client(connect: ConnectServer) -> Callable[..., Any]:
    def run(what: str, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "spark.connected", what, connect.url, *arguments],
            env=clean_environ() | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{done.stderr}\n{connect.said()}"
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_a_program_reads_and_publishes(run_client, broker):
    topic = kept_topic(broker)
    broker.publish(topic, b"a", b"b", b"c", b"d")
    found = run_client("read", broker.endpoint, topic)
    assert found["first"] == ["a", "b", "c"]
    assert sorted(found["all"]) == ["A", "B", "C", "a", "b", "c", "d"]
    assert found["parallelism"] == 2


def test_work_that_is_stopped(run_client):
    found = run_client("stop")
    assert found["stages"]
    assert all(0 <= ended < tasks for ended, tasks in found["stages"])
    assert "OPERATION_CANCELED" in found["error"]
    assert found["is_alive"]
    assert found["then"] == 10


def test_a_pipeline_that_is_its_client(connect, start_broker, tmp_path):
    """`fanlog pipeline --master sc://…`: its flows and jobs, without a driver of its own."""
    lake = tmp_path / "lake"
    server = start_broker(lake=str(lake))
    topic = kept_topic(server)
    subscription = server.subscription(topic)
    server.subscription(topic, bigquery_config={"table": "orders"})
    published = [b"message %d" % number for number in range(COUNT)]
    for first in range(0, COUNT, 50):
        server.publish(topic, *published[first : first + 50], part=str(first // 50))
    server.drain(subscription, COUNT)
    pipeline, log = connect.start_pipeline(server.endpoint, connect.url)
    connect.await_that(lambda: len(archived(lake, topic)) >= COUNT, "archived")
    assert archived(lake, topic) == Counter(published)
    table = lake / "exports" / "orders"
    connect.await_that(lambda: len(rows_of(table, "data")) >= COUNT, "exported")
    assert Counter(row["data"] for row in rows_of(table, "data")) == Counter(published)
    asked = ["--filter", 'attributes.part = "3"']
    found = run_job(server.endpoint, "backtest", "--topic", topic, *asked)
    assert (found["messages"], found["matched"]) == (COUNT, 50)
    found = run_job(server.endpoint, "replay", subscription, *asked)
    assert (found["matched"], found["reopened"]) == (50, 50)
    again = server.drain(subscription, 50)
    assert {one.message.data for one in again} == set(published[150:])
    assert run_job(server.endpoint, "verify", "--topic", topic)["is_fine"]
    pipeline.send_signal(signal.SIGTERM)
    assert pipeline.wait(PATIENCE_S) == 0, connect.said()
    assert "Traceback" not in log.read_text()
    # No Java was started for it, and no log of one.
    assert not list((connect.folder / "state").glob("spark.*"))
