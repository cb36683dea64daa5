"""Connections cut in the middle of streams: official clients come again, and nothing is lost."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from acceptance.served import PATIENCE_S
from chaos.measure import await_drained
from chaos.official import Load
from chaos.proxy import Proxy
from crash.world import Clients, subscription_name, topic_name

SEED = 99
CUTS = 10
#: Four subscribers and two publishers, each on a connection of its own.
CLIENTS = 6
KEYS = [f"key-{number}" for number in range(6)]


@pytest.fixture
def served(serve):
    server = serve()
    server.start()
    return server


@pytest.fixture
def proxy(served) -> Iterator[Proxy]:
    proxy = Proxy(served.endpoint)
    yield proxy
    proxy.close()


def await_went_on(load: Load, proxy: Proxy, round_number: int) -> None:
    """Wait until all came again and publish, however slow the machine: only then it is cut."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if (
            proxy.count >= CLIENTS + 2 * (round_number - 1)
            and load.history.published_count("cut") >= 30 * round_number
        ):
            return
        pause.wait(0.01)
    raise AssertionError("nobody came again")


@pytest.mark.slow
def test_cut_again_and_again_nothing_is_lost(served, proxy, caplog):
    clients = Clients(served.endpoint)
    subscriptions = {
        "plain": {},
        "once": {"enable_exactly_once_delivery": True},
        "ordered": {"enable_message_ordering": True},
        "ordered-once": {"enable_message_ordering": True, "enable_exactly_once_delivery": True},
    }
    clients.publisher.create_topic(name=topic_name("cut"))
    for name, fields in subscriptions.items():
        request = {"name": subscription_name(name), "topic": topic_name("cut")} | fields
        clients.subscriber.create_subscription(request=request)
    clients.channel.close()

    # The clients tell of every cut, at length.
    caplog.set_level(logging.CRITICAL, "google.cloud.pubsub_v1")
    load = Load(proxy.endpoint, SEED)
    load.subscribe("plain")
    load.subscribe("once", exactly_once=True)
    load.subscribe("ordered")
    load.subscribe("ordered-once", exactly_once=True)
    load.publish("cut", KEYS[:3], pause_s=0.04)
    load.publish("cut", KEYS[3:], pause_s=0.04)

    chance, deeds = random.Random(SEED), Counter()
    while_under_load = threading.Event()
    for number in range(1, CUTS + 1):
        while_under_load.wait(chance.uniform(0.1, 0.8))
        await_went_on(load, proxy, number)
        deeds[proxy.harass(chance)] += 1
    await_went_on(load, proxy, CUTS + 1)
    load.stop_publishing()
    await_drained(served)
    load.close()

    history = load.history
    assert history.published_count("cut") > 300
    for subscription in subscriptions:
        assert history.lost("cut", subscription) == []
    assert history.came_back("once") == []
    assert history.acked_count("once") >= history.published_count("cut") * 0.9
    assert history.unordered_ids("cut") == []
    assert history.out_of_order("cut", "ordered") == []
    assert history.came_back("ordered-once") == []
    assert history.sent_out_of_order("cut", "ordered") == []
    assert history.sent_out_of_order("cut", "ordered-once") == []
    assert history.acked_out_of_order("cut", "ordered-once") == []
    assert served.stop()[0] == 0
    assert "Traceback" not in served.log_path.read_text()
