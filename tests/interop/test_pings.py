"""Pings of official clients are no flood: keep-alives, and probes of the bandwidth under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.served import Served
from interop.cases import tries
from interop.puppet import Puppet
from interop.relay import GOAWAY, PING, Relay

#: The clients by their implementations of HTTP/2: C-core, Go's and Netty's.
PINGING = ("Python", "Go", "Java")
#: A flow of so many messages on their way keeps the client or the server busy all the time.
AHEAD = 1_000
SIZE_BYTES = 2_000
#: Seconds between keep-alives, as asked for; Go and Java keep to a minimum of their own.
KEEP_ALIVE_S = "0.05"
KEEP_ALIVE_MIN_S = 10


@pytest.fixture
def relay(server: Served) -> Iterator[Relay]:
    relay = Relay(server.endpoint)
    yield relay
    relay.close()


@pytest.fixture
def pinging(client: str, relay: Relay, tmp_path: Path) -> Iterator[Puppet]:
    """A client through the relay that keeps connections alive as often as it can."""
    puppet = Puppet(client, relay.endpoint, None, tmp_path / "puppet.log", KEEP_ALIVE_S)
    yield puppet
    puppet.close()


def load(puppet: Puppet, relay: Relay, names, seconds: float) -> None:
    """A full load for a time; the client probes, and no connection of it is sent away."""
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    flow = {"topic": names.topic, "subscription": names.subscription}
    puppet.do("flow", **flow, size=SIZE_BYTES, ahead=AHEAD)
    puppet.await_received(AHEAD)
    connections, pings = relay.connections, relay.from_clients(PING)
    time.sleep(seconds)
    received = puppet.do("count")["received"]
    assert relay.from_clients(PING) > pings
    assert relay.from_server(GOAWAY) == 0
    assert relay.connections == connections
    assert received > 2 * AHEAD, "this is no load"
    found = puppet.do("end")
    assert (found["failed"], found["lost"]) == ([], 0)
    assert relay.from_server(GOAWAY) == 0


def rest(relay: Relay, seconds: float, pings_min: int) -> None:
    """A client without a call, which pings all the same."""
    connections, pings = relay.connections, relay.from_clients(PING)
    time.sleep(seconds)
    assert relay.from_clients(PING) - pings >= pings_min
    assert relay.from_server(GOAWAY) == 0
    assert relay.connections == connections


@tries("pings at full load", *PINGING, transports=["plain"])
def test_pings_at_full_load(pinging: Puppet, relay: Relay, names):
    load(pinging, relay, names, 6)


@pytest.mark.nightly
@tries("pings at full load", *PINGING, transports=["plain"])
def test_pings_at_full_load_for_a_minute(client, pinging: Puppet, relay: Relay, names):
    load(pinging, relay, names, 60)
    if client != "Python":
        rest(relay, 2.5 * KEEP_ALIVE_MIN_S, 2)


@tries("keep-alives without a call", "Python", "Node", transports=["plain"])
def test_keep_alives_without_a_call(client, pinging: Puppet, relay: Relay, names):
    """Node as often as it is told, C-core every second."""
    pinging.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    rest(relay, 3, 2 if client == "Python" else 40)
