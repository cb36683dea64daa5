"""How far a standby is behind an owner at full load, how fast it catches up, and a new node."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from bench.kafka import KafkaMissing
from bench.members import PATIENCE_S, Member, clustered
from bench.meter import percentile
from bench.servers import Server
from bench.session import Sample, Session, Stalled

MESSAGE_BYTES = 1024
#: Between two looks at where owner and standby are.
_LOOK_S = 0.05
_APPLIED = "fanlog_cluster_applied_offset"
#: A new node may take over after so long, in seconds.
WHOLE_S = 30.0


@dataclass(slots=True)
class Places:
    """Where two nodes were at which times."""

    owner: list[tuple[float, float]] = field(default_factory=list)
    standby: list[tuple[float, float]] = field(default_factory=list)

    def lags_s(self) -> list[float]:
        """At each look, how long ago the owner was first seen further than the standby is now.

        Too long by up to the time between two looks.
        """
        found, at = [], 0
        for now, offset in self.standby:
            # The standby never goes back, so neither does the place.
            while at < len(self.owner) and self.owner[at][1] <= offset:
                at += 1
            passed_s = self.owner[at][0] if at < len(self.owner) else now
            found.append(max(0.0, now - passed_s))
        return found


class Watching:
    """Looks at two nodes on a thread while its block runs."""

    def __init__(self, owner: Member, standby: Member) -> None:
        self.places = Places()
        self._nodes = ((owner, self.places.owner), (standby, self.places.standby))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Places:
        self._thread.start()
        return self.places

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for node, places in self._nodes:
                # The moment of the owner's look before it, of the standby's behind it: no lag is
                # taken for shorter than it is.
                before = time.monotonic()
                offset = node.number(_APPLIED)
                moment = before if places is self.places.owner else time.monotonic()
                places.append((moment, offset))


def measure_following(_: Server, count: int) -> Sample:
    """`count` messages, 1,000 a request, 8 in flight; then as many while the standby is paused."""
    try:
        with clustered(1) as members:
            owner, standby = members.started("owner"), members.made("standby")
            with Session(owner) as session:
                topic = session.topic()
                _fill(session, topic, count // 5)
                standby.start()
                standby.await_part("standby")
                _await_caught_up(owner, standby)
                with Watching(owner, standby) as places:
                    rate = _fill(session, topic, count)
                lags_s = places.lags_s()
                standby.pause()
                try:
                    alone = _fill(session, topic, count)
                finally:
                    standby.resume()
                began_s = time.perf_counter()
                _await_caught_up(owner, standby)
                taken_s = time.perf_counter() - began_s
    except KafkaMissing as reason:
        return Sample(figures={}, notes=(f"left out: {reason}",))
    return Sample(
        figures={
            "rate": rate,
            "lag": max(lags_s),
            "lag-p50": percentile(lags_s, 50),
            "alone": alone,
            "catching-up": count / taken_s,
            "times": alone / (count / taken_s),
        }
    )


def measure_new_node(_: Server, count: int) -> Sample:
    """`count` messages in the log; then a node with an empty cache, until it may take over."""
    try:
        with clustered(1) as members:
            owner, new = members.started("owner"), members.made("new")
            with Session(owner) as session:
                topic = session.topic()
                session.subscription(topic)
                _fill(session, topic, count)
            began_s = time.perf_counter()
            new.start()
            started_s = time.perf_counter() - began_s
            new.await_part("standby")
            _await_caught_up(owner, new)
            whole_s = time.perf_counter() - began_s
    except KafkaMissing as reason:
        return Sample(figures={}, notes=(f"left out: {reason}",))
    return Sample(figures={"started": started_s, "whole": whole_s})


def _fill(session: Session, topic: str, count: int) -> float:
    """Publish; messages a second."""
    began_s = time.perf_counter()
    session.fill(topic, count, MESSAGE_BYTES, in_flight=8)
    return count / (time.perf_counter() - began_s)


def _await_caught_up(owner: Member, standby: Member) -> None:
    """Return when the standby is where the owner was when this was called."""
    offset, end_s = owner.number(_APPLIED), time.monotonic() + PATIENCE_S
    while standby.number(_APPLIED) < offset:
        if time.monotonic() > end_s:
            raise Stalled(f"the standby is not caught up after {PATIENCE_S:.0f} s")
        time.sleep(0.005)
