"""The source of exports, driven by hand as Spark does, without a JVM; and its commits."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from fanlog.client import Client
from fanlog.config import Config
from fanlog.lake.location import Location
from fanlog.pipeline.export import source
from fanlog.pipeline.export.batch import TaskOutput, commit_batch
from fanlog.pipeline.export.rejected import Redriven, Rejected
from fanlog.pipeline.export.rejected_table import RejectedRows
from fanlog.pipeline.flows.dead_letters import DeadLetterFlow
from server.conftest import RunningServer
from server.registry import JSON, Registry, record
from spark.export_steps import ExportSteps
from spark.tiers import Archive

ORDER = record(("id", "string"), ("count", "int"))
WIDER = record(("id", "string"), ("count", "int"), ("note", "string"), note="")


class World(ExportSteps):
    def __init__(self, server: Any, folder: Path) -> None:
        super().__init__(server.endpoint, Location(str(folder / "lake")))
        self.server = server

    def table(self, name: str) -> Any:
        return DeltaTable(f"{self.location.uri}/exports/{name}").to_pyarrow_table()


@pytest.fixture
def world(broker, tmp_path):
    return World(broker, tmp_path)


def order(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"o{number}", "count": number} | more).encode()


def typed(world: World, **config: Any) -> tuple[str, str, Any, Registry]:
    registry = Registry(world.server)
    schema = registry.create(ORDER)
    topic = world.server.topic(schema_settings={"schema": schema.name, "encoding": JSON})
    config = {"table": "orders", "use_topic_schema": True} | config
    return topic, world.server.subscription(topic, bigquery_config=config), schema, registry


def test_a_typed_table_once(world):
    topic, name, _, _ = typed(world)
    world.server.publish(topic, *[order(number) for number in range(10)])
    assert world.run(name)
    world.server.await_drained(name)
    assert sorted(world.table("orders")["count"].to_pylist()) == list(range(10))
    assert not world.run(name)


@pytest.mark.parametrize("is_checkpoint_lost", [False, True])
def test_death_between_the_tables_commit_and_the_word(world, is_checkpoint_lost):
    topic, name, _, _ = typed(world)
    world.server.publish(topic, *[order(number) for number in range(10)])
    frame = world.rows(name)
    [plan] = {row.plan for row in frame.collect()}
    pieces = [TaskOutput.from_json(row.piece) for row in frame.collect()]
    assert commit_batch(pickle.loads(plan), pieces, world.location)
    world.server.publish(topic, *[order(number) for number in range(10, 15)])
    # Another pipeline, with what the first one wrote down or without.
    if not is_checkpoint_lost:
        world.offset = {"batches": {name: [0, 0]}}
    world.run(name)
    assert sorted(world.table("orders")["count"].to_pylist()) == list(range(10))
    world.run(name)
    assert sorted(world.table("orders")["count"].to_pylist()) == list(range(15))
    world.server.await_drained(name)


def test_two_pipelines_write_one_batch(world):
    topic, name, _, _ = typed(world)
    world.server.publish(topic, *[order(number) for number in range(10)])
    first, second = world.rows(name), world.rows(name, tasks=3)
    world.commit(second)
    world.commit(first)
    assert sorted(world.table("orders")["count"].to_pylist()) == list(range(10))
    world.server.await_drained(name)


def test_only_what_the_filter_wants_is_exported(world):
    topic = world.server.topic()
    name = world.server.subscription(
        topic, bigquery_config={"table": "some"}, filter='attributes.kind = "a"'
    )
    for number in range(20):
        world.server.publish(topic, b"%d" % number, kind="ab"[number % 2])
    world.run(name)
    assert sorted(map(int, world.table("some")["data"].to_pylist())) == list(range(0, 20, 2))
    world.server.await_drained(name)


@pytest.fixture
def lake_world(loop_thread, tmp_path):
    """One whose broker knows where the lake is."""
    config = Config(
        port=0,
        http_port=0,
        drain_s=2.0,
        disk_reserve_bytes=0,
        data_dir=tmp_path / "data",
        lake=str(tmp_path / "lake"),
    )
    server = RunningServer(loop_thread, config, None)
    yield World(server, tmp_path)
    server.stop()


def test_rejected_rows_are_redriven(lake_world):
    world = lake_world
    topic, name, schema, registry = typed(world)
    world.server.publish(topic, order(1))
    world.run(name)
    registry.commit(schema.name, WIDER)
    world.server.publish(topic, order(2, note="x"), order(3, note="y"))
    world.run(name)
    world.server.await_drained(name)
    rejected = world.table("orders_rejected")
    assert set(rejected["reason"].to_pylist()) == {"$.note: the table has no such column"}
    assert sorted(rejected["offset"].to_pylist()) == [1, 2]
    with Client(world.server.endpoint) as client:
        assert Rejected(client, name).redrive("other") == Redriven(0, 0)
        # Nothing was done about it: they are rejected once more.
        assert Rejected(client, name).redrive("no such column") == Redriven(2, 2)
        assert Rejected(client, name).rows().num_rows == 0
        world.run(name)
        assert Rejected(client, name).rows()["offset"].to_pylist() == [1, 2]
        config = {"table": "orders", "use_topic_schema": True, "drop_unknown_fields": True}
        world.server.subscriber.update_subscription(
            request={
                "subscription": {"name": name, "bigquery_config": config},
                "update_mask": {"paths": ["bigquery_config"]},
            }
        )
        assert Rejected(client, name).redrive() == Redriven(2, 2)
        world.run(name)
        assert Rejected(client, name).redrive() == Redriven(0, 0)
    assert sorted(world.table("orders")["count"].to_pylist()) == [1, 2, 3]
    world.server.await_drained(name)


def test_a_redrive_that_died_halfway_does_nothing_twice(lake_world, monkeypatch):
    world = lake_world
    topic, name, schema, registry = typed(world, drop_unknown_fields=False)
    world.server.publish(topic, order(1))
    world.run(name)
    registry.commit(schema.name, WIDER)
    world.server.publish(topic, order(2, note="x"))
    world.run(name)
    with Client(world.server.endpoint) as client:
        with monkeypatch.context() as patched:
            patched.setattr(RejectedRows, "forget", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                Rejected(client, name).redrive()
        DeltaTable(f"{world.location.uri}/exports/orders").alter.add_columns(
            [Field("note", PrimitiveType("string"))]
        )
        world.run(name)
        assert world.table("orders").num_rows == 2
        assert Rejected(client, name).redrive() == Redriven(1, 1)
        assert not world.run(name)
    found = world.table("orders").sort_by("count")
    assert found["note"].to_pylist() == [None, "x"]


def test_a_deleted_subscription_is_left_alone(world):
    topic, name, _, _ = typed(world)
    world.server.publish(topic, order(1))
    frame = world.rows(name)
    world.server.subscriber.delete_subscription(subscription=name)
    world.commit(frame)
    assert not world.run(name)
    with Client(world.server.endpoint) as client:
        assert client.get_topic(topic).name == topic


def test_a_topic_that_is_gone_leaves_its_messages_rejected(world):
    topic, name, _, _ = typed(world)
    world.server.publish(topic, order(1))
    world.server.publisher.delete_topic(topic=topic)
    world.run(name)
    rejected = world.table("orders_rejected")
    assert rejected["reason"].to_pylist() == ["the topic has no schema any more"]


def test_files_do_not_depend_on_how_many_tasks_there_are(world):
    topic = world.server.topic()
    config = {"bucket": "box", "max_messages": 1_000}
    name = world.server.subscription(topic, cloud_storage_config=config)
    for _ in range(5):
        world.server.publish(topic, *[b"%d" % number for number in range(500)])
    world.rows(name, tasks=1)
    folder = Path(world.location.uri) / "files/box"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    frame = world.rows(name, tasks=5)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert sorted(len(one.split()) for one in before.values()) == [1_000, 1_000]
    world.commit(frame)
    assert not world.run(name)


def test_a_bucket_that_cannot_be_written_is_said(world):
    topic = world.server.topic()
    config = {"bucket": "box", "max_messages": 1_000}
    name = world.server.subscription(topic, cloud_storage_config=config)
    world.server.publish(topic, *[b"x"] * 1_000)
    blocked = Path(world.location.uri) / "files"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("no folder")
    frame = world.rows(name)
    assert [row.piece for row in frame.collect()] == [source.FAILED]
    world.commit(frame)
    found = world.server.subscriber.get_subscription(subscription=name)
    assert found.cloud_storage_config.state.name == "NOT_FOUND"
    blocked.unlink()
    # It is tried again, though the batch is the same.
    world.offset = world.end
    assert world.run(name)
    world.server.await_drained(name)
    found = world.server.subscriber.get_subscription(subscription=name)
    assert found.cloud_storage_config.state.name == "ACTIVE"


def test_a_bucket_that_was_not_allowed_is_said(world):
    """The pipeline's credentials are not every caller's."""
    topic = world.server.topic()
    config = {"bucket": "s3://payroll/out", "max_messages": 1_000}
    name = world.server.subscription(topic, cloud_storage_config=config)
    world.server.publish(topic, *[b"x"] * 1_000)
    assert world.rows(name).collect() == []
    found = world.server.subscriber.get_subscription(subscription=name)
    assert found.cloud_storage_config.state.name == "PERMISSION_DENIED"
    broker = world.server.broker
    trouble = broker.exports.trouble(broker.hard.catalog.subscription(name))
    assert "may not use the bucket 'payroll'" in trouble.reason


def test_dead_letters_are_collected_from_the_archive(lake_world):
    server = lake_world.server
    topic = server.topic()
    name = server.subscription(
        topic,
        labels={"fanlog-dead-letter": "auto"},
        dead_letter_policy={"max_delivery_attempts": 1},
    )
    server.publish(topic, b"bad", b"good")
    for one in server.pull(name):
        if one.message.data == b"good":
            server.ack(name, [one])
        else:
            server.subscriber.modify_ack_deadline(
                request={
                    "subscription": name,
                    "ack_ids": [one.ack_id],
                    "ack_deadline_seconds": 0,
                }
            )
    server.await_drained(name)
    archive = Archive(server)
    archive.run()
    flow = DeadLetterFlow(server.endpoint, archive.location, monotonic=lambda: 0.0)
    assert flow.step().letters == 1
    assert flow.step().letters == 0
    [letter] = DeltaTable(f"{archive.location.uri}/dead_letters").to_pyarrow_table().to_pylist()
    assert (letter["data"], letter["subscription"], letter["delivery_attempts"]) == (
        b"bad",
        name,
        1,
    )
    assert letter["original_topic"] == topic
