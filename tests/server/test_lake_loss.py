"""A lake that does not come back: what is lost is said, and given up by choice only."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions

from commands import invoke
from fanlog.lake import tables
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.v1 import lake_pb2 as pb
from server.conftest import PATIENCE_S
from server.tiered import (
    DAY,
    Tiered,
    copied,
    data,
    keeping,
    numbered,
    readiness,
    replaced,
)


def accept(tiered: Tiered, *, confirm: bool = True) -> Any:
    request = pb.AcceptLossRequest(confirm=confirm)
    with tiered.server.channel() as channel:
        call = channel.unary_unary("/fanlog.v1.Lake/AcceptLoss")
        raw = call(request.SerializeToString(), timeout=PATIENCE_S)
    return pb.AcceptLossResponse.FromString(raw)


def refused(tiered: Tiered) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        accept(tiered)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    return str(caught.value.details())


def ranges(loss: Any) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in loss.ranges]


def rows_in(tiered: Tiered, topic: str) -> list[bytes]:
    rows = open_table(Location.parse(str(tiered.lake)), MESSAGES).to_pyarrow_table()
    found = [row for row in rows.to_pylist() if row["topic"] == topic]
    return [row["data"] for row in sorted(found, key=lambda row: row["offset"])]


@pytest.fixture
def world(tiered: Tiered, tmp_path: Path) -> tuple[Tiered, str, str]:
    """Thirty messages: ten in an older copy of the lake, ten more in the lake alone, ten hot."""
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic)
    server.publish(topic, *numbered(0, 10))
    tiered.archive()
    copied(tiered, tmp_path / "older")
    server.publish(topic, *numbered(10, 20))
    tiered.archive()
    tiered.pass_time(2 * DAY)
    server.publish(topic, *numbered(20, 30))
    assert tiered.tiers(topic) == (0, 20, 20, 30)
    tables.ensure_lake(Location.parse(str(tmp_path / "empty")))
    return tiered, topic, name


class TestReplaced:
    @pytest.mark.parametrize(
        ("by", "lost", "kept"),
        [("older", [(10, 20)], 10), ("empty", [(0, 20)], 0), (None, [(0, 20)], 0)],
    )
    def test_from_the_alarm_to_the_end(self, world, tmp_path, by, lost, kept):
        tiered, topic, name = world
        server = tiered.server
        replaced(tiered, by and tmp_path / by)
        tiered.pass_time(60)
        server.run(server.broker.tiers.check())
        assert tiered.alarm
        before = tiered.tiers(topic)
        # It is said first, and nothing has changed by that.
        for _ in range(2):
            found = accept(tiered, confirm=False)
            [loss] = found.losses
            assert not found.accepted
            assert (found.messages, found.leaving) == (20 - kept, 0)
            assert (loss.topic, loss.messages, ranges(loss)) == (topic, 20 - kept, lost)
        assert tiered.tiers(topic) == before
        assert tiered.alarm
        done = accept(tiered)
        assert (done.accepted, done.messages, done.losses) == (True, 20 - kept, found.losses)
        assert tiered.alarm == ""
        assert readiness(tiered) == "ready\n"
        start = 0 if kept else 20
        assert tiered.tiers(topic)[0] == start
        # The subscription goes on where there is something.
        there = [*numbered(0, kept), *numbered(20, 30)]
        assert data(server.drain(name, kept + 10)) == there
        # The archive begins anew, from the hot log, and what it took is let go of.
        server.publish(topic, *numbered(30, 35))
        tiered.archiver = tiered._archiver()
        tiered.archive()
        assert rows_in(tiered, topic) == [*numbered(0, kept), *numbered(20, 35)]
        tiered.pass_time(2 * DAY)
        assert tiered.tiers(topic) == (start, 35, 35, 35)
        # All of it outlives a restart, and another reader finds the same.
        server.restart()
        tiered.server.await_lake()
        assert tiered.alarm == ""
        other = server.subscription(topic, labels={"fanlog-start": "earliest"})
        assert data(server.drain(other, kept + 15)) == [*there, *numbered(30, 35)]
        assert not accept(tiered).accepted

    def test_while_all_is_hot_nothing_is_lost(self, tiered, tmp_path):
        server = tiered.server
        topic = server.topic(**keeping())
        name = server.subscription(topic)
        server.publish(topic, *numbered(0, 10))
        tiered.archive()
        replaced(tiered, None)
        server.run(server.broker.tiers.check())
        assert tiered.alarm
        found = accept(tiered, confirm=False)
        assert (found.messages, list(found.losses), found.lake_id) == (0, [], "")
        assert accept(tiered).accepted
        assert tiered.alarm == ""
        tiered.archiver = tiered._archiver()
        tiered.archive()
        tiered.pass_time(2 * DAY)
        assert tiered.tiers(topic) == (0, 10, 10, 10)
        assert rows_in(tiered, topic) == numbered(0, 10)
        assert data(server.drain(name, 10)) == numbered(0, 10)

    def test_several_topics_each_by_itself(self, world, tmp_path):
        """Those that were not in the copy at all, and one that is kept out by now."""
        tiered, topic, _ = world
        server = tiered.server
        other, out = server.topic(**keeping()), server.topic(**keeping())
        server.publish(other, *numbered(0, 4))
        server.publish(out, *numbered(0, 6))
        tiered.archive()
        server.publisher.update_topic(
            request={
                "topic": {"name": out, "labels": {"fanlog-archive": "off"}},
                "update_mask": {"paths": ["labels"]},
            }
        )
        tiered.pass_time(2 * DAY)
        assert tiered.tiers(out)[:2] == (0, 6)
        replaced(tiered, tmp_path / "older")
        found = accept(tiered)
        mine = [loss for loss in found.losses if loss.topic.startswith("projects/test/")]
        lost = {loss.topic: ranges(loss) for loss in mine}
        assert lost == {topic: [(10, 30)], other: [(0, 4)], out: [(0, 6)]}
        assert tiered.alarm == ""
        server.publish(other, *numbered(4, 6))
        server.publish(out, *numbered(6, 8))
        tiered.archiver = tiered._archiver()
        tiered.archive()
        tiered.pass_time(2 * DAY)
        assert tiered.tiers(other) == (4, 6, 6, 6)
        assert tiered.tiers(out)[0] == 6

    def test_a_topic_deleted_meanwhile(self, world, tmp_path):
        tiered, topic, _ = world
        server = tiered.server
        replaced(tiered, tmp_path / "older")
        accept(tiered)
        partition = tiered.partition(topic)
        assert partition in server.broker.hard.lost
        for name in server.publisher.list_topic_subscriptions(topic=topic):
            server.subscriber.delete_subscription(subscription=name)
        server.publisher.delete_topic(topic=topic)
        server.sweep()
        assert server.broker.hard.lost == {}
        server.restart()
        assert server.broker.hard.lost == {}


def newest(tiered: Tiered) -> Path:
    return max(tiered.lake.rglob("*.parquet"), key=lambda one: one.stat().st_mtime_ns)


def spoil(tiered: Tiered, *, keeps_footer: bool) -> Path:
    """Damage the newest file: a page of messages, or so that it is no file of Parquet any more."""
    path = newest(tiered)
    content = bytearray(path.read_bytes())
    if keeps_footer:
        group = pq.read_metadata(path).row_group(0)
        chunks = {group.column(at).path_in_schema: group.column(at) for at in range(9)}
        end = chunks["data"].data_page_offset + chunks["data"].total_compressed_size
        content[end - 10 : end] = bytes(10)
    else:
        del content[len(content) // 2 :]
    path.write_bytes(content)
    return path


class TestDamagedFile:
    """Named, and skipped by choice only."""

    @pytest.mark.parametrize("keeps_footer", [True, False])
    def test_it_is_waited_for_until_it_is_given_up(self, world, keeps_footer):
        tiered, topic, name = world
        server = tiered.server
        path = spoil(tiered, keeps_footer=keeps_footer)
        server.restart()
        tiered.server.await_lake()
        # The first ten are in a file that is fine.
        first = server.drain(name, 10)
        assert data(first) == numbered(0, 10)
        with pytest.raises(exceptions.ServiceUnavailable, match=path.name) as caught:
            server.await_pull(name)
        assert "fanlog lake accept" in str(caught.value)
        tiered.pass_time(60)
        assert path.name in tiered.alarm
        assert path.name in readiness(tiered)
        # Whoever begins behind it is served.
        late = server.subscription(topic)
        server.publish(topic, b"30")
        assert data(server.drain(late, 1)) == [b"30"]
        found = accept(tiered, confirm=False)
        assert [(one.messages, ranges(one)) for one in found.losses] == [(10, [(10, 20)])]
        assert accept(tiered).messages == 10
        assert tiered.alarm == ""
        assert data(server.drain(name, 11)) == numbered(20, 31)
        server.restart()
        tiered.server.await_lake()
        assert tiered.alarm == ""
        assert tiered.tiers(topic)[0] == 0

    def test_restored_it_is_served(self, world):
        tiered, _, name = world
        server = tiered.server
        path = newest(tiered)
        right = path.read_bytes()
        spoil(tiered, keeps_footer=True)
        server.restart()
        tiered.server.await_lake()
        server.drain(name, 10)
        with pytest.raises(exceptions.ServiceUnavailable, match=path.name):
            server.await_pull(name)
        assert tiered.alarm
        path.write_bytes(right)
        tiered.pass_time(60)
        assert tiered.alarm == ""
        assert data(server.drain(name, 20)) == numbered(10, 30)

    def test_what_is_hot_as_well_is_served_until_it_leaves(self, tiered):
        server = tiered.server
        topic = server.topic(**keeping())
        name = server.subscription(topic)
        server.publish(topic, *numbered(0, 10))
        tiered.archive()
        server.publish(topic, *numbered(10, 20))
        tiered.archive()
        spoil(tiered, keeps_footer=False)
        server.restart()
        tiered.server.await_lake()
        assert tiered.alarm
        found = accept(tiered)
        assert (found.accepted, found.messages, found.leaving) == (True, 0, 10)
        assert data(server.drain(name, 20)) == numbered(0, 20)
        tiered.pass_time(2 * DAY)
        assert tiered.tiers(topic) == (0, 20, 20, 20)
        other = server.subscription(topic, labels={"fanlog-start": "earliest"})
        assert data(server.drain(other, 10)) == numbered(0, 10)
        server.publish(topic, b"20")
        assert data(server.drain(other, 1)) == [b"20"]


class TestSurfaces:
    def test_a_broker_without_a_lake(self, start_server):
        server = start_server("memory")
        with server.channel() as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/fanlog.v1.Lake/AcceptLoss")(b"", timeout=PATIENCE_S)
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert "this broker has no lake" in caught.value.details()

    def test_nothing_is_archived_yet(self, tiered):
        assert "nothing is archived yet" in refused(tiered)

    def test_a_lake_that_cannot_be_looked_at(self, world, tmp_path):
        tiered, topic, _ = world
        replaced(tiered, None)
        tiered.lake.write_text("a file")
        assert "nobody knows what is lost" in refused(tiered)
        assert tiered.tiers(topic)[0] == 0

    def test_nothing_is_wrong(self, world):
        tiered, topic, _ = world
        found = accept(tiered)
        assert (found.accepted, found.messages, list(found.losses)) == (False, 0, [])
        assert tiered.tiers(topic) == (0, 20, 20, 30)

    def test_rest(self, world, tmp_path):
        tiered, topic, _ = world
        server = tiered.server

        def ask(path: str, body: Any = None) -> Any:
            content = None if body is None else json.dumps(body).encode()
            kind = {"content-type": "application/json"}
            request = urllib.request.Request(server.http(path), content, kind)
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return json.loads(response.read())

        shown = ask("/v1/lake")
        assert (shown["uri"], shown.get("alarm", "")) == (str(tiered.lake), "")
        replaced(tiered, tmp_path / "empty")
        found = ask("/v1/lake:acceptLoss", {})
        assert (found["messages"], found.get("accepted", False)) == ("20", False)
        assert found["losses"][0]["topic"] == topic
        assert ask("/v1/lake:acceptLoss", {"confirm": True})["accepted"]
        assert ask("/v1/lake")["id"] == found["lakeId"]

    def test_the_command_line(self, world, tmp_path):
        tiered, topic, _ = world
        replaced(tiered, tmp_path / "empty")
        tiered.server.run(tiered.server.broker.tiers.check())

        def run(*words: str) -> str:
            environ = {"PUBSUB_EMULATOR_HOST": tiered.server.endpoint}
            done = invoke(["lake", *words], env=environ)
            assert done.exit_code == 0, done.output
            return done.output

        assert "it is lake" in run("describe")
        said = run("accept")
        assert topic in said
        assert "20 messages of 1 topics are lost" in said
        assert ", where lake " in said
        assert "--yes goes on with what there is" in said
        assert tiered.alarm
        assert "given up: 20 messages of 1 topics" in run("accept", "--yes")
        assert tiered.alarm == ""
        assert "nothing is lost; it is still lake " in run("accept")
        assert json.loads(run("describe", "--json"))["id"]
