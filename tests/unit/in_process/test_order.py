"""Messages of a key: in order, one callback at a time, also through failures."""

from __future__ import annotations

import itertools
import random
import threading
from collections import defaultdict

import pytest

import fanlog

PATIENCE_S = 60.0


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_callbacks_of_a_key_never_overlap_and_come_in_order(delivery):
    chance, lock = random.Random(17), threading.Lock()
    running: set[str] = set()
    overlaps: list[str] = []
    seen: defaultdict[str, list[int]] = defaultdict(list)

    def note(message: fanlog.Message) -> None:
        key, number = message.payload
        with lock:
            if key in running:
                overlaps.append(key)
            running.add(key)
            fails = chance.random() < 0.15
        threading.Event().wait(0.0002)
        with lock:
            running.discard(key)
            seen[key].append(number)
        if fails:
            raise ValueError("once more")

    with fanlog.Broker() as broker:
        broker.subscribe(
            "orders", note, delivery=delivery, retry=(0, 0), max_outstanding=40, concurrency=6
        )
        for start in range(0, 60, 10):
            for key in ("anna", "ben", "cleo", "dora"):
                broker.publish_many(
                    "orders",
                    [
                        fanlog.NewMessage([key, number], key=key)
                        for number in range(start, start + 10)
                    ],
                )
        assert broker.join(PATIENCE_S)
    assert overlaps == []
    for numbers in seen.values():
        # Each message first comes after the one before it, and a failed one comes before the next.
        firsts = list(dict.fromkeys(numbers))
        assert firsts == list(range(60))
        assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(numbers))


def test_messages_behind_a_failed_one_wait_for_it():
    seen: list[int] = []

    def note(message: fanlog.Message) -> None:
        seen.append(message.payload)
        if message.payload == 1 and seen.count(1) < 4:
            raise ValueError

    with fanlog.Broker() as broker:
        broker.subscribe("orders", note, retry=(0, 0))
        broker.publish_many("orders", [fanlog.NewMessage(n, key="anna") for n in range(5)])
        assert broker.join(PATIENCE_S)
    assert seen == [0, 1, 1, 1, 1, 2, 3, 4]


def test_messages_without_a_key_overtake_a_blocked_one():
    gate, passed = threading.Event(), threading.Event()

    def note(message: fanlog.Message) -> None:
        if message.key:
            assert gate.wait(PATIENCE_S)
        elif message.payload == 3:
            passed.set()

    with fanlog.Broker() as broker:
        broker.subscribe("orders", note)
        broker.publish_many("orders", [fanlog.NewMessage(n, key="anna") for n in range(2)])
        broker.publish_many("orders", [2, 3])
        assert passed.wait(PATIENCE_S)
        gate.set()
        assert broker.join(PATIENCE_S)
