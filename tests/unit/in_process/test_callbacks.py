"""Callbacks and what becomes of their messages, through a whole broker in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import fanlog
from fanlog.broker.clock import ManualClock
from fanlog.errors import (
    AckIdsRefused,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    TopicNotFound,
)
from fanlog.in_process.consumer import CallbackConsumer

PATIENCE_S = 30.0


class Received:
    """What a callback got, in order; tests wait for so many."""

    def __init__(self) -> None:
        self.messages: list[fanlog.Message] = []
        self._more = threading.Condition()

    def __call__(self, message: fanlog.Message) -> None:
        with self._more:
            self.messages.append(message)
            self._more.notify_all()

    def payloads(self, count: int) -> list[Any]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.messages) >= count, PATIENCE_S)
            return [message.payload for message in self.messages]


@pytest.fixture
def broker() -> Iterator[fanlog.Broker]:
    with fanlog.Broker() as broker:
        yield broker


@pytest.fixture
def received() -> Received:
    return Received()


def test_a_message_is_what_was_published(broker, received):
    broker.subscribe("orders.#", received)
    message_id = broker.publish(
        "orders.eu", {"item": "two chairs"}, key="anna", attributes={"region": "eu"}
    )
    assert received.payloads(1) == [{"item": "two chairs"}]
    [message] = received.messages
    assert message.id == message_id
    assert message.topic == "orders.eu"
    assert message.key == "anna"
    assert message.attributes == {"region": "eu"}
    assert message.data == b'{"item":"two chairs"}'
    assert message.attempt == 0
    assert message.publish_time.tzinfo is not None
    assert broker.join(PATIENCE_S)
    assert message.is_settled


@pytest.mark.parametrize("size", [1, 100, 124, 125, 126, 127, 128, 200, 20_000])
def test_data_of_any_size_is_read_without_its_frame(broker, received, size):
    broker.subscribe("orders", received)
    broker.publish("orders", b"x" * size)
    broker.publish("orders", b"x" * size, attributes={"a": "b"})
    assert broker.join(PATIENCE_S)
    assert [message.data for message in received.messages] == [b"x" * size] * 2


def test_batches_come_in_order_with_their_ids(broker, received):
    broker.subscribe("orders", received, concurrency=1)
    ids = broker.publish_many("orders", [0, fanlog.NewMessage(1, key="anna"), 2])
    assert received.payloads(3) == [0, 1, 2]
    assert [message.id for message in received.messages] == ids
    assert received.messages[1].key == "anna"


def test_a_pattern_follows_topics_that_come_later(broker, received):
    broker.subscribe("orders.#", received)
    for topic in ("orders.eu", "orders.us.west", "invoices"):
        broker.publish(topic, topic)
    assert broker.join(PATIENCE_S)
    assert sorted(received.payloads(2)) == ["orders.eu", "orders.us.west"]


def test_topics_are_not_made_where_that_is_not_wanted(received):
    with fanlog.Broker(create_topics=False) as broker:
        with pytest.raises(TopicNotFound, match="create_topics=True"):
            broker.publish("orders", 1)
        with pytest.raises(TopicNotFound):
            broker.subscribe("orders", received)
        broker.create_topic("orders")
        broker.subscribe("orders", received)
        broker.publish("orders", 1)
        assert received.payloads(1) == [1]


def test_filters_are_expressions_or_functions(broker, received):
    small = Received()
    broker.subscribe("orders", received, filter="payload.amount >= 1000")
    broker.subscribe("orders", small, filter=lambda message: message.payload["amount"] < 1000)
    broker.publish_many("orders", [{"amount": 1}, {"amount": 2000}])
    assert broker.join(PATIENCE_S)
    assert received.payloads(1) == [{"amount": 2000}]
    assert small.payloads(1) == [{"amount": 1}]
    counts = broker.metrics()
    assert (counts.filtered, counts.delivered, counts.buffer_size) == (1, 3, 0)


def test_a_filter_that_raises_is_a_failed_delivery(broker):
    letters = Received()
    broker.subscribe("letters", letters)

    def fail(message: fanlog.Message) -> bool:
        raise LookupError("no amount")

    broker.subscribe(
        "orders",
        Received(),
        name="billing",
        filter=fail,
        max_delivery_attempts=1,
        dead_letter_topic="letters",
    )
    broker.publish("orders", 1)
    assert letters.payloads(1) == [1]
    assert "LookupError: no amount" in letters.messages[0].attributes["fanlog-dead-letter-reason"]


def test_an_exception_is_a_nack_and_its_text_the_reason_of_the_dead_letter(broker):
    letters, attempts = Received(), []

    def fail(message: fanlog.Message) -> None:
        attempts.append(message.attempt)
        raise ValueError("not an order " + "x" * 10_000)

    broker.subscribe("orders", fail, name="billing", max_delivery_attempts=3, retry=(0, 0))
    broker.subscribe("billing.dead-letters", letters)
    broker.publish("orders", 1)
    assert letters.payloads(1) == [1]
    assert attempts == [1, 2, 3]
    reason = letters.messages[0].attributes["fanlog-dead-letter-reason"]
    assert "ValueError: not an order xx" in reason
    assert len(reason) < 1_024
    counts = broker.metrics()
    assert (counts.dead_lettered, counts.dead_letters, counts.published) == (1, 1, 1)
    assert counts.nacked == 3


def test_explicit_outcomes_win(broker):
    seen: list[str] = []

    def settle(message: fanlog.Message) -> None:
        seen.append(message.payload)
        if message.payload == "ack":
            message.ack()
            raise ValueError
        if message.payload == "nack" and seen.count("nack") < 3:
            message.nack("later", delay=0)

    broker.subscribe("orders", settle, concurrency=1)
    broker.publish_many("orders", ["ack", "nack"])
    assert broker.join(PATIENCE_S)
    assert seen == ["ack", "nack", "nack", "nack"]


def test_nacks_that_make_no_sense_are_refused(broker, received):
    broker.subscribe("orders", received, manual=True)
    broker.publish("orders", 1)
    received.payloads(1)
    [message] = received.messages
    with pytest.raises(FailedPrecondition, match="no dead letter policy"):
        message.nack(dead_letter=True)
    with pytest.raises(InvalidArgument, match="delay: "):
        message.nack(delay=-1)
    assert not message.is_settled
    message.ack().result(PATIENCE_S)
    assert broker.metrics().inflight == 0


def test_manual_messages_stay_until_they_are_settled(broker, received):
    broker.subscribe("orders", received, manual=True, max_outstanding=2)
    broker.publish_many("orders", [0, 1, 2])
    received.payloads(2)
    assert not broker.join(0.02)
    counts = broker.metrics()
    assert (counts.inflight, counts.buffer_size, counts.backpressure_active) == (2, 1, True)
    for message in list(received.messages):
        message.ack().result(PATIENCE_S)
    assert received.payloads(3) == [0, 1, 2]
    received.messages[2].ack().result(PATIENCE_S)
    counts = broker.metrics()
    assert (counts.acked, counts.inflight, counts.backpressure_active) == (3, 0, False)


def test_never_more_than_max_outstanding(broker):
    running, most, lock = 0, 0, threading.Lock()
    gate = threading.Event()

    def hold(message: fanlog.Message) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(0.005)
        with lock:
            running -= 1

    broker.subscribe("orders", hold, max_outstanding=3, concurrency=16)
    broker.publish_many("orders", list(range(60)))
    assert broker.join(PATIENCE_S)
    assert most == 3


def test_a_callback_that_blocks_holds_up_no_other(broker):
    gate, others = threading.Event(), Received()

    def block(message: fanlog.Message) -> None:
        if message.payload == 0:
            assert gate.wait(PATIENCE_S)
        else:
            others(message)

    elsewhere = Received()
    broker.subscribe("orders", block, concurrency=2)
    broker.subscribe("orders", elsewhere)
    broker.publish_many("orders", list(range(100)))
    assert sorted(others.payloads(99)) == list(range(1, 100))
    assert len(elsewhere.payloads(100)) == 100
    gate.set()
    assert broker.join(PATIENCE_S)


def test_threads_are_bounded(broker):
    gate, threads = threading.Barrier(4), set()

    def meet(message: fanlog.Message) -> None:
        threads.add(threading.get_ident())
        gate.wait(PATIENCE_S)

    broker.subscribe("orders", meet, concurrency=4)
    broker.publish_many("orders", list(range(40)))
    assert broker.join(PATIENCE_S)
    assert len(threads) == 4


def test_what_returns_a_coroutine_must_be_a_coroutine_function(broker):
    letters = Received()

    async def note(message: fanlog.Message) -> None:
        raise AssertionError

    broker.subscribe(
        "orders",
        lambda message: note(message),
        name="billing",
        max_delivery_attempts=1,
        dead_letter_topic="letters",
        start="earliest",
    )
    broker.subscribe("letters", letters)
    broker.publish("orders", 1)
    assert letters.payloads(1) == [1]
    assert "coroutine function" in letters.messages[0].attributes["fanlog-dead-letter-reason"]


@pytest.mark.parametrize("ordered", [True, False])
def test_with_an_ack_deadline_a_message_comes_again(ordered):
    clock, gate, received = ManualClock(), threading.Event(), Received()

    async def advance(seconds: float) -> None:
        clock.advance(seconds)

    def hold(message: fanlog.Message) -> None:
        received(message)
        if len(received.messages) == 1:
            assert gate.wait(PATIENCE_S)

    with fanlog.Broker(clock=clock) as broker:
        broker.subscribe("orders", hold, ack_deadline=10, retry=(0, 0), ordered=ordered)
        broker.publish("orders", 1, key="anna" if ordered else "")
        received.payloads(1)
        broker._opened().thread.run(partial(advance, 9))
        assert len(received.messages) == 1
        broker._opened().thread.run(partial(advance, 2))
        if not ordered:
            assert received.payloads(2) == [1, 1]
        # Otherwise the callback of its key still runs: no other one beside it.
        gate.set()
        assert broker.join(PATIENCE_S)
    assert len(received.messages) <= 2


def test_without_one_it_stays_with_its_callback():
    clock, gate, received = ManualClock(), threading.Event(), Received()

    async def advance(consumers: list[CallbackConsumer]) -> None:
        for _ in range(30):
            clock.advance(20)
            for consumer in consumers:
                consumer.extend()

    def hold(message: fanlog.Message) -> None:
        received(message)
        assert gate.wait(PATIENCE_S)

    with fanlog.Broker(clock=clock) as broker:
        subscription = broker.subscribe("orders", hold, retry=(0, 0))
        broker.publish("orders", 1)
        received.payloads(1)
        broker._opened().thread.run(partial(advance, [subscription.consumer]))
        assert broker.metrics().inflight == 1
        gate.set()
        assert broker.join(PATIENCE_S)
    assert len(received.messages) == 1


def test_publishing_from_a_callback_waits_for_nothing(broker, received):
    def forward(message: fanlog.Message) -> None:
        broker.publish("second", message.payload)
        broker.metrics()

    broker.subscribe("second", received, max_outstanding=1)
    broker.subscribe("first", forward, max_outstanding=1)
    broker.publish_many("first", list(range(50)))
    assert broker.join(PATIENCE_S)
    assert received.payloads(50) == list(range(50))


def test_async_callbacks_of_a_program_without_a_loop(broker):
    seen, most, running = [], 0, 0

    async def wait(message: fanlog.Message) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        if message.payload == 7 and 7 not in seen:
            seen.append(7)
            running -= 1
            raise ValueError("once more")
        await broker.publish_async("second", message.payload)
        seen.append(message.payload)
        running -= 1

    broker.subscribe("orders", wait, concurrency=5, retry=(0, 0))
    broker.publish_many("orders", list(range(50)))
    assert broker.join(PATIENCE_S)
    assert sorted(seen) == sorted([*range(50), 7])
    assert 1 < most <= 5


async def test_async_callbacks_run_on_the_loop_of_the_program():
    seen, loop = [], asyncio.get_running_loop()
    done = asyncio.Event()

    async def note(message: fanlog.Message) -> None:
        assert asyncio.get_running_loop() is loop
        seen.append(message.payload)
        if len(seen) == 3:
            done.set()

    async with fanlog.Broker() as broker:
        broker.subscribe("orders", note)
        await broker.publish_async("orders", 0)
        await broker.publish_many_async("orders", [1, 2])
        await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert sorted(seen) == [0, 1, 2]


def test_exactly_once_acks_are_confirmed(broker, received):
    broker.subscribe("orders", received, name="once", delivery="exactly-once", manual=True)
    broker.publish_many("orders", [0, 1])
    received.payloads(2)
    received.messages[0].ack().result(PATIENCE_S)
    received.messages[1].nack(delay=0)
    received.payloads(3)
    assert [message.payload for message in received.messages] == [0, 1, 1]
    received.messages[2].ack().result(PATIENCE_S)
    assert broker.join(PATIENCE_S)


def test_an_ack_that_comes_too_late_is_refused_exactly_once(broker, received):
    broker.subscribe("orders", received, name="once", delivery="exactly-once", manual=True)
    broker.publish("orders", 0)
    received.payloads(1)
    broker.delete_subscription("once")
    with pytest.raises(AckIdsRefused):
        received.messages[0].ack().result(PATIENCE_S)


def test_at_most_once_a_failure_is_no_second_delivery(broker):
    seen, lock = [], threading.Lock()

    def fail(message: fanlog.Message) -> None:
        with lock:
            seen.append(message.payload)
        raise ValueError

    broker.subscribe("orders", fail, delivery="at-most-once", max_outstanding=2)
    broker.publish_many("orders", list(range(20)))
    assert broker.join(PATIENCE_S)
    assert sorted(seen) == list(range(20))
    assert broker.metrics().inflight == 0


def test_two_callbacks_of_one_name_share_its_messages(broker, received):
    other = Received()
    broker.subscribe("orders", received, name="billing")
    broker.subscribe("orders", other, name="billing")
    with pytest.raises(AlreadyExists, match=r"other settings \(filter\)"):
        broker.subscribe("orders", other, name="billing", filter="a=1")
    broker.publish_many("orders", list(range(20)))
    assert broker.join(PATIENCE_S)
    seen = [message.payload for message in received.messages + other.messages]
    assert sorted(seen) == list(range(20))


def test_delays_ttls_dependencies_and_dedup_ids(broker, received):
    broker.subscribe("orders", received, concurrency=1)
    first = broker.publish("orders", "first", delay=0.05)
    broker.publish("orders", "second", depends_on=first)
    assert broker.publish("orders", "once", dedup_id="d") == broker.publish(
        "orders", "once", dedup_id="d"
    )
    broker.publish("orders", "gone", delay=0.05, ttl=3600)
    assert broker.join(PATIENCE_S)
    seen = [message.payload for message in received.messages]
    assert seen[0] == "once"
    assert seen.index("first") < seen.index("second")
    assert sorted(seen) == ["first", "gone", "once", "second"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"callback": 7}, "callback: '7' cannot be called"),
        ({"filter": 7}, "filter: "),
        ({"filter": "amount >="}, "filter"),
        ({"max_outstanding": 0}, "max_outstanding: 0"),
        ({"concurrency": 0}, "concurrency: 0"),
        ({"delivery": "twice"}, "delivery: "),
        ({"manual": True, "delivery": "at-most-once"}, "manual: "),
        ({"ack_deadline": 5}, "ack_deadline_seconds: 5"),
        ({"max_delivery_attempts": 3}, "needs a name"),
        ({"start": "yesterday"}, "fanlog-start"),
        ({"labels": {"fanlog-delivry": "x"}}, "fanlog-delivry"),
        ({"name": "x"}, "name: "),
    ],
)
def test_options_that_make_no_sense_are_refused(broker, received, options, sentence):
    with pytest.raises(fanlog.FanlogError, match=sentence):
        broker.subscribe("orders", **{"callback": received, **options})
    assert broker.metrics().subscriptions == 0


def test_a_call_from_the_thread_of_the_core_is_refused(broker, received):
    broker.subscribe("orders", received, manual=True)
    broker.publish("orders", 1)
    received.payloads(1)
    errors: list[BaseException] = []
    told = threading.Event()

    def publish(_: object) -> None:
        try:
            broker.publish("orders", 2)
        except fanlog.FanlogError as error:
            errors.append(error)
        told.set()

    confirmed = received.messages[0].ack()
    confirmed.add_done_callback(publish)
    assert told.wait(PATIENCE_S)
    # Added after it was done, it is called here, where publishing is fine.
    assert errors == [] or "cannot wait for itself" in str(errors[0])
