"""Looking at messages of a share: where each stands, until when, and with whom. Changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.addressing import Addressed
from fanlog.core.attempts import Attempts
from fanlog.core.cursor import Cursor, Range
from fanlog.core.redelivery import Delayed
from fanlog.core.share.decision import ShareStats
from fanlog.core.share.lease import Lease, LeaseTable
from fanlog.core.share.open_offsets import OpenOffsets
from fanlog.core.share.soft_state import SoftState
from fanlog.core.share.state import ShareState
from fanlog.core.share.states import State
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where one message stands on one share."""

    state: State
    #: Failed deliveries so far, as far as they are counted.
    failures: int = 0
    #: When the lease or the wait ends.
    until_s: float | None = None
    #: When it was leased; None for a lease of before a restart.
    granted_s: float | None = None
    #: The streaming client that holds the lease, as it calls itself; empty for others.
    client_id: str = ""


def looks(
    states: Mapping[State, BitMap64], leases: LeaseTable, delayed: Delayed, attempts: Attempts
) -> dict[Offset, Look]:
    """A look at each message in `states`."""
    outstanding = states.get(State.OUTSTANDING, BitMap64())
    lease_of: dict[Offset, Lease] = {
        offset: lease for lease, held in leases.holding(outstanding) for offset in held
    }
    due_of = delayed.dues(states.get(State.DELAYED, BitMap64()))
    found: dict[Offset, Look] = {}
    for state, offsets in states.items():
        for offset in offsets:
            failures = attempts[offset] if attempts else 0
            lease = lease_of.get(offset)
            if state is not State.OUTSTANDING or lease is None:
                until_s = due_of.get(offset) if state is State.DELAYED else None
                found[offset] = Look(state=state, failures=failures, until_s=until_s)
                continue
            client = None if lease.credit is None else lease.credit.client
            found[offset] = Look(
                state=state,
                failures=failures,
                until_s=lease.deadline_s,
                granted_s=None if math.isnan(lease.granted_s) else lease.granted_s,
                client_id=client if isinstance(client, str) else "",
            )
    return found


class Looking:
    """The part of a share that shows where its messages stand, and changes nothing."""

    state: ShareState
    cursor: Cursor
    _soft: SoftState
    _open: OpenOffsets

    def open_count(self, end: Offset) -> int:
        """How many messages before `end` are neither acknowledged nor passed over."""
        return len(self.cursor.open_offsets(end) - self._open.passed_over)

    def backlog_count(self, end: Offset) -> int:
        """How many messages before `end` are a backlog: those that the filter has judged, if any.

        Ends may be ahead of what is committed.
        """
        if self._open.routed_to < end or self._open.passed_over:
            return self.open_count(min(end, self._open.routed_to))
        return self.cursor.open_before(end)

    def free_offsets(self, end: Offset) -> BitMap64:
        """The messages before `end` that are judged and open, and that nobody has.

        One that is leased, or acknowledged ahead of an earlier one of its key, is not among them;
        nor is one on its way to be a dead letter.
        """
        found = self.cursor.open_offsets(min(end, self._open.routed_to)) - self._open.passed_over
        return found - self._soft.taken - self._soft.backlog.outstanding

    @property
    def returned(self) -> BitMap64:
        """Messages that came back from a delivery. Not to be changed."""
        return self._soft.failures.returned

    def ahead(self, start: Offset, end: Offset, matching: BitMap64) -> BitMap64:
        """The offsets from `routed_to` on that would be open, did the filter want `matching`."""
        return self._open.ahead(start, end, matching)

    def look(self, offsets: BitMap64) -> dict[Offset, Look]:
        """Where each of these messages stands. Nothing changes."""
        acked = self.cursor.acknowledged(offsets)
        passed_over = (self._open.passed_over & offsets) - acked
        states = {State.ACKED: acked, State.PASSED_OVER: passed_over}
        states |= self._soft.offsets_by_state(offsets - acked - passed_over)
        return looks(states, self._soft.leases, self._soft.delayed, self.state.attempts)

    def behind(self, offset: Offset, key_hash: int) -> Offset | None:
        """The earlier message of its ordering key that a message waits for, if there is one."""
        return self._soft.backlog.behind(offset, key_hash)

    @property
    def pending(self) -> BitMap64:
        """Offsets of the partition that are not to be delivered yet. Not to be changed."""
        agenda = self._soft.agenda
        if agenda is None:
            return BitMap64()
        return agenda.pending | agenda.places.held if agenda.places.held else agenda.pending

    def pending_with_keys(self, start: Offset, end: Offset) -> BitMap64:
        """Pending messages of `[start, end)` that hold up their keys, where there is order."""
        agenda = self._soft.agenda
        if agenda is None or not self.state.settings.enable_message_ordering:
            return BitMap64()
        # Those whose time is to be read may have a key.
        some = agenda.keyed | agenda.unread
        return self._waiting(some & BitMap64(range(start, end)))

    def never_lapses(self, offset: Offset) -> bool:
        """Whether its time-to-live counts for nothing: who reopens a message wants it."""
        return offset in self.cursor.reopened or self.state.settings.mode == "export"

    def _waiting(self, offsets: BitMap64) -> BitMap64:
        """Those of `offsets`, which are pending, that are this share's to wait for."""
        if not offsets:
            return BitMap64()
        open_ = offsets - self.cursor.acknowledged(offsets) - self._open.passed_over
        return open_ - self._soft.taken - self._soft.delayed.offsets

    @property
    def has_attempts(self) -> bool:
        """Whether a failed delivery of any message is counted."""
        return bool(self.state.attempts)

    def attempts_of(self, offset: Offset) -> int:
        """Failed deliveries of a message so far, as far as they are counted."""
        return self.state.attempts[offset]

    def open_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        """Runs of offsets that are neither acknowledged nor left out by the filter, in order."""
        view, end = self._open.until(end)
        return view.unacked_ranges(start, end)

    def is_open(self, offset: Offset) -> bool:
        """Whether it is neither acknowledged nor left out by the filter."""
        return offset not in self._open.view

    def free(self, offsets: BitMap64) -> BitMap64:
        """The offsets among `offsets` that are unacknowledged, not leased and not forwarded."""
        unacked = offsets - self._open.view.acknowledged(offsets)
        return unacked - self._soft.backlog.outstanding - self._soft.taken

    @property
    def addressed(self) -> Addressed:
        """Which messages are for one subscription alone."""
        return self._open.addressed

    @property
    def leased(self) -> BitMap64:
        """The offsets that are leased."""
        return self._soft.leases.offsets

    def next_deadline(self) -> float | None:
        """When `expire` has something to do next."""
        return self._soft.next_deadline()

    def stats(self, end: Offset) -> ShareStats:
        return ShareStats(
            floor=self.cursor.floor,
            backlog=max(0, self.cursor.open_before(end) - len(self._open.passed_over)),
            outstanding=self._soft.leases.outstanding,
            delayed=len(self._soft.delayed.offsets),
            depending=len(self._soft.depending.offsets),
            forwarding=len(self._soft.forwarding),
            pending=len(self._waiting(self.pending)),
        )

    def offsets_by_state(self, end: Offset) -> dict[State, BitMap64]:
        """Every offset before `end`, by the state that its message is in."""
        acked = self.cursor.acknowledged(BitMap64(range(end)))
        passed_over = self._open.passed_over - acked
        found = {State.ACKED: acked, State.PASSED_OVER: passed_over}
        return found | self._soft.offsets_by_state(BitMap64(range(end)) - acked - passed_over)
