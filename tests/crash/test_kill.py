"""The real process, killed with SIGKILL at random moments under load, again and again."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.served import Served
from crash.world import World, subscription_name, topic_name

SEED = 20_260
LIVES = 6
AT_MOST_ONCE = {"fanlog-delivery": "at-most-once"}
KEYS = [f"key-{number}" for number in range(8)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    served = Served(tmp_path / "data", tmp_path / "server.log")
    world = World(served, SEED)
    yield world
    world.is_over.set()
    served.close()


def is_doomed(message: Any) -> bool:
    return zlib.crc32(message.data) % 4 == 0


def make_resources(world: World) -> None:
    clients = world.start()
    for topic in ("plain", "ordered", "letters"):
        clients.publisher.create_topic(name=topic_name(topic))
    subscriptions: dict[str, dict[str, Any]] = {
        "plain-least": {"topic": "plain"},
        "plain-once": {"topic": "plain", "enable_exactly_once_delivery": True},
        "plain-most": {"topic": "plain", "labels": AT_MOST_ONCE},
        "ordered-most": {
            "topic": "ordered",
            "enable_message_ordering": True,
            "labels": AT_MOST_ONCE,
        },
        "plain-doomed": {
            "topic": "plain",
            "dead_letter_policy": {
                "dead_letter_topic": topic_name("letters"),
                "max_delivery_attempts": 2,
            },
        },
        "letters": {"topic": "letters"},
        "ordered-least": {"topic": "ordered", "enable_message_ordering": True},
        "ordered-once": {
            "topic": "ordered",
            "enable_message_ordering": True,
            "enable_exactly_once_delivery": True,
        },
        # The slots of keys move with each stream that comes, and wait for leases of before a kill.
        "ordered-sticky": {
            "topic": "ordered",
            "enable_message_ordering": True,
            "enable_exactly_once_delivery": True,
            "ack_deadline_seconds": 10,
            "labels": {"fanlog-assignment": "sticky"},
        },
    }
    for name, fields in subscriptions.items():
        request = fields | {"name": subscription_name(name), "topic": topic_name(fields["topic"])}
        clients.subscriber.create_subscription(request=request)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_again_and_again_it_keeps_every_promise(world):
    make_resources(world)
    world.publish("plain", [""], size_max=4_000)
    world.publish("plain", [""])
    world.publish("ordered", KEYS[:4])
    world.publish("ordered", KEYS[4:])
    world.pull("plain-least", nacks=0.1)
    world.stream("plain-least", nacks=0.1)
    world.pull("plain-once", nacks=0.1)
    world.pull("plain-once")
    world.pull("plain-most", nacks=0.5)
    world.stream("plain-most", nacks=0.5)
    world.pull("ordered-most")
    world.pull("plain-doomed", is_doomed=is_doomed)
    world.pull("letters")
    world.stream("ordered-least", nacks=0.05)
    world.stream("ordered-least")
    world.pull("ordered-once", nacks=0.05)
    world.pull("ordered-once")
    for _ in range(3):
        world.stream("ordered-sticky", nacks=0.05)

    never = threading.Event()
    for _ in range(LIVES):
        # The one thing that is really meant to pass by itself here: a while under load.
        never.wait(world.random.uniform(0.2, 2.0))
        world.await_more(published=("plain", "ordered"), delivered=("letters",))
        assert not world.broken, world.broken
        world.kill()
        world.start()
    world.finish()

    history = world.history
    for topic, subscription in (
        ("plain", "plain-least"),
        ("plain", "plain-once"),
        ("plain", "plain-doomed"),
        ("ordered", "ordered-least"),
        ("ordered", "ordered-once"),
        ("ordered", "ordered-sticky"),
    ):
        # Enough happened for the rest to mean something.
        assert history.published_count(topic) > 500
        assert history.lost(topic, subscription) == []
    for subscription in ("plain-most", "ordered-most"):
        assert history.delivered_count(subscription) > 500
        assert history.came_twice(subscription) == []
    assert history.went_back("ordered-most") == []
    assert history.came_back("plain-once") == []
    assert history.came_back("ordered-once") == []
    assert history.unordered_ids("ordered") == []
    assert history.out_of_order("ordered", "ordered-least") == []
    assert history.out_of_order("ordered", "ordered-once") == []
    assert history.out_of_order("ordered", "ordered-sticky") == []
    assert history.delivered_count("letters") > 50
    assert history.dead_letters_lost("plain", "plain-doomed", "letters") == []
    assert history.dead_letters_doubled("plain-doomed", "letters") == []
