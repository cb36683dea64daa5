"""Reopen: acknowledged messages are delivered again, by every surface."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import FailedPrecondition
from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.core.records import RememberedAnswer
from fanlog.errors import CommitFailed
from server.replaying import (
    FACES,
    Refused,
    data,
    face_of,
    numbered,
    partition_of,
    subscription,
    taken,
    topic,
)

HOUR_S = 3600
DAY_S = 24 * HOUR_S


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture(params=FACES)
def face(server, request):
    found = face_of(server, request.param)
    yield found
    found.close()


@pytest.fixture
def grpc_face(server):
    found = face_of(server, "grpc")
    yield found
    found.close()


def retained(server, **fields):
    """A topic that keeps what was acknowledged, and a subscription on it."""
    on = topic(server, message_retention_duration=timedelta(days=7))
    return on, subscription(server, on, **fields)


def moment(server):
    return datetime.fromtimestamp(server.clock.now(), UTC)


def read_all(server, count=5, **fields):
    """Messages that were all acknowledged: their topic, subscription and ids."""
    on, name = retained(server, **fields)
    ids = server.publish(on, *numbered(count))
    assert taken(server, name) == numbered(count)
    return on, name, ids


class TestWays:
    def test_by_message_ids(self, server, face):
        _, name, ids = read_all(server)
        answer = face.reopen(name, message_ids=[ids[3], ids[1]])
        assert (answer["reopened"], answer["skipped"]) == (2, 0)
        received = server.pull(name)
        assert data(received) == [b"1", b"3"]
        assert [one.message.message_id for one in received] == [ids[1], ids[3]]

    def test_by_a_range(self, server, face):
        _, name, ids = read_all(server)
        one = {"partition": partition_of(ids[0]), "start": 1, "end": 4}
        assert face.reopen(name, offsets=[one])["reopened"] == 3
        assert data(server.pull(name)) == [b"1", b"2", b"3"]

    def test_ranges_of_a_million_million(self, server, face, monkeypatch):
        """Only what the log has becomes a set: ranges stay ranges."""
        largest = []

        class Measured(BitMap64):
            def __init__(self, values=()):
                largest.append(len(values) if isinstance(values, range) else 0)
                super().__init__(values)

        monkeypatch.setattr("fanlog.broker.verbs.reopening.BitMap64", Measured)
        _, name, ids = read_all(server)
        partition = partition_of(ids[0])
        ranges = [
            {"partition": partition, "start": 0, "end": limits.OFFSET_MAX},
            {"partition": partition, "start": 2, "end": limits.OFFSET_MAX - 1},
            {"partition": partition, "start": 10**9, "end": 10**11},
        ]
        answer = face.reopen(name, offsets=ranges)
        assert answer["reopened"] == 5
        assert max(largest) == 5
        [ahead] = answer["skipped_messages"]
        assert (ahead["reason"], int(ahead["count"])) == (
            "not published yet",
            limits.OFFSET_MAX - 5,
        )
        assert int(answer["skipped"]) == limits.OFFSET_MAX - 5

    def test_too_many_sets(self, server, grpc_face):
        _, name, ids = read_all(server)
        one = {"partition": partition_of(ids[0]), "start": 0, "end": 1}
        with pytest.raises(Refused, match="10001 sets; 10000 are allowed at most"):
            grpc_face.reopen(name, offsets=[one] * 10_001)

    def test_by_a_bitmap(self, server, face):
        _, name, ids = read_all(server)
        bitmap = BitMap64([0, 2, 4]).serialize()
        is_grpc = type(face).__name__ == "Grpc"
        given = bitmap if is_grpc else base64.b64encode(bitmap).decode()
        offsets = [{"partition": partition_of(ids[0]), "bitmap": given}]
        assert face.reopen(name, offsets=offsets)["reopened"] == 3
        assert data(server.pull(name)) == [b"0", b"2", b"4"]

    def test_by_a_window(self, server, face):
        on, name = retained(server)
        times = []
        for one in numbered(5):
            times.append(moment(server))
            server.publish(on, one)
            server.advance(HOUR_S)
        taken(server, name)
        assert face.reopen(name, start_time=times[1], end_time=times[3])["reopened"] == 2
        assert taken(server, name) == [b"1", b"2"]
        assert face.reopen(name, start_time=times[3])["reopened"] == 2
        assert taken(server, name) == [b"3", b"4"]
        assert face.reopen(name, end_time=times[1])["reopened"] == 1
        assert taken(server, name) == [b"0"]


class TestRefused:
    def test_nothing_or_two_things_are_asked_for(self, server, face):
        _, name, ids = read_all(server)
        for what in ({}, {"message_ids": ids, "start_time": moment(server)}):
            with pytest.raises(
                Refused, match="one of offsets, message_ids and a window"
            ) as refused:
                face.reopen(name, **what)
            assert refused.value.status == "INVALID_ARGUMENT"
        assert taken(server, name) == []

    def test_messages_of_others(self, server, face):
        _, name, _ = read_all(server)
        _, _, ids = read_all(server)
        with pytest.raises(Refused, match="of no topic that"):
            face.reopen(name, message_ids=ids)

    @pytest.mark.parametrize(
        ("what", "sentence"),
        [
            ({"message_ids": ["x"]}, "is not an id of this service"),
            ({"offsets": [{"partition": 0, "start": 0, "end": 1}]}, "is no partition"),
            ({"offsets": [{"partition": 1, "start": 3, "end": 3}]}, "no range of offsets"),
            ({"offsets": [{"partition": 1, "start": -1, "end": 3}]}, "no range of offsets"),
            (
                {"offsets": [{"partition": 1, "start": 0, "end": limits.OFFSET_MAX + 1}]},
                "no range of offsets",
            ),
            ({"request_id": "x" * 257, "message_ids": ["2000000000001"]}, "at most 256"),
        ],
    )
    def test_nonsense(self, server, face, what, sentence):
        _, name, _ = read_all(server)
        with pytest.raises(Refused, match=sentence) as refused:
            face.reopen(name, **what)
        assert refused.value.status == "INVALID_ARGUMENT"

    @pytest.mark.parametrize(
        "raw", [b"x", b"\1" * 20, BitMap64([1, 2, 3]).serialize()[:-1], b"\0" * 7]
    )
    def test_what_is_no_bitmap(self, server, grpc_face, raw):
        _, name, ids = read_all(server)
        offsets = [{"partition": partition_of(ids[0]), "bitmap": raw}]
        with pytest.raises(Refused, match="not a 64-bit Roaring bitmap"):
            grpc_face.reopen(name, offsets=offsets)

    def test_a_window_that_ends_before_it_begins(self, server, grpc_face):
        _, name, _ = read_all(server)
        now = moment(server)
        with pytest.raises(Refused, match="later than start_time"):
            grpc_face.reopen(name, start_time=now, end_time=now - timedelta(seconds=1))

    def test_a_detached_subscription(self, server, face):
        _, name, ids = read_all(server)
        server.publisher.detach_subscription(request={"subscription": name})
        with pytest.raises(Refused, match="is detached") as refused:
            face.reopen(name, message_ids=ids)
        assert refused.value.status == "FAILED_PRECONDITION"

    def test_no_such_subscription(self, server, face):
        with pytest.raises(Refused, match="does not exist") as refused:
            face.reopen("projects/fanlog/subscriptions/nobody", message_ids=["2000000000001"])
        assert refused.value.status == "NOT_FOUND"


class TestSkipped:
    def test_what_is_not_acknowledged(self, server, grpc_face):
        on, name = retained(server)
        ids = server.publish(on, *numbered(5))
        received = server.pull(name)
        server.ack(name, received[:2])
        answer = grpc_face.reopen(name, message_ids=ids)
        assert (answer["reopened"], answer["skipped"]) == (2, 3)
        # Leases are as they were: only what was acknowledged comes.
        again = server.pull(name)
        assert data(again) == [b"0", b"1"]
        server.ack(name, received[2:])
        server.ack(name, again)
        assert taken(server, name) == []

    def test_what_is_gone_from_the_log(self, lean_server):
        on = topic(lean_server)
        name = subscription(lean_server, on)
        ids = lean_server.publish(on, *numbered(3))
        taken(lean_server, name)
        lean_server.sweep()
        later = lean_server.publish(on, b"later")
        taken(lean_server, name)
        face = face_of(lean_server, "grpc")
        answer = face.reopen(name, message_ids=[*ids, *later])
        face.close()
        assert (answer["reopened"], answer["skipped"]) == (1, 3)
        assert taken(lean_server, name) == [b"later"]

    def test_what_was_not_published_yet(self, server, grpc_face):
        _, name, ids = read_all(server, 2)
        one = {"partition": partition_of(ids[0]), "start": 0, "end": 10}
        answer = grpc_face.reopen(name, offsets=[one])
        assert (answer["reopened"], answer["skipped"]) == (2, 8)


class TestOthers:
    def test_another_subscription_is_not_disturbed(self, server, grpc_face):
        on, name = retained(server)
        other = subscription(server, on)
        ids = server.publish(on, *numbered(3))
        taken(server, name)
        taken(server, other)
        grpc_face.reopen(name, message_ids=ids)
        assert taken(server, other) == []
        assert taken(server, name) == numbered(3)

    def test_a_stream_that_waits_gets_them(self, server, grpc_face):
        _, name, ids = read_all(server)
        stream = server.open_stream(name)
        server.await_waiters(name, 1)
        grpc_face.reopen(name, message_ids=ids[:2])
        assert data(stream.messages(2)) == [b"0", b"1"]

    def test_an_ack_id_from_before_is_void(self, server, grpc_face):
        on, name = retained(server)
        ids = server.publish(on, b"x")
        held = server.pull(name)
        server.ack(name, held)
        grpc_face.reopen(name, message_ids=ids)
        server.ack(name, held)
        again = server.pull(name)
        assert data(again) == [b"x"]
        server.ack(name, held)
        server.nack(name, again)
        assert taken(server, name) == [b"x"]

    def test_it_is_counted(self, server, grpc_face):
        _, name, ids = read_all(server)
        grpc_face.reopen(name, message_ids=ids[:2])
        assert server.metric("fanlog_reopened_total", name) == 2
        assert server.metric("fanlog_backlog_messages", name) == 2


def reasons(answer):
    """How many were skipped, by the first word of why."""
    return {one["reason"].split()[0]: int(one["count"]) for one in answer["skipped_messages"]}


class TestReasons:
    def test_each_is_skipped_for_a_reason_in_words(self, server, face):
        on, name, ids = read_all(server)
        ids += server.publish(on, b"5", b"6")
        one = {"partition": partition_of(ids[0]), "start": 3, "end": 12}
        answer = face.reopen(name, offsets=[one], request_id="a")
        assert (answer["reopened"], answer["skipped"]) == (2, 7)
        assert reasons(answer) == {"still": 2, "not": 5}
        [still] = [one for one in answer["skipped_messages"] if int(one["count"]) == 2]
        assert still["reason"] == "still unacknowledged, so that they are delivered anyway"
        # Asked again, it is told again.
        assert face.reopen(name, offsets=[one], request_id="a") == answer

    def test_what_is_gone(self, server, face):
        on = topic(server)
        name = subscription(server, on)
        ids = server.publish(on, *numbered(3))
        assert len(taken(server, name)) == 3
        server.advance(8 * DAY_S)
        server.sweep()
        answer = face.reopen(name, message_ids=ids)
        assert (answer["reopened"], reasons(answer)) == (0, {"gone:": 3})

    def test_a_request_from_before_reasons_were_kept(self, server, grpc_face):
        _, name, ids = read_all(server)
        owner = server.broker.hard.catalog.subscription(name).id
        old = RememberedAnswer(reopened=1, skipped=3)
        requests, until_s = server.broker.hard.requests, server.clock.now() + 60
        [record] = requests.remember(owner, "old", old, expires_s=until_s, most=9)
        requests.apply(record)
        answer = grpc_face.reopen(name, message_ids=ids, request_id="old")
        assert (answer["reopened"], answer["skipped"]) == (1, 3)
        assert answer["skipped_messages"][0]["reason"] == "skipped for a reason that was not kept"

    def test_reasons_outlive_a_restart(self, start_server):
        server = start_server(clock=ManualClock())
        _, name, ids = read_all(server)
        face = face_of(server, "grpc")
        first = face.reopen(name, message_ids=[ids[0], str(int(ids[-1]) + 1)], request_id="a")
        face.close()
        server.restart()
        face = face_of(server, "grpc")
        assert face.reopen(name, message_ids=ids, request_id="a") == first
        assert reasons(first) == {"not": 1}
        face.close()


class TestRequestId:
    def test_the_same_request_changes_nothing_once_it_was_done(self, server, face):
        _, name, ids = read_all(server)
        first = face.reopen(name, message_ids=ids[:2], request_id="a")
        assert taken(server, name) == [b"0", b"1"]
        assert face.reopen(name, message_ids=ids[:2], request_id="a") == first
        assert taken(server, name) == []
        assert face.reopen(name, message_ids=ids[:2], request_id="b")["reopened"] == 2

    def test_of_another_subscription_it_is_another(self, server, grpc_face):
        _, name, ids = read_all(server)
        _, other, others = read_all(server)
        grpc_face.reopen(name, message_ids=ids, request_id="a")
        assert grpc_face.reopen(other, message_ids=others, request_id="a")["reopened"] == 5

    def test_it_is_forgotten_in_time(self, server, grpc_face):
        _, name, ids = read_all(server)
        grpc_face.reopen(name, message_ids=ids, request_id="a")
        taken(server, name)
        owner = server.broker.hard.catalog.subscription(name).id
        server.advance(limits.REQUEST_ID_S - 60)
        server.sweep()
        assert server.broker.hard.requests.find(owner, "a", 0.0).reopened == 5
        server.advance(61)
        server.sweep()
        assert server.broker.hard.requests.find(owner, "a", 0.0) is None

    def test_it_goes_with_its_subscription(self, server, grpc_face):
        _, name, ids = read_all(server)
        before = len(server.broker.hard.requests)
        grpc_face.reopen(name, message_ids=ids, request_id="a")
        server.subscriber.delete_subscription(subscription=name)
        assert len(server.broker.hard.requests) == before


class TestRetention:
    def test_reopened_messages_are_within_retention_from_then_on(self, server, grpc_face):
        on = topic(server, message_retention_duration=timedelta(days=30))
        name = subscription(server, on, message_retention_duration=timedelta(days=1))
        # What a topic retains is there for all: the topic is let go of below.
        ids = server.publish(on, *numbered(3))
        taken(server, name)
        server.advance(10 * DAY_S)
        grpc_face.reopen(name, message_ids=ids[:2])
        server.publisher.update_topic(
            topic={"name": on}, update_mask={"paths": ["message_retention_duration"]}
        )
        server.sweep()
        server.advance(DAY_S - 60)
        server.sweep()
        assert data(server.pull(name, 1)) == [b"0"]
        server.advance(61)
        server.sweep()
        assert server.pull(name) == []
        assert server.metric("fanlog_backlog_messages", name) == 0

    def test_what_is_beside_them_expires(self, server, grpc_face):
        on = topic(server)
        name = subscription(server, on, message_retention_duration=timedelta(days=1))
        server.publish(on, b"first")
        ids = server.publish(on, *numbered(2))
        held = server.pull(name)
        server.ack(name, held[1:])
        server.advance(DAY_S - 60)
        grpc_face.reopen(name, message_ids=ids)
        server.advance(61)
        server.sweep()
        assert taken(server, name) == numbered(2)


class TestOrder:
    @pytest.mark.parametrize("is_exact", [False, True], ids=["at-least-once", "exactly-once"])
    def test_a_reopened_message_comes_before_later_ones_of_its_key(
        self, server, grpc_face, is_exact
    ):
        on, name = retained(
            server, enable_message_ordering=True, enable_exactly_once_delivery=is_exact
        )
        ids = server.publish(on, *numbered(3), key="k")
        taken(server, name)
        server.publish(on, *numbered(3, 3), key="k")
        held = server.pull(name, 1)
        assert data(held) == [b"3"]
        grpc_face.reopen(name, message_ids=[ids[1]])
        # What is outstanding of the key is done with first, and its ack counts.
        assert server.pull(name) == []
        server.ack(name, held)
        assert taken(server, name) == [b"1", b"4", b"5"]

    def test_what_fails_comes_back_behind_it(self, server, grpc_face):
        on, name = retained(server, enable_message_ordering=True)
        ids = server.publish(on, *numbered(3), key="k")
        taken(server, name)
        server.publish(on, *numbered(2, 3), key="k")
        held = server.pull(name)
        assert data(held) == [b"3", b"4"]
        grpc_face.reopen(name, message_ids=[ids[0]])
        server.nack(name, held)
        assert taken(server, name) == [b"0", b"3", b"4"]

    def test_other_keys_go_on(self, server, grpc_face):
        on, name = retained(server, enable_message_ordering=True)
        ids = server.publish(on, b"a0", key="a")
        taken(server, name)
        server.publish(on, b"a1", key="a")
        held = server.pull(name)
        grpc_face.reopen(name, message_ids=ids)
        server.publish(on, b"b", key="b")
        server.publish(on, b"none")
        assert sorted(data(server.pull(name))) == [b"b", b"none"]
        server.ack(name, held)
        assert taken(server, name) == [b"a0"]


class TestFilter:
    def test_what_it_did_not_want_is_not_delivered(self, server, grpc_face):
        on, name = retained(server, filter='attributes.kind = "a"')
        first = server.publish(on, *numbered(3), kind="a")
        server.publish(on, *numbered(3, 3), kind="b")
        last = server.publish(on, *numbered(3, 6), kind="a")
        assert taken(server, name) == [*numbered(3), *numbered(3, 6)]
        one = {"partition": partition_of(first[0]), "start": 1, "end": 8}
        # Those it did not want may count as acknowledged, or not be judged to the end.
        assert grpc_face.reopen(name, offsets=[one])["reopened"] >= 4
        assert taken(server, name) == [b"1", b"2", b"6", b"7"]
        assert grpc_face.reopen(name, message_ids=[last[2]])["reopened"] == 1
        assert taken(server, name) == [b"8"]

    def test_messages_under_way_stay_so(self, server, grpc_face):
        on, name = retained(server, filter='attributes.kind = "a"')
        ids = server.publish(on, *numbered(3), kind="a")
        taken(server, name)
        server.publish(on, *numbered(3, 3), kind="a")
        held = server.pull(name, 2)
        grpc_face.reopen(name, message_ids=ids)
        assert taken(server, name) == [*numbered(3), b"5"]
        server.ack(name, held)
        assert taken(server, name) == []


class TestPattern:
    def test_all_its_topics(self, server, grpc_face):
        prefix = topic(server)
        names = [
            server.topic(name=f"{prefix}.{word}", message_retention_duration=timedelta(days=7))
            for word in ("a", "b", "c")
        ]
        name = subscription(server, f"{prefix}.*")
        start = moment(server)
        ids = [server.publish(one, one[-1].encode())[0] for one in names]
        assert sorted(taken(server, name)) == [b"a", b"b", b"c"]
        assert grpc_face.reopen(name, message_ids=ids[:2])["reopened"] == 2
        assert sorted(taken(server, name)) == [b"a", b"b"]
        assert grpc_face.reopen(name, start_time=start)["reopened"] == 3
        assert sorted(taken(server, name)) == [b"a", b"b", b"c"]

    def test_a_topic_that_is_gone_is_skipped(self, server, grpc_face):
        prefix = topic(server)
        gone = server.topic(name=f"{prefix}.gone")
        kept = server.topic(name=f"{prefix}.kept", message_retention_duration=timedelta(days=7))
        name = subscription(server, f"{prefix}.*")
        ids = [server.publish(one, b"x")[0] for one in (gone, kept)]
        taken(server, name)
        server.publisher.delete_topic(topic=gone)
        server.sweep()
        answer = grpc_face.reopen(name, message_ids=ids)
        assert (answer["reopened"], answer["skipped"]) == (1, 1)


class TestDurability:
    @pytest.fixture
    def own(self, start_server):
        return start_server("embedded", clock=ManualClock())

    def test_it_survives_a_restart(self, own):
        on, name = retained(own)
        ids = own.publish(on, *numbered(100))
        held = own.pull(name)
        own.ack(name, held)
        face = face_of(own, "grpc")
        one = {"partition": partition_of(ids[0]), "start": 10, "end": 90}
        first = face.reopen(name, offsets=[one], request_id="a")
        own.restart()
        # Ids from before it stay void.
        own.ack(name, held)
        received = own.pull(name, 30)
        assert data(received) == numbered(30, 10)
        own.ack(name, received)
        own.restart()
        assert face.reopen(name, offsets=[one], request_id="a") == first
        assert taken(own, name) == numbered(50, 40)
        assert face.reopen(name, offsets=[one])["reopened"] == 80
        face.close()

    def test_a_commit_that_fails_changes_nothing(self, own):
        on, name = retained(own)
        ids = own.publish(on, *numbered(3))
        taken(own, name)
        face = face_of(own, "grpc")
        own.store.failures.append(CommitFailed("the disk is on fire"))
        with pytest.raises(Refused) as refused:
            face.reopen(name, message_ids=ids, request_id="a")
        assert refused.value.status == "UNAVAILABLE"
        assert own.pull(name) == []
        assert face.reopen(name, message_ids=ids, request_id="a")["reopened"] == 3
        assert taken(own, name) == numbered(3)
        face.close()

    def test_a_snapshot_remembers_what_is_reopened(self, own):
        on, name = retained(own)
        ids = own.publish(on, *numbered(5))
        taken(own, name)
        face = face_of(own, "grpc")
        face.reopen(name, message_ids=ids[1:3])
        snapshot = own.subscriber.create_snapshot(
            name="projects/fanlog/snapshots/snap", subscription=name
        ).name
        assert taken(own, name) == [b"1", b"2"]
        own.restart()
        own.subscriber.seek(request={"subscription": name, "snapshot": snapshot})
        assert taken(own, name) == [b"1", b"2"]
        own.subscriber.delete_snapshot(snapshot=snapshot)
        face.close()

    def test_no_snapshot_is_made_of_what_is_old_and_reopened(self, own):
        on = topic(own, message_retention_duration=timedelta(days=30))
        name = subscription(own, on)
        ids = own.publish(on, *numbered(5))
        taken(own, name)
        request = {"name": "projects/fanlog/snapshots/old", "subscription": name}
        own.advance(8 * DAY_S)
        own.subscriber.create_snapshot(request=request)
        face = face_of(own, "grpc")
        face.reopen(name, message_ids=ids[1:3])
        # Its retention counts anew, its age does not: the snapshot would be over already.
        other = {"name": "projects/fanlog/snapshots/refused", "subscription": name}
        with pytest.raises(FailedPrecondition, match="too old: the snapshot would expire within"):
            own.subscriber.create_snapshot(request=other)
        # The one that was made before is as it was; and once they are acknowledged another is made.
        assert taken(own, name) == [b"1", b"2"]
        own.subscriber.create_snapshot(request=other)
        own.subscriber.seek(request={"subscription": name, "snapshot": request["name"]})
        assert own.pull(name) == []
        face.close()


def test_ten_million_offsets_are_a_few_small_records(start_server):
    """What a window costs is what it is, not what is in it: counted, not timed."""
    server = start_server("memory", clock=ManualClock())
    on, name = retained(server)
    [message_id] = server.publish(on, b"x")
    taken(server, name)
    partition = partition_of(message_id)
    count = 10_000_000
    share = server.broker.hard.share(server.broker.hard.catalog.subscription(name).id, partition)
    # As if so many had been published and acknowledged.
    server.broker.ledger._writer.ends[partition] = count
    share.cursor.apply_head(count)
    server.store.commits.clear()
    face = face_of(server, "grpc")
    one = {"partition": partition, "start": 0, "end": count}
    assert face.reopen(name, offsets=[one], request_id="a")["reopened"] == count
    [commit] = server.store.commits
    assert len(commit.state) <= count // limits.CURSOR_CHUNK_OFFSETS + 2
    assert sum(len(value or b"") + len(key) for key, value in commit.state.items()) < 20_000
    assert server.broker.hard.requests.find(share.settings.id, "a", 0.0).reopened == count
    face.close()
