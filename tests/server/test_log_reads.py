"""fanlog.v1.Log over gRPC: offsets, ranges of commits, time to offset, and stored batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.testing.damage import damage_batch
from fanlog.v1 import log_pb2 as pb
from server.conftest import PROJECT, RunningServer
from server.unique import unique
from server.v1 import LogClient, code_of, data_of

PATTERN = f"projects/{PROJECT}/topics"
SOME = f"{PATTERN}/some"


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    """One whose time stands still: no sweep takes away what no subscription is to read."""
    return still_server


@pytest.fixture
def log(server: RunningServer) -> Iterator[LogClient]:
    client = LogClient(server)
    yield client
    client.close()


def topic_named(server: RunningServer, name: str) -> str:
    return server.topic(name=f"{PATTERN}/{name}")


def spans(answer: object) -> list[tuple[str, int, int]]:
    return [(one.topic, one.start, one.end) for one in answer.ranges]  # type: ignore[attr-defined]


# Offsets.


def test_a_topic_without_messages(server, log):
    topic = server.topic()
    found = log.offsets(topic)
    [one] = found.partitions
    assert (one.topic, one.start, one.hot_start, one.archived, one.end) == (topic, 0, 0, 0, 0)
    assert one.partition >= 1
    assert one.is_archived
    assert (found.lake_uri, found.lake_id, found.archived_sequence) == ("", "", 0)
    assert found.log_id == server.store.identity.hex()


def test_offsets_move_with_what_is_published(server, log):
    topic = server.topic()
    before = log.offsets(topic)
    server.publish(topic, b"a", b"b")
    after = log.offsets(topic)
    assert after.partitions[0].end == 2
    assert after.sequence == before.sequence + 1


def test_topics_are_selected_by_name_and_pattern(server, log):
    stem = unique("stem").replace("-", "")
    made = [topic_named(server, f"{stem}.{name}") for name in ("b", "a", "a.c")]
    assert [p.topic for p in log.offsets(made[0], made[1], made[0]).partitions] == made[:2]
    by_pattern = log.offsets(pattern=f"{PATTERN}/{stem}.*")
    assert [p.topic for p in by_pattern.partitions] == sorted(made[:2])
    by_pattern = log.offsets(pattern=f"{PATTERN}/{stem}.#")
    assert [p.topic for p in by_pattern.partitions] == sorted(made)
    everything = [p.topic for p in log.offsets().partitions]
    assert set(made) <= set(everything)
    assert everything == sorted(everything)
    assert list(log.offsets(pattern=f"{PATTERN}/nothing-{stem}.*").partitions) == []


def test_topics_are_selected_by_subscription(server, log):
    stem = unique("stem").replace("-", "")
    topic = topic_named(server, f"{stem}.a")
    plain = server.subscription(topic, filter='attributes.x = "1"')
    found = log.offsets(subscription=plain)
    assert [p.topic for p in found.partitions] == [topic]
    assert found.filter == 'attributes.x = "1"'
    many = server.subscription(f"{PATTERN}/{stem}.*")
    other = topic_named(server, f"{stem}.b")
    assert [p.topic for p in log.offsets(subscription=many).partitions] == [topic, other]


def test_a_topic_may_stay_out_of_the_archive(server, log):
    off = server.topic(labels={"fanlog-archive": "off"})
    on = server.topic(labels={"fanlog-archive": "on"})
    assert [p.is_archived for p in log.offsets(off, on).partitions] == [False, True]
    with pytest.raises(Exception, match="'maybe' is not 'on' or 'off'"):
        server.topic(labels={"fanlog-archive": "maybe"})


# Ranges.


def test_ranges_are_what_commits_appended(server, log):
    one, two = sorted([server.topic(), server.topic()])
    before = log.offsets().sequence
    server.publish(one, b"a", b"b")
    middle = log.offsets().sequence
    server.publish(two, b"x")
    server.publish(one, b"c")
    after = log.offsets().sequence
    whole = log.ranges(before, after, one, two)
    assert spans(whole) == [(one, 0, 3), (two, 0, 1)]
    assert (whole.sequence, whole.messages, whole.hot_after_sequence) == (after, 4, 0)
    assert spans(log.ranges(before, middle, one, two)) == [(one, 0, 2)]
    assert spans(log.ranges(middle, after, one, two)) == [(one, 2, 3), (two, 0, 1)]
    assert spans(log.ranges(middle, after, two)) == [(two, 0, 1)]
    assert spans(log.ranges(after, after)) == []
    stored = [v for r in whole.ranges for answer in log.read(r) for v in answer.batches]
    assert sum(r.size_bytes for r in whole.ranges) == sum(map(len, stored))


def test_ranges_stop_after_the_commit_that_reaches_a_limit(server, log):
    topic = server.topic()
    before = log.offsets().sequence
    for _ in range(5):
        server.publish(topic, b"a", b"b", b"c")
    to = log.offsets().sequence
    seen, at, calls = [], before, 0
    while at < to:
        found = log.ranges(at, to, topic, max_messages=4)
        assert found.sequence > at
        seen += spans(found)
        at, calls = found.sequence, calls + 1
    assert seen == [(topic, 0, 6), (topic, 6, 12), (topic, 12, 15)]
    assert calls == 3
    by_bytes = log.ranges(before, to, topic, max_bytes=1)
    assert spans(by_bytes) == [(topic, 0, 3)]
    again = log.ranges(before, by_bytes.sequence, topic, max_bytes=1)
    assert again == by_bytes


def test_ranges_do_a_bounded_amount_of_work(server, log, monkeypatch):
    monkeypatch.setattr(limits, "LOG_RANGES_BATCHES_MAX", 7)
    topic, other = server.topic(), server.topic()
    before = log.offsets().sequence
    for _ in range(10):
        server.publish(other, b"x")
        server.publish(topic, b"a")
    to = log.offsets().sequence
    seen, at = 0, before
    while at < to:
        found = log.ranges(at, to, topic)
        assert at < found.sequence <= at + 7
        at, seen = found.sequence, seen + found.messages
    assert seen == 10


@pytest.mark.parametrize(("after", "to"), [(-1, 1), (2, 1), (0, -1)])
def test_what_is_no_range_of_commits(log, after, to):
    with pytest.raises(grpc.RpcError) as refused:
        log.ranges(after, to)
    assert code_of(refused) == "INVALID_ARGUMENT"


def test_commits_to_come_have_no_ranges(log):
    with pytest.raises(grpc.RpcError) as refused:
        log.ranges(0, log.offsets().sequence + 1_000_000)
    assert code_of(refused) == "OUT_OF_RANGE"


# Time.


def test_time_to_offset(start_server, engine):
    server = start_server(engine, ManualClock(1_000.0))
    with closing(LogClient(server)) as log:
        topic, other = server.topic(), server.topic()
        server.subscription(topic)
        for _ in range(3):
            server.publish(topic, b"a", b"b")
            server.advance(10)
        assert log.find(1_000.0, topic) == {topic: 0}
        assert log.find(1_000.1, topic) == {topic: 2}
        assert log.find(1_020.0, topic, other) == {topic: 4, other: 0}
        assert log.find(5_000.0, topic) == {topic: 6}
        assert log.find(0.0, topic) == {topic: 0}


# Reading.


def numbered(server, topic, *numbers):
    for number in numbers:
        server.publish(topic, b"x", **{"fanlog-publisher": "p", "fanlog-sequence": str(number)})


def test_places(server, log, monkeypatch):
    plain, topic = server.topic(), server.topic()
    reader = server.subscription(topic)
    server.publish(plain, b"x")
    assert log.places(plain, topic) == []
    numbered(server, topic, 1, 2)
    [one] = log.places(plain, topic)
    assert (one.topic, one.end, list(one.offsets)) == (topic, 2, [])
    # Offsets 2 and 3 wait for number 3, which is 5; 4 and 6 are the numbers 8 and 7, held back.
    numbered(server, topic, 5, 4, 8, 3, 7)
    for one in (*log.places(topic), *log.places(subscription=reader)):
        assert one.partition == log.range_of(topic).partition
        assert one.end == 7
        assert list(zip(one.offsets, one.anchors, strict=True)) == [(3, 5), (2, 5), (6, 7), (4, 7)]
    monkeypatch.setattr(limits, "PLACES_MAX", 3)
    with pytest.raises(grpc.RpcError) as refused:
        log.places(topic)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "select fewer topics" in refused.value.details()


def test_batches_are_read_as_they_are_stored(server, log):
    topic = server.topic()
    server.publish(topic, b"a", b"b", colour="red")
    server.publish(topic, b"c", key="k")
    one = log.range_of(topic)
    assert log.data(one) == [b"a", b"b", b"c"]
    one.start, one.end = 1, 2
    [answer] = log.read(one)
    assert len(answer.batches) == 1
    assert data_of(answer.batches, one) == [b"b"]
    one.start = one.end = 3
    assert list(log.read(one)) == []


def test_many_ranges_in_one_call(server, log):
    topics = [server.topic() for _ in range(5)]
    for number, topic in enumerate(topics):
        if number:
            server.publish(topic, *[b"%d" % number] * number)
    ranges = [log.range_of(topic) for topic in topics]
    answers = list(log.read(*ranges))
    assert [answer.range for answer in answers] == [1, 2, 3, 4]
    assert log.data(*ranges) == [b"%d" % n for n in range(5) for _ in range(n)]


def test_answers_are_small(server, log):
    topic = server.topic()
    for number in range(20):
        server.publish(topic, *(b"%d" % number * 1000 for _ in range(60)))
    answers = list(log.read(log.range_of(topic)))
    assert len(answers) > 4
    assert max(answer.ByteSize() for answer in answers) < 1.2 * limits.LOG_READ_BYTES_MAX


def test_a_message_larger_than_an_answer(server, log):
    topic = server.topic()
    large = bytes(9_000_000)
    server.publish(topic, large)
    assert log.data(log.range_of(topic)) == [large]


def test_offsets_that_are_not_there(server, log):
    topic = server.topic()
    server.publish(topic, b"a", b"b")
    one = log.range_of(topic)
    one.end = 3
    with pytest.raises(grpc.RpcError) as refused:
        list(log.read(one))
    assert code_of(refused) == "OUT_OF_RANGE"
    assert "0 to 3" in refused.value.details()
    assert "0 to 2" in refused.value.details()


def test_what_is_trimmed_is_out_of_range(start_server, engine):
    server = start_server(engine, ManualClock(), topic_retention=0.0)
    with closing(LogClient(server)) as log:
        topic, subscription = server.topic_and_subscription()
        for _ in range(3):
            server.publish(topic, b"a", b"b")
        sequence = log.offsets().sequence
        whole = log.range_of(topic)
        received = server.pull(subscription)
        server.ack(subscription, received[:4])
        server.sweep()
        [now] = log.offsets(topic).partitions
        assert (now.start, now.hot_start, now.archived, now.end) == (4, 4, 4, 6)
        with pytest.raises(grpc.RpcError) as refused:
            list(log.read(whole))
        assert code_of(refused) == "OUT_OF_RANGE"
        assert "offsets 0 to 6" in refused.value.details()
        assert "4 to 6" in refused.value.details()
        found = log.ranges(0, sequence, topic)
        assert spans(found) == [(topic, 4, 6)]
        assert found.hot_after_sequence == sequence - 1
        server.ack(subscription, received[4:])
        server.sweep()
        server.publish(topic, b"c")
        found = log.ranges(sequence, log.offsets().sequence, topic)
        assert spans(found) == [(topic, 6, 7)]
        assert found.hot_after_sequence == sequence


def test_trimming_under_a_reader(start_server, engine):
    server = start_server(engine, ManualClock(), topic_retention=0.0)
    with closing(LogClient(server)) as log:
        topic, subscription = server.topic_and_subscription()
        for _ in range(40):
            server.publish(topic, *[bytes(100_000)] * 10)
        one = log.range_of(topic)
        answers = log.read(one)
        next(answers)
        # So much is between the two that gRPC has not taken it all.
        server.run(server.broker.subscriptions.delete(subscription))
        server.sweep()
        with pytest.raises(grpc.RpcError) as refused:
            list(answers)
        assert code_of(refused) == "OUT_OF_RANGE"
        assert "to 400 (exclusive)" in refused.value.details()


def test_a_slow_reader_holds_up_nobody(server, log):
    topic = server.topic()
    for _ in range(20):
        server.publish(topic, *[bytes(100_000)] * 10)
    slow = log.read(log.range_of(topic), timeout_s=60)
    next(slow)
    with closing(LogClient(server)) as other:
        assert len(other.data(log.range_of(topic))) == 200
    server.publish(topic, b"live")
    assert sum(len(answer.batches) for answer in slow) > 10


def test_damaged_offsets_are_named(start_server, tmp_path):
    server = start_server("embedded", ManualClock())
    topic = server.topic()
    for data in (b"a", b"b", b"c"):
        server.publish(topic, data * 100)
    with closing(LogClient(server)) as log:
        one = log.range_of(topic)
    server._stop_serving()
    damage_batch(tmp_path / "data-0", one.partition, 1)
    server.start()
    with closing(LogClient(server)) as log:
        [answer] = log.read(one)
        assert data_of(answer.batches, one) == [b"a" * 100, b"c" * 100]
        [damaged] = answer.damaged
        assert (damaged.partition, damaged.start, damaged.end) == (one.partition, 1, 2)


def test_readers_are_sent_away_when_the_broker_stops(start_server, engine):
    server = start_server(engine, ManualClock())
    with closing(LogClient(server)) as log:
        topic = server.topic()
        for _ in range(40):
            server.publish(topic, *[bytes(100_000)] * 10)
        answers = log.read(log.range_of(topic))
        next(answers)
        server.drain_broker()
        with pytest.raises(grpc.RpcError) as refused:
            list(answers)
        assert code_of(refused) == "UNAVAILABLE"


# What does not exist, and rubbish.


def test_unknown_names(server, log):
    nobody = f"{PATTERN}/nobody"
    topic = server.topic()
    for call in (
        lambda: log.offsets(nobody),
        lambda: log.ranges(0, 0, nobody),
        lambda: log.find(0, nobody),
        lambda: log.offsets(subscription=f"projects/{PROJECT}/subscriptions/nobody"),
        lambda: list(log.read(pb.Range(topic=nobody, partition=1, start=0, end=1))),
        lambda: list(log.read(pb.Range(topic=topic, partition=999_999, start=0, end=1))),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert code_of(refused) == "NOT_FOUND"


def test_a_topic_made_again_is_another(server, log):
    topic = server.topic()
    server.publish(topic, b"a")
    one = log.range_of(topic)
    server.publisher.delete_topic(topic=topic)
    server.publisher.create_topic(name=topic)
    server.publish(topic, b"b")
    with pytest.raises(grpc.RpcError) as refused:
        list(log.read(one))
    assert code_of(refused) == "NOT_FOUND"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_deleted_topic_is_read_while_somebody_needs_it(server, log, is_made_again):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"a")
    server.publisher.delete_topic(topic=topic)
    if is_made_again:
        server.publisher.create_topic(name=topic)
    [one] = log.offsets(subscription=subscription).partitions
    assert (one.topic, one.end, one.is_archived) == (topic, 1, False)
    with pytest.raises(grpc.RpcError, match=r"ranges\[0\]\.topic"):
        log.data(pb.Range(partition=one.partition, start=0, end=1))
    assert log.data(pb.Range(topic=topic, partition=one.partition, start=0, end=1)) == [b"a"]


@pytest.mark.parametrize(
    "request_pb",
    [
        pb.ReadRequest(),
        pb.ReadRequest(ranges=[pb.Range()]),
        pb.ReadRequest(ranges=[pb.Range(partition=1, start=0, end=1)]),
        pb.ReadRequest(ranges=[pb.Range(topic=SOME, partition=1, start=2, end=1)]),
        pb.ReadRequest(ranges=[pb.Range(topic=SOME, partition=1, start=-1, end=1)]),
        pb.ReadRequest(ranges=[pb.Range(topic=SOME, partition=1, start=0, end=2**62)]),
        pb.ReadRequest(ranges=[pb.Range(topic=SOME, partition=2**40, start=0, end=1)]),
        pb.ReadRequest(ranges=[pb.Range(topic="no name", partition=1, start=0, end=1)]),
        pb.ReadRequest(
            ranges=[pb.Range(topic=SOME, partition=1)] * (limits.LOG_READ_RANGES_MAX + 1)
        ),
    ],
)
def test_what_cannot_be_read(log, request_pb):
    with pytest.raises(grpc.RpcError) as refused:
        list(log.read_raw(request_pb.SerializeToString()))
    assert code_of(refused) == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "selection",
    [
        {"topics": ["rubbish"]},
        {"pattern": "rubbish"},
        {"pattern": f"{PATTERN}/a.**"},
        {"subscription": f"{PATTERN}/a"},
        {"topics": [f"{PATTERN}/abc"], "pattern": f"{PATTERN}/a.*"},
        {"topics": [f"{PATTERN}/abc"] * (limits.LOG_TOPICS_MAX + 1)},
    ],
)
def test_what_cannot_be_selected(log, selection):
    for call in (
        lambda: log.raw("GetOffsets", encoded(pb.GetOffsetsRequest, selection)),
        lambda: log.raw("GetRanges", encoded(pb.GetRangesRequest, selection)),
        lambda: log.raw("FindOffsets", encoded(pb.FindOffsetsRequest, selection)),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert code_of(refused) == "INVALID_ARGUMENT"


def encoded(kind: type, selection: dict) -> bytes:
    return kind(selection=pb.TopicSelection(**selection)).SerializeToString()


@pytest.mark.parametrize("method", ["GetOffsets", "GetRanges", "FindOffsets", "ReportArchived"])
def test_rubbish(log, method):
    with pytest.raises(grpc.RpcError) as refused:
        log.raw(method, b"\xff\xff\xff")
    assert code_of(refused) == "INVALID_ARGUMENT"
    with pytest.raises(grpc.RpcError) as refused:
        log.raw(method, b"\xfa\x07\x01a")
    assert code_of(refused) == "UNIMPLEMENTED"


def test_rubbish_to_read(log):
    with pytest.raises(grpc.RpcError) as refused:
        list(log.read_raw(b"\xff\xff\xff"))
    assert code_of(refused) == "INVALID_ARGUMENT"


def test_negative_limits(log):
    for fields in ({"max_messages": -1}, {"max_bytes": -1}):
        with pytest.raises(grpc.RpcError) as refused:
            log.ranges(0, 0, **fields)
        assert code_of(refused) == "INVALID_ARGUMENT"


def test_there_is_no_lake_to_report(log):
    with pytest.raises(grpc.RpcError) as refused:
        log.raw("ReportArchived", pb.ReportArchivedRequest(sequence=1).SerializeToString())
    assert code_of(refused) == "FAILED_PRECONDITION"
    assert refused.value.details() == "this broker has no lake"
