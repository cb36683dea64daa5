"""A thousand connections that never read what they asked for: the others are served as before."""

from __future__ import annotations

import select
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptance.served import PATIENCE_S, Served
from chaos.conftest import missing
from chaos.measure import MIB, descriptor_count, memory_bytes, metric
from chaos.silent import open_silent_stream
from crash.world import Clients, subscription_name, topic_name

CONNECTIONS = 1_000
SUBSCRIPTIONS = 200
MESSAGES = 1_000
MESSAGE_BYTES = 4_000
#: Two answers wait in memory for a client that never reads; and there is what a connection costs.
CONNECTION_BYTES_MAX = 3 * 64 * 1024 + 64 * 1024
#: On a busy machine of two cores, once all are connected; 3 ms on a quiet one. Of every other call:
#: a machine with more to do may stall now and then, silent ones in the way would slow down all.
CALL_S_MAX = 1.0


@pytest.fixture
def served(serve) -> Served:
    if not Path("/proc/self/status").exists():
        missing("memory and descriptors are read from /proc")
    server = serve()
    server.start()
    return server


@pytest.fixture
def silent() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for one in sockets:
        one.close()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    late_s = time.monotonic() + 2 * PATIENCE_S
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < late_s, what
        pause.wait(0.1)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, also when there is something left to read."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.slow
def test_a_thousand_connections_that_never_read(served, silent):
    clients = Clients(served.endpoint)
    clients.publisher.create_topic(name=topic_name("loud"))
    names = [subscription_name(f"silent-{number}") for number in range(SUBSCRIPTIONS)]
    for name in [*names, subscription_name("other")]:
        clients.subscriber.create_subscription(name=name, topic=topic_name("loud"))
    for _ in range(MESSAGES // 100):
        clients.publisher.publish(
            topic=topic_name("loud"), messages=[{"data": bytes(MESSAGE_BYTES)}] * 100
        )
    memory_before, descriptors_before = memory_bytes(served), descriptor_count(served)

    for number in range(CONNECTIONS):
        silent.append(open_silent_stream(served.endpoint, names[number % SUBSCRIPTIONS]))

    def all_accepted() -> bool:
        # On a machine that has much else to do gRPC gives up a connection now and then: it closes
        # one whose other side has not answered a ping for a minute, and a silent one never does.
        for number, one in enumerate(silent):
            if is_closed(one):
                one.close()
                silent[number] = open_silent_stream(served.endpoint, names[number % SUBSCRIPTIONS])
        return metric(served, "fanlog_streams") >= CONNECTIONS

    wait_until(all_accepted, "not all were accepted")

    # The others publish, pull and acknowledge as if they were alone.
    calls_s, received_count = [], 0
    for _ in range(30):
        began_s = time.monotonic()
        clients.publisher.publish(topic=topic_name("loud"), messages=[{"data": b"more"}])
        received = clients.subscriber.pull(
            subscription=subscription_name("other"), max_messages=40, retry=None
        ).received_messages
        clients.subscriber.acknowledge(
            subscription=subscription_name("other"), ack_ids=[one.ack_id for one in received]
        )
        received_count += len(received)
        calls_s.append(time.monotonic() - began_s)
    assert received_count >= 300
    assert statistics.median(calls_s) < CALL_S_MAX

    def every_open_one_is_held() -> bool:
        open_count = sum(not is_closed(one) for one in silent)
        return open_count > 0 and metric(served, "fanlog_streams") == open_count

    wait_until(every_open_one_is_held, "streams end while their clients are there")
    grown_bytes = memory_bytes(served) - memory_before
    assert grown_bytes < CONNECTIONS * CONNECTION_BYTES_MAX, f"{grown_bytes / MIB:.0f} MiB"

    for one in silent:
        one.close()
    wait_until(lambda: metric(served, "fanlog_streams") == 0, "streams outlive their clients")
    wait_until(lambda: descriptor_count(served) <= descriptors_before + 5, "descriptors leak")
    # The same again costs nothing more: what was freed is used again.
    again = [open_silent_stream(served.endpoint, name) for name in names]
    silent += again
    wait_until(lambda: metric(served, "fanlog_streams") == len(again), "not all were accepted")
    assert memory_bytes(served) - memory_before < CONNECTIONS * CONNECTION_BYTES_MAX
    clients.channel.close()
    assert served.stop()[0] == 0
    assert "Traceback" not in served.log_path.read_text()
