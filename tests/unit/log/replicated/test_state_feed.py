"""A node that follows tells a listener all hard state, and all changes of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fanlog.log.api import Commit
from fanlog.log.replicated import state_feed
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.state_feed import StateChange
from replica_nodes import ReplicaNodes, read_all, read_some


class Listener:
    def __init__(self) -> None:
        self.state: dict[bytes, bytes] = {}
        self.reached: int | None = None
        self.begun = 0
        self.wants_all = False

    def begin(self) -> None:
        self.state, self.reached = {}, None
        self.begun += 1
        self.wants_all = False

    def put(self, changes: Sequence[StateChange]) -> None:
        for key, value in changes:
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def reach(self, sequence: int) -> None:
        self.reached = sequence


@pytest.fixture
def listener() -> Listener:
    return Listener()


def write(log: ReplicatedLog, **values: str | None) -> None:
    state = {
        key.encode(): None if value is None else value.encode() for key, value in values.items()
    }
    log.commit(
        Commit(
            sequence=log.last_sequence + 1, publish_time_ns=log.last_publish_time_ns, state=state
        )
    )


def follower(nodes: ReplicaNodes, listener: Listener) -> ReplicatedLog:
    log = nodes.make("south", listener=listener)
    # Its thread is not started: the test reads.
    log._replica.feed.turn_on()
    return log


def check(listener: Listener, log: ReplicatedLog) -> None:
    assert listener.reached == log.last_sequence
    assert listener.state == dict(log.state())


def test_all_state_comes_in_pages_and_changes_between_them(
    nodes: ReplicaNodes, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_feed, "PAGE_KEYS", 2)
    owner = nodes.owner("north")
    write(owner, a="1", b="1", c="1", d="1", e="1")
    south = follower(nodes, listener)
    read_some(south)
    assert listener.reached is None
    write(owner, a="2", b=None, e=None, f="2")
    read_all(south)
    # The last page is told although nothing comes any more.
    while listener.reached is None:
        read_some(south)
    check(listener, south)
    write(owner, a=None, g="3")
    read_all(south)
    check(listener, south)


def test_a_cache_that_is_discarded_is_told_anew(nodes: ReplicaNodes, listener: Listener) -> None:
    owner = nodes.owner("north")
    write(owner, a="1")
    south = follower(nodes, listener)
    read_all(south)
    south.distrust("a test says so")
    read_all(south)
    read_some(south)
    assert listener.begun == 2
    check(listener, south)


def test_a_take_over_reaches_the_last_commit(nodes: ReplicaNodes, listener: Listener) -> None:
    owner = nodes.owner("north")
    write(owner, a="1")
    south = follower(nodes, listener)
    read_all(south)
    write(owner, a="2", b="2")
    assert south.take_over()
    check(listener, south)
    told = dict(listener.state)
    write(south, c="3")
    assert listener.state == told, "the owner knows what it writes"


def test_all_is_told_once_more_when_asked_for(nodes: ReplicaNodes, listener: Listener) -> None:
    owner = nodes.owner("north")
    write(owner, a="1")
    south = follower(nodes, listener)
    read_all(south)
    listener.wants_all = True
    read_some(south)
    assert listener.begun == 2
    check(listener, south)
