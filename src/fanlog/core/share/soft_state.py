"""The soft state of a share: everything that a restart may lose.

Leases (hard under exactly-once: there each change is also a record), back-offs, aversions, dead
letters under way, the reasons of failures, and the position of the backlog. The verbs of
`fanlog.core.share.share` decide; the methods here move messages between these parts,
so that each message is in one of them only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from pyroaring import BitMap64

from fanlog.core.agenda import Agenda
from fanlog.core.records import ShareRecord
from fanlog.core.redelivery import Delayed, Failures, Nack
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import Backlog
from fanlog.core.share.decision import Decision
from fanlog.core.share.depending import Awaited, Depending
from fanlog.core.share.fair import FairBacklog
from fanlog.core.share.lease import ByGeneration, LeaseTable, Matched, take_out
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.slot_holds import SlotHolds
from fanlog.core.share.slotted import SlottedBacklog
from fanlog.core.share.state import ShareState
from fanlog.core.share.states import State
from fanlog.core.share.unordered import UnorderedBacklog
from fanlog.model.resources import Offset

_NONE = BitMap64()


class ExhaustedOffsets:
    """The messages of a share without attempts left, under the policy of its present settings.

    So are messages that waited too long for others, if they are to be dead letters, and while the
    running verb has found some that have lapsed, these, too: none of them is delivered, and with
    ordering all leave when they are the first of their key.
    """

    __slots__ = ("_failures", "_overdue", "_state", "lapsed")

    def __init__(
        self, state: ShareState, failures: Failures, overdue: Mapping[Offset, str]
    ) -> None:
        self._state = state
        self._failures = failures
        self._overdue = overdue
        self.lapsed = _NONE

    @property
    def may_exist(self) -> bool:
        if self.lapsed:
            return True
        if self._state.settings.dead_letter is None:
            return False
        return bool(self._state.attempts) or bool(self._overdue)

    def __contains__(self, offset: Offset) -> bool:
        # Asked for every message of an ordered answer: most shares have no policy.
        policy = self._state.settings.dead_letter
        if policy is not None:
            if self._failures.is_exhausted(offset, policy):
                return True
            if self._overdue and offset in self._overdue:
                return True
        return bool(self.lapsed) and offset in self.lapsed


class SoftState:
    """The parts of one share that a restart may lose. Not safe to share between threads."""

    def __init__(self, state: ShareState, share: Awaited) -> None:
        self._state = state
        self._share = share
        self.depending = Depending(share)
        self._agenda: Agenda | None = None
        self.leases = LeaseTable()
        #: Of a subscription that assigns key slots to its consumers.
        self.slots: SlotHolds | None = None
        if slot_count := state.settings.key_slots:
            self.slots = SlotHolds(state.partition, slot_count)
            self.leases.on_end = self.slots.release
        self.forget()

    def restore(self, latest_s: float) -> None:
        """Begin anew, with the leases that are hard state; none of them ends after `latest_s`."""
        state = self._state
        on_end = self.leases.on_end
        self.leases = LeaseTable.restored(state.held.values(), state.cursor, latest_s)
        self.leases.on_end = on_end
        self.forget()

    def forget(self) -> None:
        """Forget everything but the leases; the backlog begins at the floor."""
        self.delayed = Delayed()
        #: Messages whose dead letters are decided and not committed.
        self.forwarding = BitMap64()
        #: Messages without attempts left that the running verb found.
        self._to_forward: list[Offset] = []
        #: Messages whose delivery failed in the running verb.
        self._failed: tuple[BitMap64, Nack] | None = None
        self.failures = Failures(self._state.attempts)
        self.depending.forget_all()
        self.depending = Depending(self._share)
        self._exhausted = ExhaustedOffsets(self._state, self.failures, self.depending.reasons)
        self.aversions = Aversions()
        self.backlog = self._new_backlog()
        self.backlog.agenda = self._agenda

    @property
    def agenda(self) -> Agenda | None:
        """What messages of the partition ask for; None when none does."""
        return self._agenda

    @agenda.setter
    def agenda(self, agenda: Agenda | None) -> None:
        self._agenda = self.backlog.agenda = agenda

    def _new_backlog(self) -> Backlog:
        floor, held = self._state.cursor.floor, self.leases.offsets
        if self.slots is not None:
            self.slots.reset()
            ordering = self._state.settings.ordering
            return SlottedBacklog(
                floor, held, self.slots, self.depending, self._plain_backlog, ordering
            )
        return self._plain_backlog(floor, held)

    def _plain_backlog(self, floor: Offset, held: BitMap64) -> UnorderedBacklog | OrderedBacklog:
        ordering = self._state.settings.ordering
        if ordering == "none" and self._state.settings.is_fair:
            return FairBacklog(floor, held, self.aversions, self._exhausted, self.depending)
        if ordering == "none":
            return UnorderedBacklog(floor, held, self.aversions, self._exhausted, self.depending)
        is_strict = ordering == "strict"
        return OrderedBacklog(
            floor, held, self.aversions, self._exhausted, self.depending, strict=is_strict
        )

    @property
    def taken(self) -> BitMap64:
        """The messages that are leased, or on their way to be dead letters."""
        return self.forwarding | self.leases.offsets

    def next_deadline(self) -> float | None:
        found = self.leases.next_deadline()
        for other in (
            self.delayed.next_deadline(),
            self.aversions.next_deadline(),
            self.depending.next_deadline(),
        ):
            if other is not None and (found is None or other < found):
                found = other
        return found

    def offsets_by_state(self, unacked: BitMap64) -> dict[State, BitMap64]:
        """Offsets that are neither acknowledged nor passed over, by the state of their message."""
        holding_up = self.backlog.outstanding - BitMap64(self.backlog.to_forward)
        found: dict[State, BitMap64] = {}
        for state, offsets in (
            (State.OUTSTANDING, self.leases.offsets),
            (State.FORWARDING, self.forwarding),
            (State.DELAYED, self.delayed.offsets),
            (State.DEPENDING, self.depending.offsets),
            # It holds up its key, and is neither leased nor forwarded.
            (State.EARLY, holding_up),
        ):
            found[state] = unacked & offsets
            unacked = unacked - offsets
        if self._agenda is not None:
            pending = self._agenda.pending | self._agenda.places.held
            found[State.PENDING] = unacked & pending
            unacked = unacked - pending
        return found | {State.BACKLOG: unacked}

    # Ack ids.

    def find_live(
        self, now: float, by_generation: ByGeneration, *, is_ack: bool = False
    ) -> tuple[Decision, list[Matched]]:
        """The live leases that ack ids name; the other ids are `invalid`, or an `early` ack.

        Exactly once, a lease ends at its deadline and not when the timer gets to it: otherwise an
        acknowledgement could be confirmed that the next delivery contradicts.
        """
        after_s = now if self._state.settings.enable_exactly_once else -math.inf
        live, invalid = self.leases.named(by_generation, after_s=after_s)
        decision = Decision(invalid=invalid)
        if is_ack:
            early = self.backlog.would_be_early([some for _, some in live])
            decision.early += take_out(live, early)
        return decision, live

    def find_live_or_late(
        self, by_generation: ByGeneration, end: Offset
    ) -> tuple[list[Matched], BitMap64]:
        """At least once: leased messages, under any generation, and messages that came back.

        The work was done, however late the acknowledgement is; delivering the message once more
        would help no one. Only a seek, or a reopening, makes earlier ids void: it asks for
        another delivery.
        """
        cursor = self._state.cursor
        if cursor.reopened:
            by_generation = self.leases.without_void(by_generation, cursor.reopened.void)
        unplaced = self.backlog.unplaced
        live, stale = self.leases.named_at_all(by_generation, self._state.fence, unplaced)
        if stale:
            end = max(end, self.backlog.next_offset)
            late = BitMap64(o for o in stale if o < end and o not in cursor)
            aside = self.delayed.offsets | self.depending.loose
            return live, self.backlog.late(late - self.forwarding, aside)
        return live, stale

    # Messages that come back, or leave.

    def fail(
        self, now: float, failed: Sequence[Matched], nack: Nack, jitter: float
    ) -> list[ShareRecord]:
        """Take leased messages back: count, then let them wait, deliver again or forward."""
        offsets = self.leases.settle_all(failed)
        if not offsets:
            return []
        records: list[ShareRecord] = []
        self._failed = offsets, nack
        if nack.is_told:
            self.aversions.add(now, failed)
        settings = self._state.settings
        schedule = settings.retry_schedule
        self.failures.take_back(offsets, nack)
        if settings.dead_letter is not None or schedule is not None:
            self.failures.note(offsets, nack, settings.dead_letter)
            if nack.is_counted:
                chunks = self.failures.count(offsets, nack)
                records += self._state.attempt_records(chunks.items())
        self.put_back(now, offsets, self.failures.waits(nack, schedule, jitter))
        return records

    def put_back(
        self, now: float, offsets: BitMap64, wait_of: Callable[[Offset], float] | None
    ) -> None:
        """Let messages that are not leased any more wait, be delivered again or be forwarded."""

        def delay(head: Offset) -> bool:
            if head in self._exhausted:
                return False
            return not self.delayed.put(now, BitMap64([head]), wait_of)

        keyless = self.backlog.recall(offsets, delay)
        if self._state.settings.dead_letter is not None:
            exhausted = BitMap64(offset for offset in keyless if offset in self._exhausted)
            self._to_forward += exhausted
            keyless = keyless - exhausted
        self.backlog.release(self.delayed.put(now, keyless, wait_of))

    def drop(self, gone: BitMap64) -> BitMap64:
        """Forget messages, in whichever part; return early acknowledgements that become hard."""
        self.leases.release(gone)
        self.forwarding -= gone
        return self.leave(gone)

    def leave(self, gone: BitMap64) -> BitMap64:
        """As `drop`, for messages that nobody has."""
        self.delayed.discard(gone)
        self.depending.forget(gone)
        self.failures.forget(gone)
        return self.backlog.drop(gone)

    def end_recalled(self) -> BitMap64:
        """End leases of messages behind one of their key that failed; return those messages."""
        released = self.leases.release(self.backlog.recalled)
        self.backlog.recalled.clear()
        return released

    # Messages that depend on others.

    def let_go(self, offsets: BitMap64) -> None:
        """Messages wait no longer for others."""
        self.backlog.let_go(*self.depending.release(offsets))

    def end_waits(self, now: float) -> int:
        """End waits for others that are too long; returns how many."""
        settings = self._state.settings
        forwards = settings.forwards_overdue and settings.dead_letter is not None
        overdue = self.depending.expire(now, forwards=forwards)
        if overdue:
            self.let_go(overdue)
        return len(overdue)

    # Messages that lapsed.

    def note_lapsed(self, lapsed: BitMap64) -> None:
        """Messages that the running verb must not deliver: their time-to-live is over."""
        self._exhausted.lapsed = lapsed

    def take_lapsed(self) -> BitMap64:
        """Take messages that lapsed and whose turn it is, unless they are to be dead letters."""
        settings, waiting = self._state.settings, self.backlog.to_forward
        if settings.dead_letter is not None and settings.forwards_lapsed:
            return BitMap64()
        taken = BitMap64(waiting) & self._exhausted.lapsed
        waiting[:] = [offset for offset in waiting if offset not in taken]
        return taken

    # The end of a verb.

    def finish(self, decision: Decision) -> Decision:
        """Add dead letters and leases that the parts noted while the verb ran."""
        backlog, leases, settings = self.backlog, self.leases, self._state.settings
        if backlog.to_forward:
            self._to_forward += backlog.to_forward
            backlog.to_forward.clear()
        if backlog.recalled:
            self.failures.returned |= self.end_recalled()
        if self._to_forward:
            policy = settings.dead_letter
            assert policy is not None
            lapsed = self._exhausted.lapsed
            decision.dead_letters += [
                self.failures.letter(
                    offset,
                    policy,
                    is_lapsed=offset in lapsed,
                    overdue=self.depending.reasons.get(offset, ""),
                )
                for offset in self._to_forward
            ]
            self.forwarding.update(self._to_forward)
            self._to_forward.clear()
        if settings.enable_exactly_once:
            decision.records += self._state.lease_records(leases)
        leases.changed.clear()
        self._exhausted.lapsed = _NONE
        decision.failed, self._failed = self._failed, None
        self.failures.end_verb()
        return decision
