"""A server that stands still for longer than its leases: SIGSTOP, then SIGCONT."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition

from chaos.measure import await_drained
from chaos.official import LEASE_S, Load
from crash.world import Clients, subscription_name, topic_name

PAUSE_S = LEASE_S + 0.5
COUNT = 40
SEED = 12
#: Pulled by the test itself, and received by official clients with callbacks.
PULLED = ("plain", "once")
STREAMED = ("plain-stream", "once-stream")


class Puller:
    """Pulls and acknowledges by single requests, and writes down what comes of it."""

    def __init__(self, clients: Clients, load: Load, subscription: str) -> None:
        self._subscriber = clients.subscriber
        self._history = load.history
        self._subscription = subscription
        self._name = subscription_name(subscription)

    def pull(self, count: int) -> list[Any]:
        received = self._subscriber.pull(
            subscription=self._name, max_messages=count, retry=None, timeout=2 * LEASE_S
        ).received_messages
        for one in received:
            self._history.delivered(self._subscription, one.message.message_id, one.message.data)
        return list(received)

    def acknowledge(self, received: list[Any]) -> bool:
        """Whether it was confirmed; under exactly-once it is refused when the lease is over."""
        ids = [one.message.message_id for one in received]
        self._history.ack_sent(self._subscription, ids)
        try:
            self._subscriber.acknowledge(
                subscription=self._name, ack_ids=[one.ack_id for one in received], retry=None
            )
        except FailedPrecondition:
            return False
        self._history.acked(self._subscription, ids)
        return True


@pytest.mark.slow
def test_stopped_for_longer_than_the_leases(serve, caplog):
    caplog.set_level(logging.CRITICAL, "google.cloud.pubsub_v1")
    served = serve()
    served.start()
    clients = Clients(served.endpoint)
    clients.publisher.create_topic(name=topic_name("paused"))
    for name in (*PULLED, *STREAMED):
        request = {
            "name": subscription_name(name),
            "topic": topic_name("paused"),
            "ack_deadline_seconds": LEASE_S,
            "enable_exactly_once_delivery": "once" in name,
        }
        clients.subscriber.create_subscription(request=request)
    load = Load(served.endpoint, SEED)
    data = [b"first %d" % number for number in range(COUNT)]
    answer = clients.publisher.publish(
        topic=topic_name("paused"), messages=[{"data": one} for one in data]
    )
    load.history.published("paused", zip(answer.message_ids, data, strict=True))
    for name in STREAMED:
        load.subscribe(name, exactly_once="once" in name)
    load.publish("paused", pause_s=0.1)
    pullers = {name: Puller(clients, load, name) for name in PULLED}
    held = {name: puller.pull(COUNT) for name, puller in pullers.items()}
    assert [len(received) for received in held.values()] == [COUNT, COUNT]
    for name, puller in pullers.items():
        assert puller.acknowledge(held[name][::2])

    os.kill(served.pid, signal.SIGSTOP)
    # Leases are real time to the real process: this has to pass.
    threading.Event().wait(PAUSE_S)
    os.kill(served.pid, signal.SIGCONT)

    # Too late under exactly-once; at-least-once takes it.
    late = {name: puller.acknowledge(held[name][1::2]) for name, puller in pullers.items()}
    assert late == {"plain": True, "once": False}
    load.stop_publishing()
    for name, puller in pullers.items():
        while (received := puller.pull(1_000)) and puller.acknowledge(received):
            if load.history.lost("paused", name) == []:
                break
    await_drained(served)
    load.close()
    clients.channel.close()

    history = load.history
    for name in (*PULLED, *STREAMED):
        assert history.lost("paused", name) == []
    for name in ("once", "once-stream"):
        assert history.came_back(name) == []
    # What was held under exactly-once and not acknowledged in time came again.
    assert history.delivered_count("once") >= history.acked_count("once") + COUNT // 2
    assert served.stop()[0] == 0
    assert "Traceback" not in served.log_path.read_text()
