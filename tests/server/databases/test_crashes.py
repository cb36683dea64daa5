"""Programs killed at each step, and others that go on: every effect once, keys in order."""

from __future__ import annotations

from typing import Any

import pytest

from fanlog import Client
from fanlog.outbox import Outbox, Relay
from server.databases import crashing
from server.databases.conftest import Database

RELAY_STEPS = [
    f"{when}:{step}"
    for step in ("take", "last_epoch", "stage", "open", "publish", "close", "release")
    for when in ("before", "after")
]
RECOVERY_STEPS = [
    f"{when}:{step}" for step in ("abort", "last_epoch", "close") for when in ("before", "after")
]
CONSUMER_STEPS = [
    f"{when}:{step}"
    for step in ("add", "work", "commit", "acknowledge")
    for when in ("before", "after")
]
#: Of relays that come one after the other, each when the lane of the last one is free again.
MINUTES_S = [1_000_000 + 100 * number for number in range(4)]
PUBLISHED = [(key, number) for number in range(5) for key in ("a", "b")]


@pytest.fixture
def filled(server: Any, database: Database) -> str:
    """A subscription on the topic of an outbox that has ten rows, of two keys, in one lane."""
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    connection, outbox = database.connect(), Outbox()
    outbox.create(connection, lanes=1)
    for key, number in PUBLISHED:
        outbox.add(connection, topic, b"%d" % number, {"number": str(number)}, key=key)
    connection.commit()
    return str(subscription)


def killed(server: Any, database: Database, step: str, now_s: int) -> None:
    done = crashing.run("relay", step, database.kind, database.address, server.endpoint, str(now_s))
    assert done.returncode == crashing.KILLED, done.stderr


def finish(server: Any, database: Database, now_s: int) -> None:
    with Client(server.endpoint) as client:
        Relay(database.connect, client, clock=lambda: now_s).drain()


def check(server: Any, database: Database, subscription: str) -> None:
    received = server.drain(subscription, len(PUBLISHED))
    server.await_drained(subscription)
    assert server.pull(subscription) == []
    for key in ("a", "b"):
        found = [int(one.message.data) for one in received if one.message.ordering_key == key]
        assert found == list(range(5)), key
    assert database.run("SELECT COUNT(*) FROM fanlog_outbox") == [(0,)]


@pytest.mark.parametrize("step", RELAY_STEPS)
def test_a_relay_is_killed_and_another_goes_on(server, database, filled, step):
    killed(server, database, step, MINUTES_S[0])
    finish(server, database, MINUTES_S[1])
    check(server, database, filled)


@pytest.mark.parametrize("step", RECOVERY_STEPS)
@pytest.mark.parametrize("first", ["before:publish", "after:publish"])
def test_the_one_that_goes_on_is_killed_too(server, database, filled, first, step):
    killed(server, database, first, MINUTES_S[0])
    killed(server, database, step, MINUTES_S[1])
    finish(server, database, MINUTES_S[2])
    check(server, database, filled)


@pytest.mark.parametrize("step", ["before:refuse", "after:refuse"])
def test_a_relay_is_killed_while_a_row_is_refused(server, database, step):
    topic = server.topic()
    missing = f"{topic}-later"
    connection, outbox = database.connect(), Outbox()
    outbox.create(connection, lanes=1)
    for number in range(3):
        outbox.add(connection, missing, b"%d" % number, key="k")
    connection.commit()
    killed(server, database, step, MINUTES_S[0])
    server.publisher.create_topic(name=missing)
    subscription = server.subscription(missing, enable_message_ordering=True)
    finish(server, database, MINUTES_S[1])
    assert [one.message.data for one in server.pull(subscription)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("step", CONSUMER_STEPS)
def test_a_consumer_is_killed_and_another_goes_on(still_server, database, step):
    server = still_server
    topic, subscription = server.topic_and_subscription()
    database.run("CREATE TABLE work (message TEXT)")
    server.publish(topic, b"1", b"2", b"3")
    args = (database.kind, database.address, server.endpoint, subscription)
    done = crashing.run("consumer", step, *args)
    assert done.returncode == crashing.KILLED, done.stderr
    # Its leases end, and the messages come again.
    server.advance(11)
    done = crashing.run("consumer", "", *args)
    assert done.returncode == 0, done.stderr
    server.await_drained(subscription)
    assert sorted(database.run("SELECT message FROM work")) == [("1",), ("2",), ("3",)]
