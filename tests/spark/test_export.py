"""Exports from a broker to the lake, by Spark; read back by readers that are not Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from fanlog.client.exports import ExportClient
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import NOTHING
from fanlog.pipeline.export.flow import ExportFlow
from server.registry import JSON, Registry, record

LINES = 2_500


class World:
    """A broker, a lake, and exports that run until there is nothing left."""

    def __init__(self, spark: Any, server: Any, folder: Path) -> None:
        self.spark = spark
        self.server = server
        self.folder = folder
        self.location = Location(str(folder / "lake"))
        self.checkpoints = folder / "checkpoints"

    def export(self, *, only: str = "") -> None:
        running = ExportFlow(
            self.spark, self.server.endpoint, self.location, self.checkpoints, NOTHING
        )
        running.start(only_now=True, only=only).awaitTermination()

    def table(self, name: str) -> Any:
        """A table of exports as Arrow, by a reader that is not ours."""
        return DeltaTable(f"{self.location.uri}/exports/{name}").to_pyarrow_table()

    def files(self, bucket: str) -> list[Path]:
        return sorted(p for p in (self.folder / "lake/files" / bucket).rglob("*") if p.is_file())


@pytest.fixture
def world(spark, broker, tmp_path):
    return World(spark, broker, tmp_path)


ORDER = record(("id", "string"), ("count", "int"))
WIDER = record(("id", "string"), ("count", "int"), ("note", "string"), note="")


def order(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"o{number}", "count": number} | more).encode()


def test_a_typed_table(world, monkeypatch):
    server = world.server
    registry = Registry(server)
    schema = registry.create(ORDER)
    topic = server.topic(schema_settings={"schema": schema.name, "encoding": JSON})
    config = {"table": "shop.orders", "use_topic_schema": True, "write_metadata": True}
    name = server.subscription(topic, bigquery_config=config, filter='attributes.kind != "b"')
    for number in range(10):
        server.publish(topic, order(number), kind="ab"[number % 2])
    # The pipeline dies between the commit of the table and the word to the broker.
    with monkeypatch.context() as patched:
        patched.setattr(ExportClient, "advance", lambda *_: 1 / 0)
        with pytest.raises(Exception, match="division by zero"):
            world.export(only=name)
    assert world.table("shop.orders").num_rows == 5
    world.export(only=name)
    found = world.table("shop.orders").sort_by("count")
    assert found["count"].to_pylist() == [0, 2, 4, 6, 8]
    assert found["id"].to_pylist() == ["o0", "o2", "o4", "o6", "o8"]
    assert set(found["subscription_name"].to_pylist()) == {name}
    assert json.loads(found["attributes"][0].as_py())["kind"] == "a"
    server.await_drained(name)
    # Another revision has a field that the table has no column for.
    registry.commit(schema.name, WIDER)
    server.publish(topic, order(20, note="new"), order(22, note="newer"), kind="a")
    world.export(only=name)
    server.await_drained(name)
    rejected = world.table("shop.orders_rejected")
    assert set(rejected["reason"].to_pylist()) == {"$.note: the table has no such column"}
    assert sorted(rejected["offset"].to_pylist()) == [10, 11]
    assert world.table("shop.orders").num_rows == 5
    assert duckdb.sql("SELECT sum(count) FROM found").fetchall() == [(20,)]


def test_files_of_text_and_avro(world, monkeypatch):
    server = world.server
    topic = server.topic()
    text = server.subscription(
        topic,
        cloud_storage_config={
            "bucket": "text-box",
            "filename_prefix": "a/",
            "filename_suffix": ".txt",
            "max_messages": 1_000,
        },
    )
    avro = server.subscription(
        topic,
        cloud_storage_config={
            "bucket": "avro-box",
            "max_messages": 1_000,
            "avro_config": {"write_metadata": True},
        },
    )
    for start in range(0, LINES, 500):
        server.publish(topic, *[b"%d" % number for number in range(start, start + 500)])
    with monkeypatch.context() as patched:
        patched.setattr(ExportClient, "advance", lambda *_: 1 / 0)
        with pytest.raises(Exception, match="division by zero"):
            world.export(only=text)
    before = {path: path.read_bytes() for path in world.files("text-box")}
    assert len(before) == 2
    world.export(only=text)
    assert {path: path.read_bytes() for path in world.files("text-box")} == before
    assert all(path.parent.parent.name == "a" and path.suffix == ".txt" for path in before)
    lines = sorted(int(line) for one in before.values() for line in one.split())
    # The rest waits until it is old enough.
    assert lines == list(range(2_000))
    world.export(only=avro)
    records: list[Any] = []
    for path in world.files("avro-box"):
        with path.open("rb") as stream:
            records += fastavro.reader(stream)
    assert sorted(int(one["data"]) for one in records) == list(range(2_000))
    assert {one["subscription_name"] for one in records} == {avro}


def test_one_that_fails_holds_up_no_other(world):
    server = world.server
    topic, bad = server.topic_and_subscription(bigquery_config={"table": "bad"})
    good = server.subscription(topic, bigquery_config={"table": "good"})
    DeltaTable.create(
        f"{world.location.uri}/exports/bad", Schema.from_arrow(pa.schema([("other", pa.int64())]))
    )
    server.publish(topic, b"one", b"two")
    world.export()
    assert sorted(world.table("good")["data"].to_pylist()) == [b"one", b"two"]
    server.await_drained(good)
    found = server.subscriber.get_subscription(subscription=bad)
    assert found.bigquery_config.state.name == "SCHEMA_MISMATCH"
