"""Messages to be delivered later: never early, on time, and through all else that happens."""

from __future__ import annotations

import time

import pytest
from google.api_core.exceptions import InvalidArgument, ResourceExhausted, ServiceUnavailable
from google.pubsub_v1.types import DeadLetterPolicy

from fanlog import limits, times
from fanlog.broker.clock import ManualClock
from fanlog.errors import CommitFailed
from fanlog.log.api import Trim


def data(received):
    return [one.message.data for one in received]


def delayed(server, topic, *messages, seconds="60", key=""):
    return server.publish(topic, *messages, key=key, **{"fanlog-delay": seconds})


def take(server, subscription):
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


@pytest.fixture
def server(still_server):
    return still_server


def test_not_before_its_time_and_then_at_once(server):
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"late", seconds="1.5")
    server.publish(topic, b"now")
    assert take(server, subscription) == [b"now"]
    server.advance(1.49)
    assert take(server, subscription) == []
    server.advance(0.02)
    assert take(server, subscription) == [b"late"]
    assert take(server, subscription) == []


def test_at_a_time(server):
    topic, subscription = server.topic_and_subscription()
    at = times.of_ns(int((server.clock.now() + 5) * 1e9))
    server.publish(topic, b"x", **{"fanlog-deliver-at": at})
    server.advance(4.9)
    assert take(server, subscription) == []
    server.advance(0.2)
    assert take(server, subscription) == [b"x"]


def test_a_time_just_past_is_now(server):
    topic, subscription = server.topic_and_subscription()
    at = times.of_ns(int((server.clock.now() - 50) * 1e9))
    server.publish(topic, b"x", **{"fanlog-deliver-at": at})
    server.advance(0.01)
    assert take(server, subscription) == [b"x"]


def test_consumers_that_wait_are_woken(server):
    topic, subscription = server.topic_and_subscription()
    filtered = server.subscription(topic, filter='attributes:"fanlog-delay"')
    streams = [server.open_stream(subscription), server.open_stream(filtered)]
    delayed(server, topic, b"x", seconds="2")
    for name in (subscription, filtered):
        server.await_waiters(name, 1)
    server.advance(1)
    assert [stream.pending() for stream in streams] == [[], []]
    server.advance(1.1)
    for stream in streams:
        assert data(stream.messages(1)) == [b"x"]


def test_every_subscription_gets_it_at_the_same_time(server):
    topic, first = server.topic_and_subscription()
    second = server.subscription(topic, enable_message_ordering=True)
    third = server.subscription(topic, enable_exactly_once_delivery=True)
    unwanted = server.subscription(topic, filter='attributes.colour = "red"')
    delayed(server, topic, b"x")
    everyone = (first, second, third, unwanted)
    assert [take(server, one) for one in everyone] == [[], [], [], []]
    server.advance(61)
    assert [take(server, one) for one in everyone] == [[b"x"], [b"x"], [b"x"], []]


def test_a_delayed_message_holds_back_the_later_ones_of_its_key(server):
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=True)
    unordered = server.subscription(topic)
    server.publish(topic, b"a0", key="a")
    delayed(server, topic, b"a1", key="a")
    server.publish(topic, b"a2", b"a3", key="a")
    server.publish(topic, b"b0", key="b")
    assert take(server, subscription) == [b"a0", b"b0"]
    assert take(server, unordered) == [b"a0", b"a2", b"a3", b"b0"]
    server.advance(59)
    assert take(server, subscription) == []
    server.advance(2)
    assert take(server, subscription) == [b"a1", b"a2", b"a3"]
    assert take(server, unordered) == [b"a1"]


def test_times_out_of_order_within_a_key(server):
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=True)
    delayed(server, topic, b"1", seconds="20", key="a")
    delayed(server, topic, b"2", seconds="10", key="a")
    delayed(server, topic, b"keyless", seconds="15")
    server.advance(16)
    assert take(server, subscription) == [b"keyless"]
    server.advance(5)
    assert take(server, subscription) == [b"1", b"2"]


@pytest.mark.parametrize("ordering", [False, True])
def test_over_a_restart(start_server, ordering):
    server = start_server(clock=ManualClock())
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=ordering)
    key = "k" if ordering else ""
    delayed(server, topic, b"0", b"1", seconds="60", key=key)
    delayed(server, topic, b"2", seconds="30", key=key)
    server.publish(topic, b"now")
    server.restart()
    assert take(server, subscription) == [b"now"]
    server.advance(31)
    assert take(server, subscription) == ([] if ordering else [b"2"])
    server.sweep()
    server.restart()
    assert take(server, subscription) == []
    server.advance(30)
    assert take(server, subscription) == ([b"0", b"1", b"2"] if ordering else [b"0", b"1"])
    server.sweep()
    assert list(server.broker.hard.agendas) == []


def test_due_while_the_server_is_down(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"x")
    server.stop()
    server.clock.advance(100)
    server.start()
    server.advance(0.01)
    assert take(server, subscription) == [b"x"]


def test_over_a_failed_commit(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"kept")
    server.store.failures.append(CommitFailed("the disk says no"))
    with pytest.raises(ServiceUnavailable):
        delayed(server, topic, b"lost", seconds="5")
    server.publish(topic, b"now")
    assert take(server, subscription) == [b"now"]
    server.advance(6)
    assert take(server, subscription) == []
    server.advance(60)
    assert take(server, subscription) == [b"kept"]


def test_a_seek_does_not_make_it_due(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    before = server.clock.now() - 1
    delayed(server, topic, b"late")
    server.publish(topic, b"now")
    assert take(server, subscription) == [b"now"]
    server.subscriber.seek(
        request={"subscription": subscription, "time": times.parse(times.of_ns(int(before * 1e9)))}
    )
    assert take(server, subscription) == [b"now"]
    server.advance(61)
    assert take(server, subscription) == [b"late"]


def test_a_seek_past_it_acknowledges_it_and_one_back_opens_it_again(server):
    topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
    before = server.clock.now()
    delayed(server, topic, b"late")
    server.advance(1)
    after = server.clock.now()

    def seek(seconds):
        time = times.parse(times.of_ns(int(seconds * 1e9)))
        server.subscriber.seek(request={"subscription": subscription, "time": time})

    seek(after)
    server.advance(30)
    seek(before)
    assert take(server, subscription) == []
    server.advance(30)
    assert take(server, subscription) == [b"late"]
    delayed(server, topic, b"never")
    server.advance(1)
    seek(server.clock.now())
    server.advance(100)
    assert take(server, subscription) == []


def test_a_snapshot_has_it(server):
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"late")
    name = subscription.replace("subscriptions", "snapshots")
    server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
    server.advance(61)
    assert take(server, subscription) == [b"late"]
    server.subscriber.seek(request={"subscription": subscription, "snapshot": name})
    assert take(server, subscription) == [b"late"]


def test_it_is_not_trimmed_while_it_waits(server):
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"late", seconds=str(6 * 86400))
    server.publish(topic, b"now")
    assert take(server, subscription) == [b"now"]
    for _ in range(6):
        server.advance(86400 - 1)
        server.sweep()
    assert take(server, subscription) == []
    server.advance(10)
    assert take(server, subscription) == [b"late"]


def test_a_failed_one_is_dead_lettered_and_its_letter_is_not_delayed(server):
    dead, topic = server.topic(), server.topic()
    letters = server.subscription(dead)
    subscription = server.subscription(
        topic, dead_letter_policy=DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5)
    )
    delayed(server, topic, b"bad")
    server.advance(61)
    for _ in range(5):
        server.nack(subscription, server.await_pull(subscription))
    [letter] = server.await_pull(letters)
    assert letter.message.data == b"bad"
    assert "fanlog-delay" not in letter.message.attributes


def test_what_waits_does_not_hold_up_the_rest(server):
    topic, subscription = server.topic_and_subscription()
    for number in range(50):
        delayed(server, topic, b"late %d" % number, seconds=str(1000 - number))
        server.publish(topic, b"now %d" % number)
    assert take(server, subscription) == [b"now %d" % number for number in range(50)]
    server.advance(1001)
    assert sorted(take(server, subscription)) == sorted(b"late %d" % n for n in range(50))


def test_nacked_messages_come_back_with_those_that_are_due(server):
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"late", seconds="10")
    server.publish(topic, b"now")
    received = server.pull(subscription)
    server.advance(5)
    server.nack(subscription, received)
    assert data(server.pull(subscription)) == [b"now"]
    server.advance(6)
    assert data(server.pull(subscription)) == [b"late"]


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"fanlog-delay": "1", "fanlog-deliver-at": "2030-01-01T00:00:00Z"}, "both say when"),
        ({"fanlog-delay": "-1"}, r"fanlog-delay is '-1'; a number of seconds"),
        ({"fanlog-delay": "NaN"}, "a number of seconds"),
        ({"fanlog-delay": "1e3"}, "a number of seconds"),
        ({"fanlog-delay": ""}, "a number of seconds"),
        ({"fanlog-delay": "٣"}, "a number of seconds"),
        ({"fanlog-delay": "2678401"}, "at most 2678400 s are allowed"),
        ({"fanlog-delay": "999999999999"}, "a number of seconds"),
        ({"fanlog-delay": str(8 * 86400)}, "kept for 604800 s .the shortest retention"),
        ({"fanlog-deliver-at": "tomorrow"}, "an RFC 3339 time"),
        ({"fanlog-deliver-at": "1960-01-01T00:00:00Z"}, "is past"),
        ({"fanlog-deliver-at": "1970-01-12T13:45:00Z"}, "1970-01-12T13:45:00Z, which is past"),
        ({"fanlog-deliver-at": "9999-12-31T23:59:59Z"}, "kept for 604800 s"),
        ({"fanlog-dealy": "1"}, "did you mean 'fanlog-delay'"),
    ],
)
def test_refusals(server, attributes, says):
    topic, subscription = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match=rf"messages\[1\].attributes.*{says}"):
        server.publisher.publish(
            request={
                "topic": topic,
                "messages": [{"data": b"fine"}, {"data": b"not", "attributes": attributes}],
            },
            retry=None,
        )
    assert take(server, subscription) == []


def test_more_than_may_wait(server, monkeypatch):
    monkeypatch.setattr(limits, "PENDING_MAX", server.broker.due_times.pending + 2)
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"1", b"2", seconds="5")
    with pytest.raises(ResourceExhausted, match="messages wait for the time"):
        delayed(server, topic, b"3", seconds="5")
    server.publish(topic, b"now")
    assert take(server, subscription) == [b"now"]
    server.advance(6)
    assert take(server, subscription) == [b"1", b"2"]
    delayed(server, topic, b"3", seconds="5")


def test_repeated_with_a_dedup_id_it_is_one(server):
    topic, subscription = server.topic_and_subscription()
    for _ in range(2):
        server.publish(topic, b"x", **{"fanlog-delay": "5", "fanlog-dedup-id": "a"})
    server.publish(topic, b"y", **{"fanlog-dedup-id": "b"})
    assert take(server, subscription) == [b"y"]
    server.advance(6)
    assert take(server, subscription) == [b"x"]


def test_a_topic_that_is_deleted_takes_its_agenda_along(server):
    topic = server.topic()
    delayed(server, topic, b"x")
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    assert server.broker.hard.agendas.find(partition) is not None
    server.publisher.delete_topic(request={"topic": topic})
    server.sweep()
    assert server.broker.hard.agendas.find(partition) is None
    server.advance(100)


def test_what_was_trimmed_or_cannot_be_read_does_not_hold_up_a_start(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    delayed(server, topic, b"trimmed")
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    agendas = server.broker.hard.agendas

    async def trim() -> None:
        transaction = server.broker.ledger.begin()
        transaction.trim([Trim(partition=partition, before=1)])
        await transaction.commit()

    delayed(server, topic, b"late")
    server.run(trim())
    assert agendas.find(partition).pending
    server.restart()
    assert not server.broker.hard.agendas.find(partition).unread
    server.advance(61)
    assert take(server, subscription) == [b"late"]


@pytest.mark.parametrize("ordering", [False, True])
def test_a_lease_that_outlives_a_restart_keeps_what_was_due_before(start_server, ordering):
    server = start_server(clock=ManualClock())
    topic = server.topic()
    subscription = server.subscription(
        topic,
        enable_exactly_once_delivery=True,
        enable_message_ordering=ordering,
        ack_deadline_seconds=600,
    )
    delayed(server, topic, b"x", seconds="1")
    server.advance(2)
    received = server.pull(subscription)
    assert data(received) == [b"x"]
    server.restart()
    assert take(server, subscription) == []
    server.advance(1)
    assert take(server, subscription) == []
    server.ack(subscription, received)


@pytest.mark.parametrize("ordering", [False, True])
def test_streams_with_key_slots(server, ordering):
    topic = server.topic()
    subscription = server.subscription(
        topic, labels={"fanlog-assignment": "sticky"}, enable_message_ordering=ordering
    )
    stream = server.open_stream(subscription)
    other = server.open_stream(subscription)
    server.await_waiters(subscription, 2)
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        delayed(server, topic, f"late {key}".encode(), seconds="30", key=key)
        server.publish(topic, f"now {key}".encode(), key=key)
    server.publish(topic, b"gone", **{"fanlog-ttl": "0.001", "fanlog-delay": "1"})

    def come(count):
        found: list[bytes] = []
        late_s = time.monotonic() + 20
        while len(found) < count:
            assert time.monotonic() < late_s, found
            for one in (stream, other):
                received = one.pending()
                if received:
                    one.send(ack_ids=[each.ack_id for each in received])
                found += data(received)
            time.sleep(0.005)
        assert len(found) == count
        return found

    nows = [f"now {key}".encode() for key in keys]
    lates = [f"late {key}".encode() for key in keys]
    if not ordering:
        assert sorted(come(8)) == sorted(nows)
        server.advance(31)
        assert sorted(come(8)) == sorted(lates)
        return
    # Each delayed message is the first of its key.
    server.advance(31)
    found = come(16)
    assert sorted(found) == sorted(nows + lates)
    for now, late in zip(nows, lates, strict=True):
        assert found.index(late) < found.index(now)


def test_hard_state_that_is_lost_does_not_make_it_early(server):
    """As in a folder that was salvaged: the batch says when, too."""
    topic, subscription = server.topic_and_subscription()
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    delayed(server, topic, b"late", b"later")
    server.publish(topic, b"now")

    async def lose() -> None:
        await server.broker.ledger.commit(server.broker.hard.agendas.remove(partition))

    server.run(lose())
    assert server.broker.hard.agendas.find(partition) is None
    assert take(server, subscription) == [b"now"]
    server.advance(61)
    assert take(server, subscription) == [b"late", b"later"]
