"""The naive model of a share: one entry per message, every rule spelled out in the slowest way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.model.resources import Subscription

#: Messages, then bytes; 0 is no limit. Messages are 5 to 40 bytes.
WINDOWS = [(0, 0), (3, 0), (0, 45), (2, 60)]
#: A pull, two streams of one client, and one of another.
CLIENTS = [None, "a", "a", "b"]

NACKS = [
    Nack(delay_s=0.0),
    Nack(delay_s=20.0),
    Nack(is_counted=False),
    Nack(is_counted=False, delay_s=20.0),
    Nack(is_terminal=True),
]


def consumers() -> list[Credit]:
    return [Credit(*window, client=name) for window, name in zip(WINDOWS, CLIENTS, strict=True)]


@dataclass
class Held:
    """One leased message."""

    generation: int
    deadline_s: float
    #: Whose window it counts against.
    consumer: Credit | None


@dataclass
class Model:
    settings: Subscription
    keys: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    unacked: set[int] = field(default_factory=set)
    leased: dict[int, Held] = field(default_factory=dict)
    #: Acknowledged ahead of an earlier one of the key.
    soft: set[int] = field(default_factory=set)
    delayed: dict[int, float] = field(default_factory=dict)
    forwarding: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    spared: set[int] = field(default_factory=set)
    #: Nacked for good.
    given_up: set[int] = field(default_factory=set)
    #: Leased since before the restart behind one that failed; the share finds out when it scans.
    doomed: set[int] = field(default_factory=set)
    #: Until when a client does not get back what it nacked.
    averse: dict[tuple[object, int], float] = field(default_factory=dict)
    fence: int = 0
    #: When each reopened message was, and from which generation on its ack ids count.
    reopened: dict[int, tuple[float, int]] = field(default_factory=dict)
    #: Reopened while a later one of its key was somebody's, and in nobody's hands since.
    behind: set[int] = field(default_factory=set)
    #: Judged by the filter before something earlier was reopened.
    judged: set[int] = field(default_factory=set)
    #: A filter has judged what comes before; there need not be one.
    routed_to: int = limits.OFFSET_MAX

    @property
    def end(self) -> int:
        return len(self.keys)

    @property
    def is_ordered(self) -> bool:
        return self.settings.ordering != "none"

    def key(self, offset: int) -> int:
        return self.keys[offset] if self.is_ordered else 0

    def of_key(self, offset: int) -> list[int]:
        """Unacknowledged messages of the same key, in order."""
        return [o for o in sorted(self.unacked) if self.keys[o] == self.keys[offset]]

    def is_taken(self, offset: int) -> bool:
        """Whether it is somebody's, so that its key is busy."""
        return offset in self.leased or offset in self.soft or offset in self.forwarding

    def is_exhausted(self, offset: int) -> bool:
        policy = self.settings.dead_letter
        if policy is None or offset in self.spared:
            return False
        is_last = self.failures.get(offset, 0) >= policy.max_delivery_attempts
        return is_last or offset in self.given_up

    def available(self, consumer: Credit, *, may: bool = False) -> set[int]:
        """What could be the next message for `consumer`; with `may`, even if it need not be yet."""
        out, met = set(), set()
        for offset in sorted(self.unacked):
            key = self.key(offset)
            if offset >= self.routed_to and not (may and not key and offset in self.judged):
                continue
            if self.is_taken(offset) or key in met:
                continue
            if key:
                met.add(key)
            if offset in self.delayed or self.is_exhausted(offset):
                continue
            if (consumer.client, offset) in self.averse:
                continue
            if not key or self.is_open(offset, consumer):
                out.add(offset)
        return out

    def is_open(self, offset: int, consumer: Credit) -> bool:
        """Whether `consumer` may get `offset`, the first of its key that nobody has."""
        taken = [o for o in self.of_key(offset) if self.is_taken(o) and o not in self.doomed]
        if not taken:
            return True
        if max(taken) > offset:
            return False
        holders = {id(self.leased[o].consumer) for o in taken if o in self.leased}
        assert len(holders) <= 1
        return self.settings.ordering == "key" and holders == {id(consumer)}

    # What happened.

    def ack(self, offset: int) -> None:
        """An accepted acknowledgement of a leased message."""
        del self.leased[offset]
        self.doomed.discard(offset)
        if self.key(offset):
            self.soft.add(offset)
            self.harden(offset)
        else:
            self.close([offset])

    def harden(self, offset: int) -> None:
        for first in filter(self.is_taken, self.of_key(offset)):
            if first not in self.soft:
                break
            self.close([first])

    def close(self, offsets: Iterable[int]) -> None:
        """Acknowledged for good, whatever they were."""
        for offset in list(offsets):
            self.unacked.discard(offset)
            self.reopened.pop(offset, None)
            self.behind.discard(offset)
            self.given_up.discard(offset)
            self.forget(offset)

    def reopen(self, offsets: set[int], now: float, generation: int, unplaced: set[int]) -> None:
        """Acknowledged messages are not any more."""
        for offset in offsets:
            self.failures.pop(offset, None)
            self.reopened[offset] = (now, generation)
        for offset in offsets:
            if self.key(offset) and any(map(self.is_taken, self.of_key(offset))):
                later = [o for o in self.of_key(offset) if o > offset and self.is_taken(o)]
                self.behind |= {offset} if later else set()
                self.doomed |= unplaced & set(later)
        self.unacked |= offsets

    def forget(self, offset: int) -> None:
        for place in (self.leased, self.delayed):
            place.pop(offset, None)
        for some in (self.soft, self.forwarding, self.spared, self.doomed):
            some.discard(offset)

    def nacked(self, offsets: Iterable[int], now: float) -> None:
        """Their clients are averse to them for a while."""
        for consumer, offset in [(self.leased[o].consumer, o) for o in offsets]:
            if consumer is not None and consumer.client is not None:
                self.averse[consumer.client, offset] = now + limits.AVERSION_S

    def give_back(self, offsets: Iterable[int]) -> None:
        """Leased messages never left."""
        self.fail(offsets, set(), is_attempt=False)

    def fail(
        self, offsets: Iterable[int], unplaced: set[int], *, is_attempt: bool = True
    ) -> set[int]:
        """Leased messages came back; return those that may have to wait."""
        failed = sorted(offsets)
        heads: set[int] = set()
        is_counted = self.settings.dead_letter is not None or self.settings.retry is not None
        spared = set() if is_attempt else self.spared & set(failed)
        for offset in failed:
            if is_counted and is_attempt:
                self.failures[offset] = self.failures.get(offset, 0) + 1
            self.spared.discard(offset)
        for offset in failed:
            if offset not in self.leased:
                continue  # Taken along by an earlier one of its key.
            heads.add(offset)
            self.forget(offset)
            if self.key(offset):
                self.recall_after(offset, unplaced, set(failed))
        self.spared |= spared
        return heads

    def recall_after(self, offset: int, unplaced: set[int], failed: set[int]) -> None:
        for later in self.of_key(offset):
            if later > offset and (later in self.leased or later in self.soft):
                if later in unplaced and later not in failed:
                    self.doomed.add(later)
                elif later not in unplaced:
                    self.forget(later)

    def restart(self) -> None:
        if self.settings.enable_exactly_once:
            for held in self.leased.values():
                held.consumer = None
        else:
            self.leased.clear()
        if self.settings.dead_letter is None:
            self.failures.clear()
        for gone in (self.soft, self.forwarding, self.spared, self.given_up, self.judged):
            gone.clear()
        self.delayed.clear()
        self.averse.clear()
        for offset in self.leased if self.is_ordered else ():
            if self.key(offset) and any(o not in self.leased for o in self.earlier(offset)):
                self.doomed.add(offset)

    def earlier(self, offset: int) -> list[int]:
        return [o for o in self.of_key(offset) if o < offset]

    def move(
        self, unacked: set[int], fence: int, reopened: Mapping[int, tuple[float, int]]
    ) -> None:
        """A seek; what was reopened and stays open is within retention for as long as before."""
        for offset in range(self.end):
            self.forget(offset)
        self.failures.clear()
        self.given_up.clear()
        self.reopened = {o: when for o, when in reopened.items() if o in unacked}
        self.behind.clear()
        self.judged.clear()
        self.averse.clear()
        self.unacked, self.fence = unacked, fence
