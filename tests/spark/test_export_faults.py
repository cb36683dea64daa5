"""Exports whose pipeline is killed: nothing is lost, and nothing is twice in a table or a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from acceptance.served import PATIENCE_S
from fanlog.lake.location import Location
from server.registry import JSON, Registry, record
from spark.export_steps import ExportSteps

TESTS = Path(__file__).resolve().parent.parent
ORDER = record(("id", "string"), ("count", "int"))
WIDER = record(("id", "string"), ("count", "int"), ("note", "string"), note="")


class World:
    """A broker, and pipelines that export what it has until they are killed."""

    def __init__(self, server: Any, lake: Path) -> None:
        self.server = server
        self.lake = lake
        self._registry = Registry(server)
        self._schema = self._registry.create(ORDER)
        settings = {"schema": self._schema.name, "encoding": JSON}
        self.topic = server.topic(schema_settings=settings)

    def publish(self, *numbers: int, **more: Any) -> None:
        rows = [{"id": f"o{number}", "count": number} | more for number in numbers]
        self.server.publish(self.topic, *(json.dumps(row).encode() for row in rows))

    def widen(self) -> None:
        """What has a note does not fit the table, from now on."""
        self._registry.commit(self._schema.name, WIDER)

    def backlog(self, name: str) -> int:
        found = self.server.broker.hard.catalog.subscription(name)
        return int(self.server.run(self.server.broker.backlogs.measure(found)).messages)

    def kill(self, point: str, name: str) -> None:
        """Run a pipeline until it dies."""
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        flags = [point, self.server.endpoint, str(self.lake), name]
        done = subprocess.run(
            [sys.executable, "-m", "spark.export_steps", *flags],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)

    def export(self, name: str) -> None:
        """Another pipeline, which knows nothing of the one before it, until nothing is left."""
        steps = ExportSteps(self.server.endpoint, Location.parse(str(self.lake)))
        while steps.run(name):
            pass
        self.server.await_drained(name)

    def table(self, name: str, column: str) -> Counter[Any]:
        """A column of a table of exports, read as anybody would, without Fanlog."""
        try:
            found = DeltaTable(str(self.lake / "exports" / name)).to_pyarrow_table()
        except TableNotFoundError:
            return Counter()
        return Counter(found[column].to_pylist())

    def written(self) -> int:
        return len(list(self.lake.rglob("*.parquet")))


@pytest.fixture
def world(broker, tmp_path):
    return World(broker, tmp_path / "lake")


FIRST, SECOND, LAST = range(5), range(5, 10), range(10, 15)


@pytest.mark.parametrize(
    ("point", "committed", "rejected", "backlog"),
    [("written", 0, 0, 7), ("halfway", 5, 0, 7), ("committed", 5, 2, 7), ("told", 5, 2, 0)],
)
def test_a_table(world, point, committed, rejected, backlog):
    config = {"table": "orders", "use_topic_schema": True}
    name = world.server.subscription(world.topic, bigquery_config=config)
    world.publish(*FIRST)
    world.export(name)
    files = world.written()
    world.widen()
    world.publish(*SECOND)
    world.publish(100, 101, note="x")
    world.kill(point, name)
    # Its files are there, whether anything names them or not; and nobody was told too early.
    assert world.written() > files
    assert world.table("orders", "count") == Counter([*FIRST, *SECOND][: 5 + committed])
    assert world.table("orders_rejected", "offset").total() == rejected
    assert world.backlog(name) == backlog
    world.publish(*LAST)
    world.export(name)
    assert world.table("orders", "count") == Counter([*FIRST, *SECOND, *LAST])
    assert world.table("orders_rejected", "offset") == Counter([10, 11])


@pytest.mark.parametrize("point", ["written", "committed"])
def test_files(world, point):
    topic = world.server.topic()
    config = {"bucket": "box", "max_messages": 1_000}
    name = world.server.subscription(topic, cloud_storage_config=config)
    published = [b"%d" % number for number in range(2_000)]

    def lines() -> Counter[bytes]:
        paths = [path for path in (world.lake / "files/box").rglob("*") if path.is_file()]
        return Counter(line for path in paths for line in path.read_bytes().split())

    world.server.publish(topic, *published[:1_000])
    world.kill(point, name)
    assert lines() == Counter(published[:1_000])
    assert world.backlog(name) == 1_000
    world.server.publish(topic, *published[1_000:])
    world.export(name)
    assert lines() == Counter(published)
