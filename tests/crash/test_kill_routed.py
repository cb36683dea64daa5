"""The real process, killed while filters change and topics join patterns: exact sets after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import DeadlineExceeded, GoogleAPICallError

from acceptance.served import PATIENCE_S, Served
from crash.world import Clients, World, subscription_name, topic_name

SEED = 4
LIVES = 3
#: How many messages are answered before a life ends.
MESSAGES = 150


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    served = Served(tmp_path / "data", tmp_path / "server.log")
    world = World(served, SEED)
    yield world
    served.close()


class Numbers:
    """Publishes numbers to a topic, each once, until the server is killed."""

    def __init__(self, clients: Clients, topic: str, first: int) -> None:
        self._clients = clients
        self._topic = topic
        self.first = self.sent = self.answered = first
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        # A channel that was closed is a ValueError.
        with suppress(GoogleAPICallError, ValueError):
            while True:
                number = self.sent
                self.sent = number + 1
                message = {"data": b"%d" % number, "attributes": {"parity": str(number % 2)}}
                self._clients.publisher.publish(
                    request={"topic": self._topic, "messages": [message]}, retry=None
                )
                self.answered = number + 1


def take(clients: Clients, name: str) -> list[int]:
    """Pull some and acknowledge it; only what was confirmed counts."""
    try:
        answer = clients.subscriber.pull(
            subscription=subscription_name(name), max_messages=40, retry=None, timeout=1
        )
    except DeadlineExceeded:
        return []
    received: list[Any] = list(answer.received_messages)
    if received:
        clients.subscriber.acknowledge(
            subscription=subscription_name(name),
            ack_ids=[one.ack_id for one in received],
            retry=None,
        )
    return [int(one.message.data) for one in received]


@pytest.mark.slow
def test_killed_with_filters_and_patterns_they_get_exactly_theirs(world):
    clients = world.start()
    for name, fields in {
        "every": {"topic": "numbers.#"},
        "odd": {"topic": "numbers.#", "filter": "parity = 1"},
        "turned": {"topic": "numbers.#", "filter": "parity = 0"},
    }.items():
        request = {"name": subscription_name(name), "enable_exactly_once_delivery": True}
        request |= fields | {"topic": topic_name(fields["topic"])}
        clients.subscriber.create_subscription(request=request)

    found: dict[str, list[int]] = {"every": [], "odd": [], "turned": []}
    certain: set[int] = set()
    possible: set[int] = set()
    wanted: set[int] = set()
    either: set[int] = set()
    parity = 0
    for life in range(LIVES):
        topic = topic_name(f"numbers.life-{life}")
        clients.publisher.create_topic(name=topic)
        numbers = Numbers(clients, topic, first=life * 1_000_000)
        judged_from = numbers.first
        while numbers.answered < numbers.first + MESSAGES:
            assert numbers.thread.is_alive()
            for name, taken in found.items():
                taken += take(clients, name)
            # Messages whose publish and whose filter were both answered have one judge.
            before = numbers.answered
            clients.subscriber.update_subscription(
                request={
                    "subscription": {
                        "name": subscription_name("turned"),
                        "filter": f"parity = {1 - parity}",
                    },
                    "update_mask": {"paths": ["filter"]},
                },
                retry=None,
            )
            after = numbers.sent
            wanted |= {n for n in range(judged_from, before) if n % 2 == parity}
            either |= set(range(before, after))
            judged_from, parity = after, 1 - parity
        last = numbers.answered
        world.kill()
        numbers.thread.join(PATIENCE_S)
        certain |= set(range(numbers.first, numbers.answered))
        possible |= set(range(numbers.first, numbers.sent))
        wanted |= {n for n in range(judged_from, last) if n % 2 == parity}
        either |= set(range(max(last, judged_from), numbers.sent))
        clients = world.start()

    while world.backlogs():
        for name, taken in found.items():
            taken += take(clients, name)

    assert len(certain) >= LIVES * MESSAGES
    for name, taken in found.items():
        assert len(taken) == len(set(taken)), f"{name} got something twice"
    assert certain <= set(found["every"]) <= possible
    every = set(found["every"])
    assert set(found["odd"]) == {number for number in every if number % 2}
    assert wanted <= set(found["turned"]) <= wanted | either
