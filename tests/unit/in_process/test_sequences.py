"""Numbers of publishers, and tenants, as arguments of a broker inside a program."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

import fanlog
from fanlog.broker.clock import ManualClock
from fanlog.errors import FailedPrecondition, InvalidArgument

PATIENCE_S = 60.0


class Seen:
    """A callback that notes payloads in their order."""

    def __init__(self, count: int) -> None:
        self.payloads: list[object] = []
        self._count = count
        self._all = threading.Event()

    def __call__(self, message: fanlog.Message) -> None:
        self.payloads.append(message.payload)
        if len(self.payloads) >= self._count:
            self._all.set()

    def wait(self) -> list[object]:
        assert self._all.wait(PATIENCE_S), self.payloads
        return self.payloads


def publish(broker, *numbers, epoch=None, publisher="p"):
    return [
        broker.publish(
            *("orders", number),
            publisher=publisher,
            sequence=number,
            publisher_epoch=epoch,
        )
        for number in numbers
    ]


def test_arguments_are_the_attributes():
    new = fanlog.NewMessage(1, publisher="p", sequence=0, publisher_epoch=2, tenant="t")
    said = {
        "fanlog-publisher": "p",
        "fanlog-sequence": "0",
        "fanlog-publisher-epoch": "2",
        "fanlog-tenant": "t",
    }
    assert new.field_bytes() == fanlog.NewMessage(1, attributes=said).field_bytes()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"sequence": 1}, "fanlog-sequence is given without fanlog-publisher"),
        ({"publisher": "p", "sequence": -1}, "fanlog-sequence is '-1'; a whole number from 0"),
        ({"publisher": "p", "sequence": "1"}, "sequence: \"'1'\" is not a whole number"),
        ({"publisher": "p", "sequence": True}, "sequence: 'True' is not a whole number"),
        ({"publisher": "p", "sequence": 1.0}, "sequence: '1.0' is not a whole number"),
        (
            {"publisher": "p", "sequence": 1, "publisher_epoch": 1.5},
            "publisher_epoch: '1.5' is not a whole number",
        ),
        (
            {"publisher": "p", "sequence": 1, "dedup_id": "a"},
            "fanlog-sequence and fanlog-dedup-id both say what the message repeats",
        ),
        ({"publisher": 7, "sequence": 1}, "names and values are texts"),
        ({"tenant": 7}, "names and values are texts"),
        (
            {"publisher": "p", "sequence": 1, "attributes": {"fanlog-sequence": "1"}},
            "fanlog-sequence is given as an argument, too",
        ),
    ],
)
def test_what_is_refused(asked, sentence):
    with fanlog.Broker() as broker:
        with pytest.raises(InvalidArgument, match=re.escape(sentence)):
            broker.publish("orders", 1, **asked)
        assert broker.metrics().published == 0


def test_a_repetition_has_the_id_of_the_original_also_in_another_life(tmp_path):
    with fanlog.Broker(tmp_path) as broker:
        first = publish(broker, 1, 2)
        assert publish(broker, 1, 2) == first
    with fanlog.Broker(tmp_path) as broker:
        assert publish(broker, 2) == first[1:]
        with pytest.raises(FailedPrecondition, match="expected next is 3"):
            broker.publish("orders", "another", publisher="p", sequence=2)
        [third] = publish(broker, 3)
        assert third not in first


@pytest.mark.parametrize("key", ["", "anna"])
def test_messages_behind_a_gap_are_called_back_when_it_is_filled(key):
    seen = Seen(4)
    with fanlog.Broker() as broker:
        broker.subscribe("orders", seen, concurrency=1)
        for number in (1, 4, 3, 2):
            broker.publish("orders", number, publisher="p", sequence=number, key=key)
        assert seen.wait() == [1, 2, 3, 4]
        assert broker.join(PATIENCE_S)


def test_in_one_batch():
    seen = Seen(3)
    with fanlog.Broker() as broker:
        broker.subscribe("orders", seen, concurrency=1)
        numbers = (1, 3, 2)
        ids = broker.publish_many(
            "orders", [fanlog.NewMessage(n, publisher="p", sequence=n) for n in numbers]
        )
        assert len(set(ids)) == 3
        assert seen.wait() == [1, 2, 3]


def test_on_an_event_loop():
    seen = Seen(2)

    async def run() -> None:
        async with fanlog.Broker() as broker:
            broker.subscribe("orders", seen)
            first = await broker.publish_async("orders", 1, publisher="p", sequence=1)
            assert first == await broker.publish_async("orders", 1, publisher="p", sequence=1)
            await broker.publish_async("orders", 2, publisher="p", sequence=2, tenant="t")
            await asyncio.to_thread(seen.wait)

    asyncio.run(run())
    assert sorted(seen.payloads) == [1, 2]


def test_a_gap_is_given_up_in_time():
    clock, seen = ManualClock(), Seen(3)

    async def advance(seconds: float) -> None:
        clock.advance(seconds)

    with fanlog.Broker(clock=clock) as broker:
        broker.create_topic("orders", labels={"fanlog-gap-timeout": "20"})
        broker.subscribe("orders", seen, concurrency=1)
        publish(broker, 1, 4, 3)
        broker._run(lambda: advance(20))
        assert seen.wait() == [1, 3, 4]
        with pytest.raises(FailedPrecondition, match="expected next is 5"):
            publish(broker, 2)


def test_a_new_epoch_begins_again():
    seen = Seen(4)
    with fanlog.Broker() as broker:
        broker.subscribe("orders", seen, concurrency=1)
        publish(broker, 5, 7)
        publish(broker, 1, 2, epoch=1)
        assert seen.wait() == [5, 7, 1, 2]


def test_tenants_have_turns():
    gate, seen = threading.Event(), Seen(41)

    def note(message: fanlog.Message) -> None:
        assert gate.wait(PATIENCE_S)
        seen(message)

    with fanlog.Broker() as broker:
        broker.subscribe(
            *("orders", note),
            concurrency=1,
            max_outstanding=1,
            ordered=False,
            labels={"fanlog-fairness": "tenant"},
        )
        broker.publish_many("orders", [fanlog.NewMessage("x", tenant="noisy")] * 40)
        broker.publish("orders", "quiet", tenant="quiet")
        gate.set()
        assert seen.wait().index("quiet") < 20
