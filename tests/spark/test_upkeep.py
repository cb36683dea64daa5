"""The jobs `compact` and `expire` on a real Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acceptance.served import PATIENCE_S
from fanlog.client import Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.errors import InvalidArgument
from fanlog.lake import rewrites
from fanlog.model.jobs import check_arguments
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.jobs.work import Work
from fanlog.pipeline.worker import Worker
from spark.export_steps import ExportSteps
from spark.worlds import DAY_S

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


@pytest.fixture
def do(spark, world):
    context = Context(spark=spark, endpoint=world.server.endpoint, location=world.location)

    def run(kind: str, **arguments: Any) -> Any:
        work = Work("projects/test/jobs/j", kind, check_arguments("test", kind, arguments))
        return kinds.runners(context)[kind](work)

    return run


def archived(world, count: int = 4) -> list[Path]:
    """Files of ten messages each."""
    found: list[Path] = []
    for _ in range(count):
        world.publish()
        world.steps().run()
        found += sorted(set((world.lake / "messages").rglob("*.parquet")) - set(found))
    return found


def exported(world, name: str, count: int) -> ExportSteps:
    """Batches of an export."""
    steps = ExportSteps(world.server.endpoint, world.location)
    for _ in range(count):
        world.publish()
        steps.run(name)
    return steps


def test_all_tables_are_compacted(do, world):
    export = {"table": "shop.orders", "write_metadata": True}
    name = world.server.subscription(world.topic, bigquery_config=export)
    exported(world, name, 3)
    world.steps().run()
    archived(world, 3)
    found = do("compact")
    assert (found["files_before"], found["merged"], found["into"]) == (4, 4, 1)
    [table] = found["tables"]
    assert (table["table"], table["into"]) == ("exports/shop.orders", 1)
    assert table["merged"] == table["files_before"] >= 3
    world.check()
    rows = world.table("exports/shop.orders")
    assert Counter(rows["data"].to_pylist()) == Counter(world.published[:30])
    # Again there is nothing to do; and one table by itself.
    assert do("compact", table="shop.orders")["tables"][0]["merged"] == 0
    with pytest.raises(InvalidArgument, match="is no table of the lake"):
        do("compact", table="nothing")
    # Rows of exports go when somebody says so, and not by themselves.
    assert do("expire") == {"messages": 0, "files": 0}
    assert world.table("exports/shop.orders").num_rows == 30
    before = "1970-01-13T00:00:00Z"
    assert do("expire", table="shop.orders", before=before)["rows"] == 30
    assert world.table("exports/shop.orders").num_rows == 0
    world.check()


def test_a_damaged_file_is_named_and_the_others_are_merged(do, world):
    paths = archived(world)
    right = paths[1].read_bytes()
    paths[1].write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    found = do("compact")
    assert (found["merged"], found["into"], found["is_fine"]) == (3, 1, False)
    [said] = found["damaged_files"]
    assert str(paths[1].relative_to(world.lake)) in said
    paths[1].write_bytes(right)
    world.check()
    assert do("compact")["merged"] == 2
    world.check()


def test_what_is_damaged_is_dropped_by_choice(do, world):
    """Accepted by the broker first; then no reader stumbles over the file any more."""
    paths = archived(world)
    world.pass_time(2 * DAY_S)
    paths[1].write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    world.server.restart()
    world.server.await_lake()
    assert paths[1].name in world.readiness()
    accepted = world.server.run(world.server.broker.accept_loss(confirm=True))
    assert sum(loss.messages for loss in accepted.losses) == 10
    assert world.readiness() == "ready\n"
    found = do("compact", table="messages", drop_damaged=True)
    assert (found["dropped_messages"], found["merged"], found["into"]) == (10, 3, 1)
    left = world.published[:10] + world.published[20:]
    assert world.in_lake() == Counter(left)
    world.server.run(world.server.broker.tiers.check())
    assert world.readiness() == "ready\n"
    name = world.server.subscription(world.topic, labels={"fanlog-start": "earliest"})
    assert [one.message.data for one in world.server.drain(name, 30)] == left
    assert do("verify", topics=[world.topic])["damaged"] == 0


def test_expire_goes_on_beside_a_damaged_file(do, world):
    archived(world, 3)
    world.pass_time(8 * DAY_S)
    _, files = rewrites.files_of(world.location)
    path = world.lake / "messages" / files[0].path
    path.write_bytes(b"")
    found = do("expire")
    assert (found["messages"], found["is_fine"]) == (20, False)
    assert files[0].path in found["damaged_files"][0]


def test_a_job_of_compaction_says_so_where_it_was_asked_for(spark, world):
    [path] = archived(world, 1)
    archived(world, 1)
    path.write_bytes(b"")
    context = Context(spark=spark, endpoint=world.server.endpoint, location=world.location)
    with Client(world.server.endpoint) as client:
        job = JobClient(client).create("projects/test", "compact", {}).name
        Worker(lambda: client, kinds.runners(context), name="w").run_one(client, wait_s=PATIENCE_S)
        ended = JobClient(client).get(job)
    assert state_of(ended) == "DONE"
    assert path.parent.name in str(ended.result["damaged_files"])
