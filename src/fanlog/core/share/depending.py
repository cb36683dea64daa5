"""Messages of a share that wait for others of their subscription to be acknowledged. Soft state.

When the turn of a message comes, the causes that it names are looked at as they are then: the first
one that is open on the subscription is *awaited*, and the message is put aside until that is
acknowledged; then its turn comes again, and its next cause is looked at. So a message costs one
entry, however many causes it has. A cause that is acknowledged, passed over, or in no partition of
the subscription holds up nothing. Nor does any after the time-out, which counts from when the
message was first put aside, and anew after a restart.

There is room for `limits.DEPENDING_MAX` messages. More stay in the backlog, ahead of later ones,
until there is room again: the oldest open message of a subscription waits for none, so that it
always has its turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Protocol

from pyroaring import BitMap64

from fanlog import limits
from fanlog.model.dependencies import Cause, Causes
from fanlog.model.resources import Offset, PartitionId

_NO_CAUSES: Causes = {}
#: What most shares have; never changed in place.
_NONE = BitMap64()


class Waiter(Protocol):
    """A share with messages that wait for a message of this one, or of another."""

    def let_go(self, offsets: BitMap64) -> None:
        """What they waited for is acknowledged."""
        ...


class Awaited(Waiter, Protocol):
    """A share of the same subscription, as far as others wait for its messages."""

    @property
    def awaited(self) -> AwaitedOffsets: ...
    def is_open(self, offset: Offset) -> bool: ...


class AwaitedOffsets:
    """Messages of one share that others wait for, and which those are."""

    __slots__ = ("_waiting", "offsets")

    def __init__(self) -> None:
        self._waiting: dict[Offset, set[tuple[Waiter, Offset]]] = {}
        #: Most often none: looked at whenever something is acknowledged.
        self.offsets = _NONE

    def add(self, cause: Offset, waiter: Waiter, offset: Offset) -> None:
        if not self._waiting:
            self.offsets = BitMap64()
        self._waiting.setdefault(cause, set()).add((waiter, offset))
        self.offsets.add(cause)

    def discard(self, cause: Offset, waiter: Waiter, offset: Offset) -> None:
        waiting = self._waiting.get(cause)
        if waiting is not None:
            waiting.discard((waiter, offset))
            if not waiting:
                del self._waiting[cause]
                self.offsets.discard(cause)

    def let_go(self, closed: BitMap64) -> list[Waiter]:
        """Let everything go that waits for some messages; the shares that had some."""
        found: dict[Waiter, BitMap64] = {}
        for cause in closed & self.offsets:
            for waiter, offset in self._waiting.pop(cause):
                found.setdefault(waiter, BitMap64()).add(offset)
        self.offsets = self.offsets - closed
        for waiter, offsets in found.items():
            waiter.let_go(offsets)
        return list(found)


class Depending:
    """The messages of one share that wait for others. Not safe to share between threads."""

    __slots__ = (
        "_due_s",
        "_heap",
        "_now",
        "_share",
        "_shares",
        "_timeout_s",
        "_waits_for",
        "causes",
        "has_held",
        "keyed",
        "loose",
        "noted",
        "overdue",
        "reasons",
    )

    def __init__(self, share: Awaited) -> None:
        self._share = share
        #: Put aside: those of an ordering key, which stay in its list, and the others.
        self.keyed = _NONE
        self.loose = _NONE
        #: The cause that each of them waits for.
        self._waits_for: dict[Offset, tuple[Awaited, Cause]] = {}
        #: When the wait of each is over; kept until it is handed out, or gone.
        self._due_s: dict[Offset, float] = {}
        self._heap: list[tuple[float, Offset]] = []
        #: Have waited too long: they wait for nothing any more. Those that are to be dead letters
        #: have a reason.
        self.overdue = _NONE
        self.reasons: dict[Offset, str] = {}
        #: The causes of the messages that the running lease may hand out.
        self.causes = _NO_CAUSES
        self._shares: Mapping[PartitionId, Awaited] = {}
        self._now = self._timeout_s = 0.0
        #: Messages that it put aside, for a backlog that is to know them.
        self.noted: list[Offset] = []
        self.has_held = False

    @property
    def offsets(self) -> BitMap64:
        """All that are put aside."""
        return self.keyed | self.loose

    # One lease.

    def begin(
        self,
        causes: Causes | None,
        shares: Mapping[PartitionId, Awaited],
        now: float,
        timeout_s: float,
    ) -> None:
        """A lease begins, with batches whose messages have `causes`."""
        self.causes, self._shares = causes or _NO_CAUSES, shares
        self._now, self._timeout_s = now, timeout_s
        self.noted.clear()
        self.has_held = False

    def __contains__(self, offset: Offset) -> bool:
        """Whether a message whose turn it is has to wait."""
        return offset in self.causes and self._find(offset) is not None

    def hold(self, offset: Offset, *, is_keyed: bool = False) -> bool:
        """Put a message aside that has to wait; False if there is no room."""
        if offset in self._waits_for:
            return True
        found = self._find(offset)
        assert found is not None
        if len(self._waits_for) >= limits.DEPENDING_MAX:
            return False
        cause, share = found
        self._waits_for[offset] = share, cause
        share.awaited.add(cause.offset, self._share, offset)
        if is_keyed:
            self.keyed = self.keyed | BitMap64([offset])
        else:
            self.loose = self.loose | BitMap64([offset])
        if offset not in self._due_s:
            self._due_s[offset] = self._now + self._timeout_s
        heapq.heappush(self._heap, (self._due_s[offset], offset))
        self.noted.append(offset)
        self.has_held = True
        return True

    def end(self, granted: BitMap64) -> bool:
        """The lease ends with some messages; whether some of those had causes."""
        causes, self.causes = self.causes, _NO_CAUSES
        if self._due_s:
            for offset in granted:
                self._due_s.pop(offset, None)
        return any(offset in causes for offset in granted) if causes else False

    def _find(self, offset: Offset) -> tuple[Cause, Awaited] | None:
        """The first open cause of a message."""
        causes = self.causes.get(offset)
        if causes is None or offset in self.overdue:
            return None
        for cause in causes:
            share = self._shares.get(cause.partition)
            if share is not None and share.is_open(cause.offset):
                return cause, share
        return None

    # Messages that wait no longer.

    def release(self, offsets: Iterable[Offset]) -> tuple[BitMap64, BitMap64]:
        """Their cause is acknowledged; those of them without a key, and those with one."""
        found = BitMap64()
        for offset in offsets:
            waited = self._waits_for.pop(offset, None)
            if waited is not None:
                share, cause = waited
                share.awaited.discard(cause.offset, self._share, offset)
                found.add(offset)
        loose, keyed = found & self.loose, found & self.keyed
        self.keyed = self.keyed - found
        self.loose = self.loose - found
        return loose, keyed

    def forget(self, offsets: BitMap64) -> None:
        """They are acknowledged, or cannot be read."""
        if self._waits_for:
            self.release(offsets & BitMap64(self._waits_for))
        if self._due_s:
            for offset in offsets & BitMap64(self._due_s):
                del self._due_s[offset]
        if self.overdue:
            for offset in offsets & self.overdue:
                self.reasons.pop(offset, None)
            self.overdue -= offsets

    def forget_all(self) -> None:
        # Of a hundred thousand shares that are loaded, none waits for anything.
        if self._waits_for:
            self.release(list(self._waits_for))

    def spare(self, offsets: BitMap64) -> None:
        """They could not be made dead letters, and are to be delivered."""
        for offset in offsets & BitMap64(self.reasons):
            del self.reasons[offset]

    def expire(self, now: float, *, forwards: bool) -> BitMap64:
        """End waits that are too long; the messages. Those are dead letters, if it `forwards`."""
        found = BitMap64()
        while self._heap and self._heap[0][0] <= now:
            due_s, offset = heapq.heappop(self._heap)
            if offset in self._waits_for and self._due_s.get(offset) == due_s:
                found.add(offset)
                if forwards:
                    _, cause = self._waits_for[offset]
                    self.reasons[offset] = (
                        f"waited too long for message {cause.id}, which is not acknowledged"
                    )
        self.overdue = self.overdue | found
        return found

    def next_deadline(self) -> float | None:
        if self._heap and not self._waits_for:
            self._heap.clear()
        return self._heap[0][0] if self._heap else None
