"""The backlog of a share that serves tenants in turn. Soft state.

A tenant is what the attribute `fanlog-tenant` of messages says; messages without one are of one
more. Each tenant with messages has a turn of a few (`limits.TENANT_TURN_MESSAGES`), then the next
one has. So a message waits for no more than one turn of each other tenant, however many messages
those have. Within a turn the tenant's urgent messages go first, and its oldest ones now and then,
as they do where nobody has turns.

Which messages a tenant has is known from the agenda of the partition; here is only how far the
messages of each were looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.cursor import Range
from fanlog.core.flow import Credit
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import AgendaView, Exhausted, Openness, find, outside
from fanlog.core.share.depending import Depending
from fanlog.core.share.packer import Packer, Slots
from fanlog.core.share.unordered import UnorderedBacklog
from fanlog.model.resources import Offset

#: The tenant of messages that name none.
NOBODY = 0

_NONE = BitMap64()


class FairBacklog(UnorderedBacklog):
    """See `Backlog` for the methods."""

    __slots__ = ("_counts", "_last", "_positions")

    def __init__(
        self,
        floor: Offset,
        held: BitMap64,
        aversions: Aversions,
        exhausted: Exhausted,
        depending: Depending,
    ) -> None:
        super().__init__(floor, held, aversions, exhausted, depending)
        #: By tenant: none of its messages before this offset is free and was never handed out.
        self._positions: dict[int, Offset] = {}
        #: By tenant: its messages that were handed out, as far as it says when the oldest is next.
        self._counts: dict[int, int] = {}
        #: The tenant that had its turn last.
        self._last = NOBODY

    def _has_turns(self) -> bool:
        """Whether tenants are served in turn: what stood behind gaps has its place in the log."""
        agenda = self.agenda
        return agenda is not None and bool(agenda.tenants) and not agenda.places

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        if not self._has_turns():
            return super().plan(cursor, end, limit, consumer)
        assert self.agenda is not None
        ranges: list[Range] = []
        for _, offset in self._choose(self.agenda, cursor, end, limit, consumer):
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = ranges[-1][0], offset + 1
            else:
                ranges.append((offset, offset + 1))
        return ranges

    def take(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        if not self._has_turns():
            super().take(cursor, end, views, packer)
            return
        assert self.agenda is not None
        chosen = self._choose(self.agenda, cursor, end, packer.limit, packer.consumer)
        # The tenant whose turn it is, if that has brought nothing but messages that are left out.
        unserved: int | None = None
        for tenant, offset in chosen:
            if unserved not in (None, tenant):
                # Its turn goes on with the next answer: they would use up one after another.
                break
            slots = find(views, offset)
            if slots is None:
                break
            if self._leaves_out(offset):
                unserved = None if tenant == self._last and packer.count else tenant
            elif self._has_to_stay(offset):
                self._last = tenant
                continue
            elif packer.add(slots, offset, offset + 1) == offset:
                break
            else:
                self._serve(tenant)
                unserved = None
            if offset >= self.next_offset:
                # `next_offset` is to pass it.
                self._held.add(offset)
            else:
                self._ready.discard(offset)

    def _serve(self, tenant: int) -> None:
        """A tenant has one of its messages handed out."""
        self._counts[tenant] = (self._counts.get(tenant, 0) + 1) % limits.PRIORITY_FLOOR_PART
        self._last = tenant

    def _leaves_out(self, offset: Offset) -> bool:
        """Whether a message is forwarded instead, or put aside until others are acknowledged."""
        if self._exhausted.may_exist and offset in self._exhausted:
            self.to_forward.append(offset)
            return True
        depending = self._depending
        return bool(depending.causes) and offset in depending and depending.hold(offset)

    def _has_to_stay(self, offset: Offset) -> bool:
        """Whether a message waits for others, and there is no room to put it aside."""
        return bool(self._depending.causes) and offset in self._depending

    def release(self, offsets: BitMap64) -> None:
        super().release(offsets)
        self._look_again(offsets)

    def come_due(
        self, offsets: BitMap64, keyed: BitMap64, busy: BitMap64, delayed: BitMap64
    ) -> None:
        super().come_due(offsets, keyed, busy, delayed)
        self._look_again(offsets)

    def _go_back(self, opened: BitMap64, busy: BitMap64, delayed: BitMap64) -> None:
        super()._go_back(opened, busy, delayed)
        self._positions.clear()

    def _look_again(self, offsets: BitMap64) -> None:
        """Messages that may have been passed are free."""
        if offsets and offsets.max() >= self.next_offset:
            self._positions.clear()

    # Whose turn it is.

    def _choose(
        self, agenda: AgendaView, cursor: Openness, end: Offset, limit: int, consumer: Credit
    ) -> list[tuple[int, Offset]]:
        """The messages of the next answer, each with its tenant; the same when asked again."""
        limit = min(limit, limits.TENANT_ANSWER_MESSAGES_MAX)
        averse = self._aversions.of(consumer)
        found: list[tuple[int, Offset]] = []
        sources: dict[int, Iterator[Offset]] = {}
        turns = deque(self._rotation(agenda))
        while turns and len(found) < limit:
            tenant = turns.popleft()
            if tenant not in sources:
                sources[tenant] = self._messages_of(tenant, agenda, cursor, end, averse)
            most = min(limits.TENANT_TURN_MESSAGES, limit - len(found))
            before = len(found)
            found += ((tenant, offset) for offset in islice(sources[tenant], most))
            if len(found) == before + most:
                turns.append(tenant)
        return found

    def _rotation(self, agenda: AgendaView) -> list[int]:
        """All tenants, the one after the last first."""
        tenants = sorted((NOBODY, *agenda.tenants))
        later = [tenant for tenant in tenants if tenant > self._last]
        return later + tenants[: len(tenants) - len(later)]

    def _messages_of(
        self,
        tenant: int,
        agenda: AgendaView,
        cursor: Openness,
        end: Offset,
        averse: BitMap64,
    ) -> Iterator[Offset]:
        """The messages of a tenant that may be handed out, in the order in which they are."""
        oldest = self._oldest_of(tenant, agenda, cursor, end, averse)
        if not agenda.urgent:
            yield from oldest
            return
        urgent = self._urgent_of(tenant, agenda, cursor, end, averse)
        count, seen = self._counts.get(tenant, 0), set[Offset]()
        while True:
            # Low priorities do not starve.
            is_owed = count % limits.PRIORITY_FLOOR_PART == limits.PRIORITY_FLOOR_PART - 1
            both = (oldest, urgent) if is_owed else (urgent, oldest)
            offset = next((one for one in chain(*both) if one not in seen), None)
            if offset is None:
                return
            seen.add(offset)
            count += 1
            yield offset

    def _oldest_of(
        self,
        tenant: int,
        agenda: AgendaView,
        cursor: Openness,
        end: Offset,
        averse: BitMap64,
    ) -> Iterator[Offset]:
        ready = self._ready - averse
        back = ready - agenda.tenanted if tenant == NOBODY else ready & agenda.tenants[tenant]
        yield from back
        start = max(self.next_offset, self._positions.get(tenant, 0))
        if tenant == NOBODY:
            fresh = self._fresh_of_nobody(agenda, cursor, start, end, averse)
        else:
            bits = agenda.tenants[tenant]
            if start > bits.max():
                return
            fresh = self._fresh_among(bits, agenda, cursor, start, end, averse)
        first = next(fresh, None)
        if not averse:
            # Nothing before it is left for anybody.
            self._positions[tenant] = end if first is None else first
        if first is not None:
            yield first
            yield from fresh

    def _urgent_of(
        self,
        tenant: int,
        agenda: AgendaView,
        cursor: Openness,
        end: Offset,
        averse: BitMap64,
    ) -> Iterator[Offset]:
        for listed in agenda.urgent.values():
            own = listed - agenda.tenanted if tenant == NOBODY else listed & agenda.tenants[tenant]
            yield from (own & self._ready) - averse
            yield from self._fresh_among(own, agenda, cursor, self.next_offset, end, averse)

    def _fresh_among(
        self,
        bits: BitMap64,
        agenda: AgendaView,
        cursor: Openness,
        start: Offset,
        end: Offset,
        averse: BitMap64,
    ) -> Iterator[Offset]:
        """Offsets of `bits` from `start` on that were never handed out and may be."""
        ahead = bits.iter_equal_or_larger(start)
        size = limits.TENANT_TURN_MESSAGES
        while some := BitMap64(islice(ahead, size)):
            is_last = some.max() >= end
            some.remove_range(end, limits.OFFSET_MAX + 1)
            some -= self._held
            some -= agenda.pending
            some -= averse
            if some:
                some -= cursor.acknowledged(some)
            yield from some
            if is_last:
                return
            # Many were handed out already, or acknowledged: take larger steps past them.
            size = min(size * 4, limits.CURSOR_CHUNK_OFFSETS)

    def _fresh_of_nobody(
        self,
        agenda: AgendaView,
        cursor: Openness,
        start: Offset,
        end: Offset,
        averse: BitMap64,
    ) -> Iterator[Offset]:
        ranges = cursor.unacked_ranges(start, end) if start < end else iter(())
        for held in (self._held, averse, agenda.pending, agenda.tenanted):
            ranges = outside(ranges, held)
        for first, stop in ranges:
            yield from range(first, stop)
