"""Peek, purge, backlogs and traces: over gRPC, and that nothing changes by looking."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.client import CallFailed, Client
from fanlog.client.inspection import InspectionClient
from server.conftest import PROJECT, RunningServer, unique
from server.test_dead_letters import World


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def looking(server: RunningServer) -> Iterator[InspectionClient]:
    client = Client(server.endpoint)
    yield InspectionClient(client)
    client.close()


def data(found: Any) -> list[bytes]:
    return [one.message.data for one in found]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def states(found: Any) -> list[str]:
    return [one.state for one in found]


def stamp(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromMicroseconds(round(seconds * 1e6))
    return found


def refused(status: str, call: Any, *args: Any, **fields: Any) -> str:
    def called() -> None:
        found = call(*args, **fields)
        if isinstance(found, Iterator):
            list(found)

    with pytest.raises(CallFailed) as caught:
        called()
    assert caught.value.status == status
    return caught.value.message


class TestPeek:
    def test_messages_are_shown_and_nothing_is_taken(self, server, looking):
        topic, name = server.topic_and_subscription()
        ids = server.publish(topic, *numbered(3), key="k", colour="red")
        for _ in range(2):
            found = list(looking.peek(name))
            assert data(found) == numbered(3)
            assert states(found) == ["BACKLOG"] * 3
            assert [one.message.message_id for one in found] == ids
            assert found[0].message.attributes == {"colour": "red"}
            assert found[0].message.ordering_key == "k"
            assert found[0].topic == topic
        received = server.pull(name)
        assert data(received) == numbered(3)
        assert [one.delivery_attempt for one in received] == [0] * 3

    def test_where_each_message_stands(self, server, looking):
        topic = server.topic()
        name = server.subscription(
            topic,
            retry_policy={"minimum_backoff": {"seconds": 100}, "maximum_backoff": {"seconds": 100}},
        )
        server.publish(topic, *numbered(4))
        held = server.pull(name, 3)
        server.ack(name, held[:1])
        server.nack(name, held[1:2])
        leased_until = stamp(server.clock.now() + 10)
        found = list(looking.peek(name))
        assert data(found) == numbered(3, 1)
        assert states(found) == ["DELAYED", "OUTSTANDING", "BACKLOG"]
        assert found[0].failed_deliveries == 1
        waits_s = found[0].until.seconds - server.clock.now()
        assert 99 <= waits_s <= 126
        assert found[1].until == leased_until
        assert not found[2].HasField("until")

    def test_what_waits_behind_an_earlier_one_of_its_key(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, enable_message_ordering=True)
        ids = [*server.publish(topic, *numbered(2), key="a"), *server.publish(topic, b"2", key="b")]
        server.pull(name, 1)
        found = list(looking.peek(name))
        assert [one.behind_message_id for one in found] == ["", ids[0], ""]

    def test_pages_begin_where_the_last_one_ended(self, server, looking):
        topic, name = server.topic_and_subscription()
        server.publish(topic, *numbered(7))
        server.publish(topic, *numbered(5, 7))
        assert data(looking.peek(name, page_size=5)) == numbered(12)

    @pytest.mark.parametrize("size", [600_000, 5_000_000])
    def test_large_messages_fill_an_answer(self, server, looking, size):
        topic, name = server.topic_and_subscription()
        for _ in range(3):
            server.publish(topic, b"x" * size)
        assert [len(found) for found in data(looking.peek(name, page_size=1_000))] == [size] * 3

    def test_from_a_message_or_a_time_on(self, server, looking):
        topic, name = server.topic_and_subscription()
        ids = server.publish(topic, *numbered(2))
        server.advance(60)
        ids += server.publish(topic, b"2")
        assert data(looking.peek(name, message_id=ids[1])) == [b"1", b"2"]
        assert data(looking.peek(name, time=stamp(server.clock.now() - 30))) == [b"2"]
        assert data(looking.peek(name, time=stamp(server.clock.now() + 1))) == []
        assert data(looking.peek(name, time=stamp(0))) == numbered(3)

    def test_a_filter_is_asked_and_learns_nothing(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, filter='attributes.a = "1"')
        for number in range(6):
            server.publish(topic, b"%d" % number, a=str(number % 2))
        [share] = server.broker.hard.shares_of(server.broker.hard.catalog.subscription(name))
        judged = share.routed_to
        assert data(looking.peek(name, page_size=2)) == [b"1", b"3", b"5"]
        assert share.routed_to == judged
        assert data(server.pull(name)) == [b"1", b"3", b"5"]

    def test_the_topics_of_a_pattern(self, server, looking):
        prefix = unique("peek")
        pattern = f"projects/{PROJECT}/topics/{prefix}.#"
        names = [f"projects/{PROJECT}/topics/{prefix}.{one}" for one in "abc"]
        topics = [server.topic(name=name) for name in names]
        name = server.subscription(pattern)
        ids = [server.publish(topic, *numbered(2)) for topic in topics]
        found = list(looking.peek(name, page_size=1))
        assert data(found) == numbered(2) * 3
        assert [one.topic for one in found] == [topic for topic in topics for _ in range(2)]
        assert found[0].message.attributes["fanlog-topic"] == topics[0]
        assert data(looking.peek(name, page_size=1, message_id=ids[1][0])) == numbered(2)

    def test_who_pushes_is_looked_at_as_well(self, server, looking):
        topic = server.topic()
        name = server.subscription(
            topic, push_config={"push_endpoint": "http://127.0.0.1:1/nobody"}
        )
        server.publish(topic, b"0")
        assert data(looking.peek(name)) == [b"0"]

    def test_what_it_refuses(self, server, looking):
        topic, name = server.topic_and_subscription()
        [other] = server.publish(server.topic(), b"x")
        [own] = server.publish(topic, b"x")
        for size in (-1, 1_001):
            assert "max_messages" in refused("INVALID_ARGUMENT", looking.peek, name, page_size=size)
        for bad in ("", "abc", "-1", "1" * 40):
            refused("INVALID_ARGUMENT", looking.peek, name, message_id=bad)
        assert "no topic that" in refused("INVALID_ARGUMENT", looking.peek, name, message_id=other)
        ahead = str(int(own) + 5)
        assert "not published yet" in refused(
            "INVALID_ARGUMENT", looking.peek, name, message_id=ahead
        )
        refused("NOT_FOUND", looking.peek, f"projects/{PROJECT}/subscriptions/nobody")
        server.publisher.detach_subscription(request={"subscription": name})
        assert "detached" in refused("FAILED_PRECONDITION", looking.peek, name)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_peek_shows_what_pulls_then_get(server, looking, seed, is_ordered):
    """After any life: what can be delivered now comes as it was shown, and all else is told why."""
    rng = random.Random(f"{seed} {is_ordered}")
    topic = server.topic()
    name = server.subscription(
        topic,
        enable_message_ordering=is_ordered,
        filter='attributes.a != "0"' if rng.random() < 0.5 else "",
        retry_policy={"minimum_backoff": {"seconds": 5}, "maximum_backoff": {"seconds": 50}},
    )
    for number in range(15):
        key = rng.choice(["", "x", "y"]) if is_ordered else ""
        server.publish(topic, b"%d" % number, key=key, a=str(rng.randrange(3)))
        if rng.random() < 0.5:
            held = server.pull(name, rng.randint(1, 3))
            for one in held:
                rng.choice([server.ack, server.nack, lambda *_: None])(name, [one])
        if rng.random() < 0.2:
            server.advance(rng.choice([1.0, 11.0, 60.0]))
    found = list(looking.peek(name, page_size=rng.choice([1, 4, 100])))
    ready = [
        one.message.message_id
        for one in found
        if one.state == "BACKLOG" and not one.behind_message_id
    ]
    got: list[str] = []
    while some := server.pull(name, 1 if is_ordered else 5):
        got += [one.message.message_id for one in some]
    if is_ordered:
        # A key goes on when its first message is out: then what is behind that waits no more.
        assert set(ready) == set(got)
    else:
        assert ready == got
    held_back = {one.message.message_id for one in found} - set(got)
    assert {one.message.message_id for one in looking.peek(name) if one.state != "OUTSTANDING"} <= (
        held_back
    )


class TestPurge:
    def test_everything_is_acknowledged_and_counted(self, server, looking):
        topic, name = server.topic_and_subscription()
        other = server.subscription(topic)
        server.publish(topic, *numbered(5))
        server.ack(name, server.pull(name, 1))
        server.pull(name, 2)
        dry = looking.purge(name, dry_run=True)
        assert (dry.purged, dry.outstanding, dry.dry_run) == (4, 2, True)
        assert len(list(looking.peek(name))) == 4
        done = looking.purge(name)
        assert (done.purged, done.outstanding, done.dry_run) == (4, 2, False)
        assert list(looking.peek(name)) == server.pull(name) == []
        again = looking.purge(name)
        assert (again.purged, again.outstanding) == (0, 0)
        assert data(server.pull(other)) == numbered(5)
        server.publish(topic, b"new")
        assert data(server.pull(name)) == [b"new"]
        assert server.metric("fanlog_purged_total", name) == 4

    def test_leases_that_were_purged_are_over(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, enable_exactly_once_delivery=True)
        server.publish(topic, *numbered(4))
        [first, _] = server.pull(name, 2)
        rest = server.pull(name, 1)
        assert looking.purge(name, message_id=rest[0].message.message_id).outstanding == 2
        for settle in (server.ack, server.nack):
            with pytest.raises(FailedPrecondition):
                settle(name, [first])
        server.ack(name, rest)
        assert data(server.pull(name)) == [b"3"]
        server.advance(11)
        assert data(server.pull(name)) == [b"3"]

    def test_at_least_once_a_late_acknowledgement_changes_nothing(self, server, looking):
        topic, name = server.topic_and_subscription()
        server.publish(topic, *numbered(2))
        held = server.pull(name)
        looking.purge(name)
        server.ack(name, held[:1])
        server.nack(name, held[1:])
        server.advance(11)
        assert server.pull(name) == []

    def test_keys_go_on_behind_what_was_purged(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, enable_message_ordering=True)
        ids = server.publish(topic, *numbered(4), key="k")
        server.pull(name, 1)
        assert server.pull(name) == []
        assert looking.purge(name, message_id=ids[2]).purged == 2
        assert data(server.pull(name, 1)) == [b"2"]

    def test_what_was_published_before_a_time(self, server, looking):
        topic, name = server.topic_and_subscription()
        server.publish(topic, *numbered(2))
        server.advance(60)
        server.publish(topic, b"2")
        assert looking.purge(name, time=stamp(server.clock.now() - 30)).purged == 2
        assert data(looking.peek(name)) == [b"2"]

    def test_attempts_behind_it_go_on(self, server, looking):
        world = World(server, maximum=5)
        ids = server.publish(world.topic, *numbered(2))
        world.fail(2)
        looking.purge(world.subscription, message_id=ids[1])
        [received] = server.pull(world.subscription)
        assert (received.message.data, received.delivery_attempt) == (b"1", 3)

    def test_what_a_filter_leaves_out_is_not_counted(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, filter='attributes.a = "1"')
        for number in range(6):
            server.publish(topic, b"x", a=str(number % 2))
        assert looking.purge(name, dry_run=True).purged == 3
        assert looking.purge(name).purged == 3

    def test_a_snapshot_brings_all_of_it_back(self, server, looking):
        topic, name = server.topic_and_subscription()
        server.publish(topic, *numbered(3))
        snapshot = f"projects/{PROJECT}/snapshots/{unique('snap')}"
        server.subscriber.create_snapshot(request={"name": snapshot, "subscription": name})
        looking.purge(name)
        server.subscriber.seek(request={"subscription": name, "snapshot": snapshot})
        assert data(server.pull(name)) == numbered(3)

    def test_one_topic_of_a_pattern(self, server, looking):
        prefix = unique("purge")
        topics = [
            server.topic(name=f"projects/{PROJECT}/topics/{prefix}.{one}") for one in ("a", "b")
        ]
        name = server.subscription(f"projects/{PROJECT}/topics/{prefix}.#")
        ids = [server.publish(topic, *numbered(3)) for topic in topics]
        assert looking.purge(name, message_id=ids[1][2]).purged == 2
        assert looking.purge(name).purged == 4

    def test_what_it_refuses(self, server, looking):
        topic, name = server.topic_and_subscription()
        [own] = server.publish(topic, b"x")
        [other] = server.publish(server.topic(), b"x")
        refused("INVALID_ARGUMENT", looking.purge, name, message_id="")
        refused("INVALID_ARGUMENT", looking.purge, name, message_id=other)
        refused("INVALID_ARGUMENT", looking.purge, name, message_id=str(int(own) + 2))
        refused("NOT_FOUND", looking.purge, f"projects/{PROJECT}/subscriptions/nobody")
        assert len(list(looking.peek(name))) == 1


class TestBacklog:
    def test_a_small_backlog_is_counted_exactly(self, server, looking):
        topic, name = server.topic_and_subscription()
        server.publish(topic, b"x" * 100)
        server.advance(30)
        server.publish(topic, b"x" * 50, b"x" * 25)
        server.advance(5)
        server.pull(name, 1)
        found = looking.backlog(name)
        # Data, and two tags with their lengths.
        assert (found.messages, found.bytes) == (3, 104 + 54 + 29)
        assert [found.messages_estimated, found.bytes_estimated, found.detached] == [False] * 3
        assert (found.outstanding, found.delayed, found.lag_messages) == (1, 0, 3)
        assert found.oldest_unacked_age.ToMilliseconds() == 35_000
        assert found.lag.ToMilliseconds() == 30_000
        assert server.metric("fanlog_lag_messages", name) == 3
        server.ack(name, server.pull(name))
        server.advance(11)
        server.ack(name, server.pull(name))
        found = looking.backlog(name)
        assert (found.messages, found.bytes, found.lag_messages) == (0, 0, 0)
        assert found.lag.ToMilliseconds() == found.oldest_unacked_age.ToMilliseconds() == 0

    def test_a_large_one_is_estimated_and_says_so(self, server, looking):
        topic, name = server.topic_and_subscription()
        for _ in range(3):
            server.publish(topic, *[b"x" * 1_000] * 500)
        found = looking.backlog(name)
        assert (found.messages, found.bytes_estimated) == (1_500, True)
        assert found.bytes == pytest.approx(1_500 * 1_006, rel=0.02)
        half = server.pull(name, 750)
        server.ack(name, half)
        assert looking.backlog(name).bytes == pytest.approx((1_500 - len(half)) * 1_006, rel=0.02)
        metric = server.metric("fanlog_backlog_bytes", name)
        assert metric == pytest.approx(looking.backlog(name).bytes, rel=0.02)

    def test_what_the_filter_has_not_judged_may_be_fewer(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, filter='attributes.a = "1"')
        for number in range(6):
            server.publish(topic, b"x", a=str(number % 2))
        before = looking.backlog(name)
        assert (before.messages, before.messages_estimated) == (6, True)
        server.pull(name)
        after = looking.backlog(name)
        assert (after.messages, after.messages_estimated) == (3, False)

    def test_by_topic_of_a_pattern(self, server, looking):
        prefix = unique("behind")
        topics = [
            server.topic(name=f"projects/{PROJECT}/topics/{prefix}.{one}")
            for one in ("a", "b", "c")
        ]
        name = server.subscription(f"projects/{PROJECT}/topics/{prefix}.#")
        server.publish(topics[0], b"x")
        server.advance(10)
        server.publish(topics[1], *numbered(4))
        found = looking.backlog(name, by_topic=True)
        assert [(one.topic, one.messages) for one in found.topics] == [
            (topics[1], 4),
            (topics[0], 1),
        ]
        assert found.messages == 5
        assert [one.oldest_unacked_age.ToMilliseconds() for one in found.topics] == [0, 10_000]
        assert not looking.backlog(name).topics

    def test_all_of_a_project(self, server, looking):
        project = unique("project")
        topic = server.topic(name=f"projects/{project}/topics/one")
        names = [
            server.subscription(topic, name=f"projects/{project}/subscriptions/sub{number}")
            for number in range(3)
        ]
        server.publish(topic, b"x")
        server.publisher.detach_subscription(request={"subscription": names[2]})
        found = list(looking.backlogs(f"projects/{project}"))
        assert [(one.subscription, one.messages) for one in found] == [
            (names[0], 1),
            (names[1], 1),
            (names[2], 0),
        ]
        assert [one.detached for one in found] == [False, False, True]
        refused("INVALID_ARGUMENT", looking.backlogs, "nonsense")
        refused("NOT_FOUND", looking.backlog, f"projects/{PROJECT}/subscriptions/nobody")
