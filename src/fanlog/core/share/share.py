"""A share: one subscription's part in one partition, and its verbs.

A verb takes values and the time, and returns a `Decision`: records to apply and commit, and the
rest that follows from them. `fanlog.core.share.states` has the table of states that verbs move
messages through.

A share has three parts. `state` is hard state: cursor, fence, attempts, held leases
(`fanlog.core.share.state`). The others are soft: leases, back-offs, aversions and the backlog
(`fanlog.core.share.soft_state`), and the open offsets: those of the cursor, less the messages that
are passed over (`fanlog.core.share.open_offsets`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.addressing import Addressed
from fanlog.core.agenda import Agenda
from fanlog.core.cursor import Cursor, CursorChange, Range
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.records import ShareRecord
from fanlog.core.redelivery import EXPIRED, NACKED, UNSENT, Nack
from fanlog.core.share.decision import Decision, Grant
from fanlog.core.share.depending import AwaitedOffsets, Waiter
from fanlog.core.share.lease import ByGeneration, Lease, LeaseTable, Matched
from fanlog.core.share.looking import Looking
from fanlog.core.share.open_offsets import OpenOffsets
from fanlog.core.share.packer import Packer, Slots
from fanlog.core.share.slot_holds import SlotHolds
from fanlog.core.share.soft_state import SoftState
from fanlog.core.share.state import ShareState
from fanlog.core.subscription_window import SubscriptionWindow
from fanlog.model.dependencies import Causes
from fanlog.model.resources import Offset, PartitionId, Subscription

_NONE = BitMap64()


class Share(Looking):
    """One subscription's share in one partition. Not safe to share between threads."""

    def __init__(self, settings: Subscription, partition: PartitionId, floor: Offset = 0) -> None:
        self.state = ShareState(settings, partition, floor)
        self.partition = partition
        self.cursor = self.state.cursor
        #: Generation of the last lease: a feed of many shares serves the one longest not served.
        self.last_leased = 0
        #: The shares of the subscription, this one included: messages may depend on theirs.
        self.siblings: Mapping[PartitionId, Share] = {partition: self}
        self.awaited = AwaitedOffsets()
        #: Shares with messages that waited for one of this, and do so no more: for `take_let_go`.
        self.waited: dict[Waiter, None] = {}
        self._soft = SoftState(self.state, self)
        self._open = OpenOffsets(self.state)
        self._open.restart()
        #: Progress of the backlog at the last plan: offsets that were skipped since then count.
        self._progress = 0

    def start(self, latest_s: float = math.inf) -> None:
        """Make the soft state anew from the hard state: after recovery, before the first verb.

        No lease ends after `latest_s`: one that would was given before the clock was set back.
        """
        self._soft.restore(latest_s)
        self._open.restart()

    def apply(self, record: ShareRecord) -> None:
        """Change hard state. The only method that does, live and on recovery alike."""
        fence = self.state.fence
        self.state.apply(record)
        if self.state.fence != fence:
            # A seek: messages handed out before are void, the backlog begins at the floor.
            self._forget_soft_state()
        if self.awaited.offsets:
            self._let_waiters_go()

    def create(self) -> Decision:
        """Decide the records of a new share."""
        return Decision(self.state.creation_records())

    def remove(self) -> list[ShareRecord]:
        """Give all credit back; return the records that remove everything of this share."""
        records = self.state.removal_records()
        self._soft.leases.clear()
        self._soft.depending.forget_all()
        self.waited |= dict.fromkeys(self.awaited.let_go(self.awaited.offsets.copy()))
        return records

    # Settings.

    @property
    def settings(self) -> Subscription:
        return self.state.settings

    @settings.setter
    def settings(self, settings: Subscription) -> None:
        self.state.settings = settings

    def configure(self, settings: Subscription) -> Decision:
        """Take other settings; leases become hard, or stop being hard, with exactly-once."""
        before = self.settings
        decision = Decision(self.state.configure(settings))
        if settings.enable_exactly_once and not before.enable_exactly_once:
            self._soft.leases.mark_all_changed()
        self._soft.backlog.configure(settings.ordering)
        if settings.is_filtered and not before.is_filtered:
            # Messages met until now were met without a filter, and those before them are as old.
            self._open.restart(judge_from=self._soft.backlog.reached)
        elif before.is_filtered and not settings.is_filtered:
            decision.records += self.settle_passed().records
            self._open.restart()
            # Beginning anew finds messages for others again; they are on their way to the cursor.
            self._open.take_passed_over()
        return self._soft.finish(decision)

    # Filters and addresses.

    @property
    def routed_to(self) -> Offset:
        """First offset that the filter has not judged; beyond all of them without a filter."""
        return self._open.routed_to

    @property
    def first_open(self) -> Offset:
        """Lowest offset that is neither acknowledged nor passed over."""
        return self._open.first_open

    def route(self, end: Offset, matching: BitMap64) -> None:
        """Pass over everything before `end`, which the filter has judged, but for `matching`.

        It counts as acknowledged, though nothing is written about it before the next
        acknowledgement, or `settle_passed`.
        """
        self._open.route(end, matching)
        self._let_waiters_go()

    @property
    def has_passed(self) -> bool:
        """Whether there is something for `settle_passed` to take."""
        return bool(self._open.passed_over)

    def settle_passed(self) -> Decision:
        """Take the messages that are passed over into the cursor."""
        if not self._open.passed_over:
            return Decision()
        return Decision(self.state.cursor_records(self._acknowledge(BitMap64())))

    def address(self, addressed: Addressed) -> None:
        """Some messages are for one subscription alone: this one gets its own, and no others."""
        self._open.address(addressed)
        self._let_waiters_go()

    def pass_over(self, offsets: BitMap64) -> None:
        """Pass over messages that were read and found to be for another subscription.

        Their batch says so; the hard state that should is lost.
        """
        self._open.pass_over(offsets)
        self._let_waiters_go()

    # What messages ask for.

    def attend(self, agenda: Agenda | None) -> None:
        """Take what messages of the partition ask for; None when none does."""
        self._soft.agenda = agenda

    def come_due(self, offsets: BitMap64, keyed: BitMap64) -> bool:
        """Messages of the partition are pending no longer; whether some are for this share.

        `keyed` are those of them with an ordering key.
        """
        open_ = offsets - self.cursor.acknowledged(offsets) - self._open.passed_over
        # After a restart, messages that were due before it may be held by leases of then.
        busy, delayed = self._soft.taken, self._soft.delayed.offsets
        open_ = open_ - busy - delayed
        if open_:
            busy = busy | self._soft.depending.loose
            self._soft.backlog.come_due(open_, keyed, busy, delayed)
        return bool(open_)

    def take_places(self, anchor: Offset, offsets: Sequence[Offset]) -> None:
        """Messages that were held back behind a gap stand behind `anchor` now, in this order."""
        busy, delayed = self._soft.taken | self._soft.depending.loose, self._soft.delayed.offsets
        open_ = [o for o in offsets if self.is_open(o) and o not in busy and o not in delayed]
        if open_:
            self._soft.backlog.take_places(anchor, open_, busy, delayed)

    # Messages that depend on others.

    def let_go(self, offsets: BitMap64) -> None:
        """Messages of this share wait no longer for one that is acknowledged now."""
        self._soft.let_go(offsets)

    def take_let_go(self) -> Sequence[Share]:
        """The shares that may have messages to hand out since something of this one was settled."""
        if not self.waited:
            return ()
        found = [share for share in self.siblings.values() if share in self.waited]
        self.waited.clear()
        return found

    # Delivery.

    @property
    def follows_commits(self) -> bool:
        """Whether the next answer may rest on records that are not committed yet."""
        return self.state.follows_commits

    @property
    def slots(self) -> SlotHolds | None:
        """The key slots of messages that are out; None where no consumer has key slots."""
        return self._soft.slots

    def count_in(self, window: SubscriptionWindow | None) -> None:
        """Count what is leased in the window of the subscription; with None no more."""
        self._soft.leases.count_in(window)

    @property
    def unplaced(self) -> BitMap64:
        """Leases of before a restart: until `scan` has met them their acknowledgements are early.

        Without order there are none.
        """
        return self._soft.backlog.unplaced

    @property
    def unplaced_end(self) -> Offset:
        """How far a scan has to go to meet all leases that are unplaced; there are some."""
        unplaced, agenda = self.unplaced, self._soft.backlog.agenda
        last = unplaced.max()
        if agenda is not None and agenda.places:
            moved = agenda.places.moved
            last = max(last, *(moved.get(offset, offset) for offset in unplaced))
        return last + 1

    def to_scan(self, end: Offset) -> list[Range]:
        """What is to be read for a scan up to an offset."""
        backlog = self._soft.backlog
        ranges = [(offset, offset + 1) for offset in backlog.next_up]
        return [*ranges, (backlog.next_offset, end)] if backlog.next_offset < end else ranges

    @property
    def next_offset(self) -> Offset:
        """First offset not yet met."""
        return self._soft.backlog.next_offset

    def has_some(self, end: Offset) -> bool:
        """Whether there may be something to lease below `end`."""
        if self.routed_to < end:
            return True
        return self._soft.backlog.has_some(*self._open.until(end))

    def plan(self, consumer: Credit, end: Offset, limit: int) -> list[Range]:
        """Offsets to read for the next `lease`, ascending."""
        backlog = self._soft.backlog
        self._progress = backlog.progress
        view, end = self._open.until(end)
        return backlog.plan(view, end, limit, consumer)

    def lease(
        self,
        consumer: Credit,
        end: Offset,
        views: Sequence[Slots],
        budget: LeaseBudget,
        *,
        generation: int,
        deadline_s: float,
        now: float = math.nan,
        published_s: float = math.nan,
        lapsed: BitMap64 | None = None,
        causes: Causes | None = None,
    ) -> Decision:
        """Hand out messages of `views` that are free and fit `budget`.

        `published_s`, a time in the middle of those of the views, comes back when the lease ends.
        Those with open `causes` are put aside when their turn comes.

        Those that are `lapsed` are acknowledged instead when their turn comes, or dead-lettered, as
        the settings say; reopened ones are delivered once more.

        Everything handed out is one lease of `generation`, which is new. Under exactly-once its
        record must be committed before the messages are delivered.
        """
        decision, soft, packer = Decision(), self._soft, Packer(budget, consumer)
        view, end = self._open.until(end)
        if lapsed is not None:
            if reopened := self.cursor.reopened:
                lapsed = lapsed - reopened.within(lapsed.min(), lapsed.max() + 1)
            soft.note_lapsed(lapsed)
        if causes is not None:
            soft.depending.begin(causes, self.siblings, now, self.settings.dependency_timeout_s)
        soft.backlog.take(view, end, views, packer)
        if lapsed is not None:
            self._let_lapse(decision)
        runs = packer.runs
        offsets = LeaseTable.offsets_of(runs) if runs else _NONE
        if causes is not None:
            decision.follows_commits = soft.depending.end(offsets)
        agenda = soft.backlog.agenda
        if agenda is not None and agenda.places.absent & offsets:
            # Its gap is over for good when that is durable.
            decision.follows_commits = True
        if runs:
            times = now, published_s
            soft.leases.grant(Lease(generation, 0, deadline_s, offsets, runs, consumer, *times))
            redelivered = soft.failures.returned.intersection_cardinality(offsets)
            decision.grant = Grant(generation, runs, len(offsets), redelivered)
            self.last_leased = generation
        soft.finish(decision)
        has_moved = soft.backlog.progress != self._progress or bool(decision.dead_letters)
        has_moved = has_moved or bool(decision.lapsed)
        has_moved = has_moved or (causes is not None and soft.depending.has_held)
        decision.has_progressed = not runs and has_moved
        return decision

    def scan(self, end: Offset, views: Sequence[Slots]) -> None:
        """Meet messages without delivering them, so that leases of before a restart find keys."""
        self._soft.backlog.scan(*self._open.until(end), views)
        self._soft.end_recalled()

    def skip(self, start: Offset, end: Offset) -> None:
        """Serve the messages around offsets that cannot be read."""
        self._soft.backlog.skip(start, end)
        self._soft.delayed.discard(BitMap64(range(start, end)))
        self._soft.depending.forget(BitMap64(range(start, end)))

    # Settling.

    def acknowledge(
        self,
        now: float,
        by_generation: ByGeneration,
        *,
        partial: bool = False,
        end: Offset = 0,
    ) -> Decision:
        """Acknowledge messages by the leases their ack ids name.

        At least once, stale ids still count while their message is not acknowledged, unless a
        seek came between; with `end`, the end of the log, also those of messages not met again
        since a restart. Exactly once, only live leases count; if any id is refused nothing of
        the request is done, or, with `partial`, the rest is.
        """
        soft = self._soft
        if self.settings.enable_exactly_once:
            decision, live = soft.find_live(now, by_generation, is_ack=True)
            if decision.is_refused and not partial:
                return decision
            late = BitMap64()
        else:
            decision = Decision()
            live, late = soft.find_live_or_late(by_generation, end)
            if late:
                soft.backlog.discard(late)
                soft.delayed.discard(late)
        acked = BitMap64()
        for lease, offsets in live:
            soft.leases.settle(lease, offsets)
            decision.ended.append((lease.granted_s, len(offsets), lease.published_s))
            acked |= offsets
        decision.count = len(acked) + len(late)
        decision.acked = acked | late if late else acked
        decision.records += self._acked_records(soft.backlog.acknowledge(acked) | late)
        return soft.finish(decision)

    def claim(self, now: float, by_generation: ByGeneration) -> Decision:
        """At most once: acknowledge leased messages that are about to be sent.

        Commit first; what is `invalid` (its lease has ended) or `early` (of its key) is not sent.
        """
        soft, claimed = self._soft, BitMap64()
        decision, live = soft.find_live(now, by_generation, is_ack=True)
        for lease, offsets in live:
            soft.leases.settle(lease, offsets)
            decision.ended.append((lease.granted_s, len(offsets), lease.published_s))
            claimed |= offsets
        hard = soft.backlog.acknowledge(claimed)
        assert claimed <= hard
        decision.count = len(claimed)
        decision.records += self._acked_records(hard)
        return soft.finish(decision)

    def acknowledge_exported(self, offsets: BitMap64) -> Decision:
        """Acknowledge messages that were never leased: an export has them in its table."""
        return Decision(self._acked_records(offsets), count=len(offsets))

    def find_refusals(self, now: float, by_generation: ByGeneration, *, is_ack: bool) -> Decision:
        """The ack ids that a request would be refused for under exactly-once; nothing is done."""
        return self._soft.find_live(now, by_generation, is_ack=is_ack)[0]

    def modify_ack_deadline(
        self,
        now: float,
        by_generation: ByGeneration,
        seconds: float,
        *,
        jitter: float,
        partial: bool = False,
        nack: Nack = NACKED,
    ) -> Decision:
        """Give leases `seconds` from now; zero is a nack. Stale ids change nothing."""
        soft = self._soft
        decision, live = soft.find_live(now, by_generation)
        if not self.settings.enable_exactly_once:
            decision.invalid.clear()
        elif decision.is_refused and not partial:
            return decision
        decision.count = sum(len(offsets) for _, offsets in live)
        if seconds > 0:
            for lease, offsets in live:
                soft.leases.extend(lease, offsets, now + seconds)
        else:
            decision.records += soft.fail(now, live, nack, jitter)
        return soft.finish(decision)

    def expire(self, now: float, *, jitter: float) -> Decision:
        """Release leases, aversions and back-offs that are over."""
        soft = self._soft
        due: list[Matched] = [(lease, lease.open) for lease in soft.leases.due(now)]
        decision = Decision(count=sum(len(offsets) for _, offsets in due))
        decision.records += soft.fail(now, due, EXPIRED, jitter)
        soft.aversions.expire(now)
        if waited := soft.delayed.due(now):
            soft.backlog.release(waited)
        decision.overdue = soft.end_waits(now)
        return soft.finish(decision)

    def abandon(self, consumer: Credit) -> None:
        """Let the leases of a consumer that is gone run on to their deadlines.

        Clients acknowledge with unary calls after they have closed their streams.
        """
        self._soft.leases.abandon(consumer)
        self._soft.backlog.abandon(consumer)

    def give_back(self, now: float, consumer: Credit, written: int) -> Decision:
        """Release the leases of a consumer after the generation that was written to it last.

        Their messages never left the broker, so no attempt is counted and they do not wait.
        """
        unsent = [(one, one.open) for one in self._soft.leases.of(consumer, after=written)]
        decision = Decision(count=sum(len(offsets) for _, offsets in unsent))
        decision.records += self._soft.fail(now, unsent, UNSENT, jitter=0.0)
        return self._soft.finish(decision)

    # Dead letters.

    def is_forwarding(self, offset: Offset) -> bool:
        """Whether a dead letter is still to be made of a message."""
        return offset in self._soft.forwarding

    def acknowledge_forwarded(self, offsets: BitMap64) -> Decision:
        """Acknowledge messages whose dead letters are appended; commit both together.

        Otherwise a crash between two commits would lose the message, or forward it twice.
        """
        soft = self._soft
        offsets = offsets & soft.forwarding
        soft.forwarding -= offsets
        decision = Decision(count=len(offsets))
        decision.records += self._acked_records(soft.backlog.acknowledge(offsets))
        return soft.finish(decision)

    def return_unforwarded(self, now: float, offsets: BitMap64) -> Decision:
        """Keep messages that have no topic to be forwarded to, and deliver them again, later."""
        soft = self._soft
        offsets = offsets & soft.forwarding
        soft.forwarding -= offsets
        soft.failures.spare(offsets)
        soft.depending.spare(offsets)
        soft.put_back(now, offsets, lambda _: limits.DEAD_LETTER_RETRY_S)
        return soft.finish(Decision())

    # Seek, snapshots, retention.

    def seek(self, target: Offset, retained_from: Offset, *, generation: int) -> Decision:
        """Acknowledge all below `target`, reopen messages that are retained from there on."""
        return self._move(self.cursor.seek(target, retained_from), generation)

    def restore(self, other: Cursor, at_least: Offset, *, generation: int) -> Decision:
        """Take over a snapshot's cursor; messages that left the log stay closed."""
        return self._move(self.cursor.copy_from(other, at_least=at_least), generation)

    def advance(
        self, floor: Offset, *, reopened_since_s: float = math.inf, start: Offset = 0
    ) -> Decision:
        """Close everything below `floor`: its retention has ended, or it was trimmed.

        Messages reopened at `reopened_since_s` or later stay, unless they are below `start`.
        """
        below = self.cursor.reopened.within(0, floor)
        kept = self.cursor.reopened.within(start, floor, since_s=reopened_since_s)
        if floor <= self.cursor.mark and len(below) == len(kept):
            return Decision()
        gone = BitMap64(range(self.cursor.floor, floor)) - kept
        lowest = kept.min() if kept else floor
        acked = self._soft.drop(gone) | self._soft.backlog.close(lowest)
        self._open.close(lowest)
        change = self._acknowledge(acked, below=floor, keeping=kept)
        return self._soft.finish(Decision(self.state.cursor_records(change)))

    def purge(self, end: Offset) -> Decision:
        """Acknowledge everything below `end`, outstanding messages included: their leases are over.

        `count` is the number of messages that were open. Messages from `end` on, their leases and
        their attempts stay as they are: that is the difference to a seek.
        """
        count = self.open_count(end)
        decision = self.advance(end)
        decision.count = count
        return decision

    def reopen(
        self, now: float, offsets: BitMap64, *, generation: int, is_wanted: bool = False
    ) -> Decision:
        """Make acknowledged messages unacknowledged again, with no failure counted.

        Offsets that are not acknowledged change nothing; the log must have all of them.
        A leased message stays leased and can be acknowledged. The filter judges again, unless the
        messages are known to be wanted. Ack ids from before `generation`, which is new, say nothing
        about reopened messages. `count` is the number of messages reopened.
        """
        # Copies for others were never this subscription's.
        opened = self.cursor.acknowledged(offsets - self._open.addressed.others)
        if not opened:
            return Decision()
        chunks = self.cursor.reopened.add(
            opened, fence=generation, since_s=now, is_wanted=is_wanted
        )
        soft, is_filtered = self._soft, self.settings.is_filtered
        decision = Decision(self.state.reopening_records(opened, chunks), count=len(opened))
        busy = soft.taken | soft.depending.loose
        soft.backlog.reopen(opened, busy, soft.delayed.offsets, is_filtered=is_filtered)
        self._open.reopen(opened)
        return soft.finish(decision)

    def discard(self, offsets: BitMap64) -> Decision:
        """Acknowledge messages that are `free`, even before earlier ones of their keys."""
        return self.relieve(self.free(offsets))

    def relieve(self, offsets: BitMap64) -> Decision:
        """As `discard`, for some of `free_offsets`: it leaves gaps, and changes no order."""
        decision = Decision(count=len(offsets))
        if offsets:
            decision.records += self._acked_records(offsets | self._soft.leave(offsets))
        return self._soft.finish(decision)

    # Private: messages that lapsed.

    def _let_lapse(self, decision: Decision) -> None:
        """Acknowledge messages that lapsed; behind one of a key there may be another one."""
        soft, gone = self._soft, BitMap64()
        while lapsed := soft.take_lapsed():
            gone |= soft.backlog.acknowledge(lapsed)
            decision.lapsed += len(lapsed)
        decision.records += self._acked_records(gone)

    # Private: messages that depend on others.

    def _let_waiters_go(self) -> None:
        awaited = self.awaited.offsets
        if awaited:
            closed = self._open.view.acknowledged(awaited)
            if closed:
                self.waited |= dict.fromkeys(self.awaited.let_go(closed))

    # Private: the cursor.

    def _acked_records(self, offsets: BitMap64) -> list[ShareRecord]:
        if not offsets:
            return []
        self._soft.failures.forget(offsets)
        self._soft.depending.forget(offsets)
        return self.state.cursor_records(self._acknowledge(offsets))

    def _acknowledge(
        self, offsets: BitMap64, *, below: Offset = 0, keeping: BitMap64 | None = None
    ) -> CursorChange:
        """The change of the cursor; messages that are passed over are acknowledged with it."""
        if self._open.passed_over:
            offsets = offsets | self._open.take_passed_over()
        return self.cursor.acknowledge(offsets, below=below, keeping=keeping)

    def _move(self, change: CursorChange, generation: int) -> Decision:
        """The cursor jumps: every lease of before is void, every count starts anew."""
        decision = Decision(self.state.cursor_records(change, fence=generation))
        decision.records += self.state.attempt_resets()
        self._soft.leases.clear()
        # Dead letters that a scan found go, too: they would be made of messages still there.
        self._forget_soft_state()
        return self._soft.finish(decision)

    def _forget_soft_state(self) -> None:
        self._soft.forget()
        self._open.restart()
