"""A server with a lake: what is archived leaves the hot log, and is delivered all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.api_core import exceptions
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pyroaring import BitMap64

from fanlog.broker.clock import ManualClock
from fanlog.broker.verbs.reopening import Wanted
from fanlog.errors import LakeUnavailable
from fanlog.lake import archive, tables
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES
from fanlog.testing.archiver import ArchiveReport
from server.receiver import receiving
from server.tiered import (
    DAY,
    HOUR,
    Tiered,
    copied,
    data,
    keeping,
    numbered,
    readiness,
    replaced,
)


def test_what_is_archived_leaves_the_hot_log_when_it_is_old(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic)
    server.publish(topic, *numbered(0, 50))
    tiered.archive(reports=False)
    tiered.pass_time(2 * DAY)
    # Nobody has told the broker, so it believes nothing.
    assert tiered.tiers(topic) == (0, 0, 0, 50)
    report = tiered.archive(reports=False)
    assert tiered.report(report) == report.sequence
    server.publish(topic, *numbered(50, 60))
    server.sweep()
    assert tiered.tiers(topic) == (0, 50, 50, 60)
    assert data(server.drain(name, 60)) == numbered(0, 60)


def test_what_is_archived_and_young_stays_hot(tiered):
    server = tiered.server
    topic = server.topic()
    server.publish(topic, *numbered(0, 5))
    tiered.archive()
    tiered.pass_time(DAY - 60)
    assert tiered.tiers(topic) == (0, 0, 5, 5)
    tiered.pass_time(120)
    assert tiered.tiers(topic) == (0, 5, 5, 5)


def test_what_is_not_archived_stays_whatever_happens(tiered):
    server = tiered.server
    topic = server.topic()
    server.publish(topic, *numbered(0, 5))
    tiered.pass_time(40 * DAY)
    assert tiered.tiers(topic) == (0, 0, 0, 5)


def test_topics_kept_out_of_the_archive_are_as_ever(start_server, tmp_path):
    lake = tmp_path / "lake"
    server = start_server(clock=ManualClock(), lake=str(lake), topic_retention=0.0)
    tiered = Tiered(server, lake)
    topic = server.topic(labels={"fanlog-archive": "off"})
    name = server.subscription(topic)
    server.publish(topic, *numbered(0, 5))
    tiered.archive()
    server.ack(name, server.pull(name))
    server.sweep()
    assert tiered.tiers(topic)[:2] == (5, 5)
    # What is gone is not reopened, and so nobody waits for it.
    reopen = server.broker.reopening.reopen(
        name, Wanted({tiered.partition(topic): BitMap64(range(5))})
    )
    assert server.run(reopen).reopened == 0
    server.publish(topic, b"5")
    assert data(server.pull(name)) == [b"5"]


def cold_backlog(tiered: Tiered, **fields) -> tuple[str, str]:
    """A subscription whose backlog of 300 is cold but for the last hundred."""
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic, **fields)
    for first in range(0, 200, 20):
        server.publish(topic, *numbered(first, first + 20), key="k", a="b")
        if first % 60 == 0:
            tiered.archive()
    tiered.archive()
    tiered.pass_time(DAY + 1)
    server.publish(topic, *numbered(200, 300), key="k", a="b")
    assert tiered.tiers(topic) == (0, 200, 200, 300)
    return topic, name


def test_a_cold_backlog_is_pulled_in_order_with_what_it_was(tiered):
    server = tiered.server
    topic, name = cold_backlog(tiered, enable_message_ordering=True)
    other = server.subscription(topic)
    found = server.drain(name, 300)
    assert data(found) == numbered(0, 300)
    assert {one.message.ordering_key for one in found} == {"k"}
    assert all(one.message.attributes == {"a": "b"} for one in found)
    hot, cold = found[250].message, found[50].message
    assert cold.message_id[:-12] == hot.message_id[:-12]
    assert cold.publish_time.timestamp() == 1_000_000.0
    assert not server.pull(other)


def test_a_cold_backlog_is_streamed(tiered):
    server = tiered.server
    _, name = cold_backlog(tiered)
    stream = server.open_stream(name)
    assert sorted(map(int, data(stream.messages(300)))) == list(range(300))


def test_a_cold_backlog_is_pushed(tiered):
    server = tiered.server
    _, name = cold_backlog(tiered)
    with receiving() as receiver:
        server.subscriber.modify_push_config(
            request={"subscription": name, "push_config": {"push_endpoint": receiver.url()}}
        )
        receiver.wait(300)
        assert sorted(int(got.data) for got in receiver.received) == list(range(300))
        server.await_drained(name)


def test_a_cold_backlog_outlives_a_restart(tiered):
    server = tiered.server
    topic, name = cold_backlog(tiered)
    first = server.pull(name, 100)
    server.ack(name, first)
    server.restart()
    tiered.server.await_lake()
    assert tiered.tiers(topic) == (0, 200, 200, 300)
    assert tiered.alarm == ""
    rest = server.drain(name, 200)
    assert sorted(map(int, data([*first, *rest]))) == list(range(300))


def test_a_filter_sees_cold_messages(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic, filter='attributes.kind = "x"')
    for number in range(20):
        server.publish(topic, b"%d" % number, kind="x" if number % 2 else "y")
    tiered.archive()
    tiered.pass_time(DAY + 1)
    assert tiered.tiers(topic)[1] == 20
    server.restart()
    tiered.server.await_lake()
    assert data(server.drain(name, 10)) == [b"%d" % number for number in range(1, 20, 2)]


def test_a_seek_into_archived_messages_is_not_undone(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic, message_retention_duration=Duration(seconds=600))
    for number in range(10):
        server.publish(topic, b"%d" % number)
        server.advance(HOUR)
    server.drain(name, 10)
    tiered.archive()
    tiered.pass_time(2 * DAY)
    assert tiered.tiers(topic) == (0, 10, 10, 10)
    time = Timestamp(seconds=1_000_000 + int(4.5 * HOUR))
    server.subscriber.seek(request={"subscription": name, "time": time})
    server.sweep()
    assert data(server.drain(name, 5)) == numbered(5, 10)


def test_cold_messages_are_reopened_and_stay_so(tiered):
    server = tiered.server
    # It retains nothing for itself: the lake has it all the same.
    topic = server.topic()
    name = server.subscription(topic, message_retention_duration=Duration(seconds=int(DAY)))
    server.publish(topic, *numbered(0, 10))
    server.drain(name, 10)
    tiered.archive()
    tiered.pass_time(9 * DAY)
    assert tiered.tiers(topic) == (0, 10, 10, 10)
    offsets = {tiered.partition(topic): BitMap64([2, 3, 7])}
    server.run(server.broker.reopening.reopen(name, Wanted(offsets)))
    tiered.pass_time(HOUR)
    assert data(server.drain(name, 3)) == [b"2", b"3", b"7"]


def test_a_snapshot_pins_what_is_cold(tiered):
    server = tiered.server
    topic = server.topic(message_retention_duration=Duration(seconds=int(2 * DAY)))
    name = server.subscription(topic)
    server.publish(topic, *numbered(0, 10))
    snapshot = server.subscriber.create_snapshot(
        request={"name": "projects/test/snapshots/cold", "subscription": name}
    )
    server.drain(name, 10)
    tiered.archive()
    tiered.pass_time(4 * DAY)
    assert tiered.tiers(topic) == (0, 10, 10, 10)
    server.subscriber.seek(request={"subscription": name, "snapshot": snapshot.name})
    server.sweep()
    assert data(server.drain(name, 10)) == numbered(0, 10)


def test_the_lakes_start_follows_the_retention_of_the_topic(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    for number in range(10):
        server.publish(topic, b"%d" % number)
        server.advance(DAY / 2)
    tiered.archive()
    tiered.pass_time(4 * DAY)
    start, hot_start, archived, end = tiered.tiers(topic)
    assert (hot_start, archived, end) == (10, 10, 10)
    assert start == 4


def test_a_deleted_topic_is_forgotten(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    partition = tiered.partition(topic)
    server.publish(topic, b"x")
    tiered.archive()
    server.publisher.delete_topic(request={"topic": topic})
    server.sweep()
    assert partition not in server.broker.hard.archived


def test_a_topic_kept_out_for_a_while_has_a_gap_in_the_lake_and_loses_nothing(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic)

    def switch(text: str) -> None:
        server.publisher.update_topic(
            request={
                "topic": {"name": topic, "labels": {"fanlog-archive": text}},
                "update_mask": {"paths": ["labels"]},
            }
        )
        server.sweep()

    server.publish(topic, *numbered(0, 10))
    tiered.archive()
    switch("off")
    server.publish(topic, *numbered(10, 20))
    tiered.archive()
    switch("on")
    server.publish(topic, *numbered(20, 30))
    tiered.archive()
    assert tiered.alarm == ""
    tiered.pass_time(2 * DAY)
    assert data(server.drain(name, 30)) == numbered(0, 30)
    tiered.pass_time(10)
    server.publish(topic, *numbered(30, 40))
    tiered.archive()
    assert tiered.alarm == ""
    assert data(server.drain(name, 10)) == numbered(30, 40)


# The lake is not what it should be.


def lake_metric(tiered: Tiered) -> float:
    return tiered.server.metric("fanlog_lake_alarm")


@pytest.mark.parametrize("by", ["older", "empty", "nothing"])
def test_a_lake_that_was_replaced_is_an_alarm_and_nothing_is_trimmed(tiered, tmp_path, by):
    server = tiered.server
    topic = server.topic(**keeping())
    name = server.subscription(topic)
    server.publish(topic, *numbered(0, 10))
    tiered.archive()
    copied(tiered, tmp_path / "older")
    server.publish(topic, *numbered(10, 20))
    tiered.archive()
    copied(tiered, tmp_path / "right")
    tables.ensure_lake(Location.parse(str(tmp_path / "empty")))
    replaced(tiered, None if by == "nothing" else tmp_path / by)
    tiered.pass_time(2 * DAY)
    assert tiered.tiers(topic) == (0, 0, 20, 20)
    assert str(tiered.lake) in tiered.alarm
    assert lake_metric(tiered) == 1
    assert "lake alarm" in readiness(tiered)
    server.publish(topic, *numbered(20, 30))
    if by == "older":
        # The archive goes on where the table ends, and has all of it again.
        tiered.archive()
    else:
        replaced(tiered, tmp_path / "right")
        tiered.pass_time(60)
    assert tiered.alarm == ""
    assert lake_metric(tiered) == 0
    assert readiness(tiered) == "ready\n"
    tiered.pass_time(1)
    assert tiered.tiers(topic)[1] >= 20
    assert sorted(map(int, data(server.drain(name, 30)))) == list(range(30))


@pytest.mark.parametrize("by", ["older", "empty"])
def test_a_lake_that_was_replaced_while_the_broker_was_down_is_noticed(tiered, tmp_path, by):
    server = tiered.server
    topic, name = cold_backlog(tiered)
    copied(tiered, tmp_path / "right")
    tables.ensure_lake(Location.parse(str(tmp_path / "empty")))
    opened = tables.open_table(Location.parse(str(tiered.lake)), MESSAGES)
    copied(tiered, tmp_path / "older")
    last = tmp_path / "older" / "messages" / "_delta_log" / f"{opened.version():020}.json"
    last.unlink()
    server.stop()
    replaced(tiered, tmp_path / by)
    server.start()
    tiered.server.await_lake()
    assert tiered.alarm
    with pytest.raises(exceptions.ServiceUnavailable, match="archived messages cannot be read"):
        server.await_pull(name)
    replaced(tiered, tmp_path / "right")
    tiered.pass_time(60)
    assert tiered.alarm == ""
    assert tiered.tiers(topic) == (0, 200, 200, 300)
    assert len(server.drain(name, 300)) == 300


def test_a_lake_that_was_replaced_before_anything_was_archived_is_believed_by_its_own_name(
    tiered, tmp_path
):
    server = tiered.server
    topic = server.topic(**keeping())
    server.publish(topic, *numbered(0, 10))
    other = tables.ensure_lake(Location.parse(str(tmp_path / "other")))
    replaced(tiered, tmp_path / "other")
    # This archive has looked whose lake it is before; the table it writes to is the other's.
    late = tiered.archive(reports=False)
    assert late.lake_id != other
    assert other in tiered.refused(late)
    assert server.broker.hard.lake is None
    tiered.report(replace(late, lake_id=other))
    assert server.broker.hard.lake.id == other
    assert tiered.alarm == ""


def test_a_lake_out_of_reach_keeps_nobody_from_what_is_hot(tiered, tmp_path):
    server = tiered.server
    _, name = cold_backlog(tiered)
    other = server.topic()
    hot = server.subscription(other)
    filtered = server.subscription(other, filter="attributes:a")
    server.restart()
    tiered.server.await_lake()
    tiered.lake.rename(tmp_path / "away")
    with pytest.raises(exceptions.ServiceUnavailable, match="the lake cannot be read"):
        server.await_pull(name)
    server.publish(other, b"x", a="b")
    assert data(server.drain(hot, 1)) == [b"x"]
    assert data(server.drain(filtered, 1)) == [b"x"]
    assert server.metric("fanlog_backlog_messages", hot) == 0
    tiered.pass_time(60)
    (tmp_path / "away").rename(tiered.lake)
    tiered.pass_time(60)
    assert tiered.alarm == ""
    assert len(server.drain(name, 300)) == 300


def test_dead_letters_wait_for_the_lake(tiered, monkeypatch):
    server = tiered.server
    dead = server.topic()
    letters = server.subscription(dead)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 1}
    topic = server.topic(**keeping())
    name = server.subscription(topic, dead_letter_policy=policy)
    server.publish(topic, b"x")
    tiered.archive()
    tiered.pass_time(DAY + 1)
    got = server.pull(name)

    async def out_of_reach(*_, **__):
        raise LakeUnavailable("the lake is away")

    with monkeypatch.context() as patched:
        patched.setattr(server.store.cold, "read", out_of_reach)
        server.nack(name, got)
        server.run(server.broker.decisions.drain())
        assert not server.pull(letters)
    found = []
    while not found:
        server.advance(60)
        again = server.pull(name)
        if again:
            server.nack(name, again)
        found = server.pull(letters)
    assert data(found) == [b"x"]


def test_reports_of_another_lake_are_refused(tiered):
    tiered.server.publish(tiered.server.topic(), b"x")
    report = tiered.archive(reports=False)
    other = ArchiveReport("another", report.table_version, report.sequence)
    assert "another" in tiered.refused(other)
    assert "another" in tiered.alarm
    assert tiered.report(report) == report.sequence
    assert tiered.alarm == ""


def test_reports_of_what_is_not_so_are_refused(tiered):
    server = tiered.server
    topic = server.topic()
    server.publish(topic, b"x")
    report = tiered.archive(reports=False)
    server.publish(topic, b"y")
    last = server.broker.ledger.committed_sequence
    ahead = ArchiveReport(report.lake_id, report.table_version, last)
    assert "commits up to" in tiered.refused(ahead)
    later = ArchiveReport(report.lake_id, report.table_version + 1, report.sequence)
    assert "version" in tiered.refused(later)
    future = ArchiveReport(report.lake_id, report.table_version, last + 1_000)
    assert "does not have yet" in tiered.refused(future)
    assert tiered.tiers(topic) == (0, 0, 0, 2)
    tiered.archive()
    assert tiered.tiers(topic) == (0, 0, 2, 2)
    assert tiered.alarm == ""


@pytest.mark.parametrize("harm", ["lost", "twice"])
def test_an_archive_that_lost_or_doubled_something_is_not_believed(tiered, harm):
    server = tiered.server
    topic = server.topic()
    server.publish(topic, *numbered(0, 10))

    async def harmed():
        archiver = tiered.archiver
        to = server.store.last_sequence
        rows = await archiver.rows(0, to)
        if harm == "lost":
            written = archiver.write(rows.slice(0, 4)) + archiver.write(rows.slice(5))
        else:
            written = archiver.write(rows) + archiver.write(rows.slice(3, 1))
        committed = archive.commit_archive(
            Location.parse(str(tiered.lake)),
            archiver.log_id,
            written,
            after_sequence=0,
            to_sequence=to,
        )
        return ArchiveReport(archiver.lake_id, committed.table_version, to)

    sentence = tiered.refused(server.run(harmed()))
    assert ("twice" if harm == "twice" else "which has 0 to 4, 5 to 10") in sentence
    tiered.pass_time(2 * DAY)
    assert tiered.tiers(topic) == (0, 0, 0, 10)
    assert lake_metric(tiered) == 1


def test_a_report_that_comes_again_changes_nothing(tiered):
    server = tiered.server
    topic = server.topic()
    server.publish(topic, b"x")
    first = tiered.archive()
    server.publish(topic, b"y")
    second = tiered.archive()
    assert tiered.report(first) == second.sequence
    assert tiered.tiers(topic) == (0, 0, 2, 2)


def test_without_its_lake_a_broker_does_not_start(tiered, start_server, tmp_path):
    cold_backlog(tiered)
    tiered.server.stop()
    with pytest.raises(Exception, match="no lake is given"):
        start_server(data_dir=tiered.server._config.data_dir)


def test_the_hot_log_pushes_back_at_its_maximum(start_server, tmp_path):
    lake = tmp_path / "lake"
    server = start_server(clock=ManualClock(), lake=str(lake), hot_size_bytes=2_000_000)
    tiered = Tiered(server, lake)
    topic = server.topic()

    def fill() -> int:
        for count in range(100):
            server.advance(1)
            try:
                server.publish(topic, bytes(100_000))
            except exceptions.ResourceExhausted:
                return count
        raise AssertionError("it never pushed back")

    assert 10 < fill() < 30
    with pytest.raises(exceptions.ResourceExhausted, match="the hot log has"):
        server.publish(topic, b"x")
    tiered.archive()
    for _ in range(60):
        tiered.pass_time(1)
    assert tiered.tiers(topic)[1] > 0
    server.publish(topic, b"x")
    assert tiered.tiers(topic)[0] == 0
