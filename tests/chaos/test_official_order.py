"""The order of an exactly-once subscription with Google's client, seen on the wire.

A client that lost a lease hands later messages of the key to its callbacks nevertheless.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from acceptance.served import PATIENCE_S
from chaos.official import Load
from chaos.subscriber_service import SubscriberService
from fanlog.testing.history import History

Run = Callable[..., History]


@pytest.fixture
def run() -> Iterator[Run]:
    """Give answers to an official client; return when so many messages were acknowledged."""
    services: list[SubscriberService] = []

    def make(
        answers: Sequence[Sequence[int]], *, acked: int, refused: Collection[str] = ()
    ) -> History:
        service = SubscriberService(answers, refused)
        services.append(service)
        load = Load(service.endpoint, seed=1)
        load.subscribe("s", exactly_once=True)
        pause = threading.Event()
        for _ in range(PATIENCE_S * 100):
            if load.history.acked_count("s") == acked:
                break
            pause.wait(0.01)
        load.check_alive()
        load.close()
        assert load.history.acked_count("s") == acked
        return load.history

    yield make
    for service in services:
        service.close()


def test_messages_in_order(run):
    history = run([[1, 2], [3]], acked=3)
    assert history.out_of_order("t", "s") == []
    assert history.sent_out_of_order("t", "s") == []
    assert history.acked_out_of_order("t", "s") == []


def test_a_client_goes_on_behind_a_lease_that_was_lost(run):
    """The service sent all in order; what it may not do is to confirm the second and third."""
    history = run([[1, 2], [3]], refused={"1"}, acked=2)
    assert any("before 1" in sentence for sentence in history.out_of_order("t", "s"))
    assert history.sent_out_of_order("t", "s") == []
    [sentence, _] = history.acked_out_of_order("t", "s")
    assert "message 2 of key 'k' was acknowledged" in sentence
    assert "before 1" in sentence


def test_a_service_that_sends_out_of_order_is_found(run):
    history = run([[1, 3], [2]], acked=3)
    [sentence] = history.sent_out_of_order("t", "s")
    assert "message 3 of key 'k'" in sentence
    assert "before 2" in sentence
