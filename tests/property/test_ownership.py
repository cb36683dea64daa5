"""Nodes with pauses, clocks of their own rate and a slow partition never both answer.

The world is a partition with the rule of validity, and nodes that renew, read and take over by the
rules of `fanlog.cluster.ownership`, each step after a delay of any length. Time is virtual.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanlog.cluster.ownership import OwnerSession, Seen, Vigil, may_answer, renew_at, serve_from

SESSION = OwnerSession(3.0)
END_S = 240.0


@dataclass
class World:
    rng: random.Random
    now: float = 0.0
    #: Valid records: what kind, and of which node.
    records: list[tuple[str, str]] = field(default_factory=list)
    term: int = -1
    owner: str = ""
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def after(self, delay_s: float, step: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, step))

    def delay_s(self) -> float:
        """Mostly short; now and then a process or a connection stands still for long."""
        if self.rng.random() < 0.02:
            return self.rng.uniform(0.5, 12.0)
        return self.rng.uniform(0.0, 0.05)

    def run(self, check: Callable[[], None]) -> None:
        while self._events:
            at, _, step = heapq.heappop(self._events)
            if at > END_S:
                return
            # Also in the middle between two steps.
            for moment in ((self.now + at) / 2, at):
                self.now = moment
                check()
            step()
            check()

    def append(self, kind: str, node: str, term: int, expected: int) -> int:
        """A record arrives; the offset that is acknowledged."""
        place = len(self.records)
        is_valid = (
            term == self.term if kind == "take-over" else term == self.term and expected == place
        )
        if is_valid and kind == "take-over":
            self.term, self.owner = place, node
        self.records.append((kind if is_valid else "void", node))
        return place


class Node:
    def __init__(self, world: World, name: str, rate: float, begin_s: float) -> None:
        self.world, self.name, self.rate, self._begin_s = world, name, rate, begin_s
        self.vigil = Vigil(SESSION, name)
        self.term = -1
        self.owner = ""
        self.applied = 0
        self.heard_s = self.fetched_s = self.renewed_s = self.told_s = -math.inf
        self.from_s = math.inf
        self.owns = False
        self.terms = 0

    def clock(self) -> float:
        return self._begin_s + self.world.now * self.rate

    @property
    def may_answer(self) -> bool:
        return self.owns and may_answer(
            SESSION, from_s=self.from_s, renewed_s=self.renewed_s, now=self.clock()
        )

    def seen(self) -> Seen:
        return Seen(
            term=self.term,
            owner=self.owner,
            successor=None,
            members=(),
            applied_offset=self.applied,
            end_offset=self.applied,
            is_whole=True,
            heard_s=self.heard_s,
            fetched_s=self.fetched_s,
            clock_ahead_s=0.0,
        )

    # Following.

    def follow(self) -> None:
        found = self.world.records[self.applied :]
        self.world.after(self.world.delay_s(), lambda: self.take(found))

    def take(self, found: list[tuple[str, str]]) -> None:
        self.apply(found)
        self.fetched_s = self.clock()
        self.vigil.look(self.seen(), self.clock())
        if self.vigil.is_time(self.seen(), self.clock()):
            before = self.seen()
            self.world.after(self.world.delay_s(), lambda: self.send_take_over(before))
        else:
            self.world.after(0.2 + self.world.delay_s(), self.follow)

    def apply(self, found: list[tuple[str, str]]) -> None:
        for kind, node in found:
            if kind == "take-over":
                self.term, self.owner = self.applied, node
            if kind != "void" and node == self.owner:
                self.heard_s = self.clock()
            self.applied += 1

    # Taking over.

    def send_take_over(self, before: Seen) -> None:
        sent_s = self.clock()
        self.world.after(self.world.delay_s(), lambda: self.arrive(before, sent_s))

    def arrive(self, before: Seen, sent_s: float) -> None:
        place = self.world.append("take-over", self.name, before.term, -1)
        self.world.after(self.world.delay_s(), lambda: self.read_back(before, sent_s, place))

    def read_back(self, before: Seen, sent_s: float, place: int) -> None:
        self.apply(self.world.records[self.applied : place + 1])
        if self.term != place:
            self.follow()
            return
        self.owns = True
        self.terms += 1
        self.renewed_s = self.told_s = sent_s
        self.from_s = serve_from(SESSION, before, place, self.clock())
        self.renew()

    # Owning.

    def renew(self) -> None:
        due_s = renew_at(SESSION, renewed_s=self.renewed_s, told_s=self.told_s)
        wait_s = max(0.0, due_s - self.clock()) / self.rate
        self.world.after(wait_s + self.world.delay_s(), self.send_renewal)

    def send_renewal(self) -> None:
        sent_s = self.clock()
        self.world.after(self.world.delay_s(), lambda: self.renewal_arrives(sent_s))

    def renewal_arrives(self, sent_s: float) -> None:
        place = self.world.append("renewal", self.name, self.term, self.applied)
        self.world.after(self.world.delay_s(), lambda: self.renewal_is_acknowledged(sent_s, place))

    def renewal_is_acknowledged(self, sent_s: float, place: int) -> None:
        if place == self.applied:
            self.applied += 1
            self.renewed_s = self.told_s = sent_s
            self.renew()
            return
        # Another offset than expected: reading tells it that the term is over.
        self.owns = False
        self.renewed_s, self.from_s = -math.inf, math.inf
        self.apply(self.world.records[self.applied :])
        self.follow()


def live(seed: int) -> tuple[World, list[Node]]:
    rng = random.Random(seed)
    world = World(rng)
    nodes = [
        Node(world, name, rng.uniform(0.75, 1.25), rng.uniform(0.0, 1e6))
        for name in ("a", "b", "c")
    ]
    for node in nodes:
        world.after(rng.uniform(0.0, 1.0), node.follow)

    def check() -> None:
        answering = [node.name for node in nodes if node.may_answer]
        assert len(answering) <= 1, f"at {world.now:.3f} s of seed {seed} answer {answering}"

    world.run(check)
    return world, nodes


def live_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        live(seed)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_two_nodes_never_both_answer(seed):
    live(seed)


def test_the_world_is_one_in_which_terms_change():
    changes = [sum(node.terms for node in live(seed)[1]) for seed in range(20)]
    assert min(changes) >= 1
    assert sum(changes) > 100


@pytest.mark.parametrize(
    "broken", ["a successor that does not wait", "an owner by its last answer"]
)
def test_broken_rules_are_found(broken, monkeypatch):
    if broken == "a successor that does not wait":
        monkeypatch.setitem(globals(), "serve_from", lambda session, before, term, now: now)
    else:

        def until_a_session(session, *, from_s, renewed_s, now):
            return from_s <= now < renewed_s + 2 * session.length_s

        monkeypatch.setitem(globals(), "may_answer", until_a_session)
    with pytest.raises(AssertionError, match="answer"):
        live_all(range(300))
