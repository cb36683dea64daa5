"""The delivery machine: one subscription's share in one partition.

States of a message on a share, and what moves it:

| From                        | Event                                      | To            |
|-----------------------------|--------------------------------------------|---------------|
| BACKLOG                     | leased                                     | OUTSTANDING   |
| OUTSTANDING                 | acknowledged                               | ACKED         |
| OUTSTANDING                 | nacked or expired, attempts left, back-off | DELAYED       |
| OUTSTANDING                 | nacked or expired, attempts left, none     | BACKLOG       |
| OUTSTANDING                 | nacked or expired, no attempts left        | FORWARDING    |
| OUTSTANDING                 | given back: never written to its stream    | BACKLOG       |
| DELAYED                     | back-off over                              | BACKLOG       |
| FORWARDING                  | forward committed                          | ACKED         |
| FORWARDING                  | no dead letter topic                       | DELAYED       |
| BACKLOG, DELAYED            | acknowledged late (at-least-once)          | ACKED         |
| any but ACKED               | seek past it, or its retention ends        | ACKED         |
| BACKLOG                     | the filter leaves it out, or it is for     | ACKED         |
|                             | another subscription alone                 |               |
| BACKLOG, DELAYED            | closed by an administrator                 | ACKED         |
| ACKED                       | seek before it, still retained             | BACKLOG       |
| ACKED                       | reopened                                   | BACKLOG       |

A message that a stream nacked is not for that stream's client, in whichever state, until its
aversion is over (`fanlog.core.aversion`); with ordering, nor are those after it of its key.

With ordering, a message that leaves OUTSTANDING other than by an ack takes those after it of its
key along, and ACKED is reached only when all earlier ones of the key have. What is outstanding
when an earlier one of its key is reopened is neither taken away nor held up: it is acknowledged as
it would have been, and of the rest of the key the reopened one is the next; should it fail, it
comes back behind the reopened one.

Hard state is in `fanlog.core.share_state`. Soft state: leases, back-offs, aversions, the backlog's
position, and what is passed over (`fanlog.core.share_passing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.aversion import Aversions
from fanlog.core.backlog import Backlog, Packer, Slots
from fanlog.core.cursor import Cursor, CursorChange, Range
from fanlog.core.decision import Decision, Grant, ShareStats
from fanlog.core.flow import Budget, Credit
from fanlog.core.lease import ByGeneration, Lease, LeaseTable, Matched, Run, split, take_out
from fanlog.core.ordering import OrderedBacklog
from fanlog.core.records import ShareRecord
from fanlog.core.redelivery import EXPIRED, NACKED, UNSENT, DeadLetter, Delayed, Failures, Nack
from fanlog.core.share_passing import PassingShare
from fanlog.model.resources import Offset, PartitionId, Subscription

__all__ = ["ByGeneration", "DeadLetter", "Decision", "Grant", "Share", "ShareStats"]


class Share(PassingShare):
    """One subscription's share in one partition. Not safe to share between threads."""

    def __init__(self, settings: Subscription, partition: PartitionId, floor: Offset = 0) -> None:
        super().__init__(settings, partition, floor)
        self._leases = LeaseTable()
        self._progress = 0  # Of the backlog, at the last plan: what is skipped since then counts.
        self._backlog: Backlog | OrderedBacklog
        #: Generation of the last lease: who has many shares serves the one longest not served.
        self.last_leased = 0
        self._forget_soft_state()

    def start(self, latest_s: float = math.inf) -> None:
        """Make the soft state anew from the hard state: after recovery, before the first verb.

        No lease ends after `latest_s`: one that would was given before the clock was set back.
        """
        self._leases = LeaseTable.restored(self._held.values(), self.cursor, latest_s)
        self._forget_soft_state()

    def apply(self, record: ShareRecord) -> None:
        fence = self._fence
        super().apply(record)
        if self._fence != fence:
            # A seek: what was handed out is void, the backlog begins at the floor.
            self._forget_soft_state()

    # Settings.

    def configure(self, settings: Subscription) -> Decision:
        """Take other settings; leases become hard, or stop being hard, with exactly-once."""
        before, self.settings = self.settings, settings
        decision = Decision()
        if settings.enable_exactly_once and not before.enable_exactly_once:
            self._leases.changed.update((lease.generation, lease.part) for lease in self._leases)
        elif before.enable_exactly_once and not settings.enable_exactly_once:
            decision.records += [self._lease_over(*key) for key in self._held]
        decision.records += self._recounted(before)
        assert settings.enable_message_ordering == before.enable_message_ordering
        if isinstance(self._backlog, OrderedBacklog):
            self._backlog.strict = settings.ordering == "strict"
        decision.records += self._configure_passing(before, self._backlog.next_offset)
        return self._finish(decision)

    def removed(self) -> list[ShareRecord]:
        """The records that remove everything of this share."""
        records = self._removed_records()
        self._leases.clear()
        return records

    # Delivery.

    def has_some(self, end: Offset) -> bool:
        """Whether there may be something to lease below `end`."""
        return self.routed_to < end or self._backlog.has_some(self._open, self._reach(end))

    def plan(self, consumer: Credit, end: Offset, limit: int) -> list[Range]:
        """Offsets to read for the next `lease`, ascending."""
        self._progress = self._backlog.progress
        return self._backlog.plan(self._open, self._reach(end), limit, consumer)

    def lease(
        self,
        consumer: Credit,
        end: Offset,
        views: Sequence[Slots],
        budget: Budget,
        *,
        generation: int,
        deadline_s: float,
        now: float = math.nan,
    ) -> Decision:
        """Hand out what is free and fits `budget`, of what `views` show.

        Everything handed out is one lease of `generation`, which is new. Under exactly-once its
        record must be committed before the messages are delivered.
        """
        decision = Decision()
        packer = Packer(budget)
        self._backlog.take(self._open, self._reach(end), views, packer, budget.messages, consumer)
        runs = self._without_exhausted(packer.runs)
        if runs:
            offsets = LeaseTable.offsets_of(runs)
            self._leases.add(Lease(generation, 0, deadline_s, offsets, runs, consumer, now))
            consumer.take(len(offsets), sum(run.size_bytes for run in runs))
            redelivered = self._failures.returned.intersection_cardinality(offsets)
            decision.grant = Grant(generation, runs, len(offsets), redelivered)
            self.last_leased = generation
        self._finish(decision)
        has_moved = self._backlog.progress != self._progress or bool(decision.dead_letters)
        decision.has_progressed = not runs and has_moved
        return decision

    @property
    def unplaced(self) -> BitMap64:
        """Leases restored after a restart: until `scan` has met them their acks are early."""
        return self._backlog.unplaced if isinstance(self._backlog, OrderedBacklog) else BitMap64()

    @property
    def next_offset(self) -> Offset:
        """First offset not yet met."""
        return self._backlog.next_offset

    def scan(self, end: Offset, views: Sequence[Slots]) -> None:
        """Meet messages without delivering them, so that restored leases find their keys."""
        assert isinstance(self._backlog, OrderedBacklog)
        self._backlog.scan(self._open, self._reach(end), views)
        self._leases.release(self._backlog.recalled)
        self._backlog.recalled.clear()

    def skip(self, start: Offset, end: Offset) -> None:
        """These offsets cannot be read: serve what is around them."""
        self._backlog.skip(start, end)
        self._delayed.discard(BitMap64(range(start, end)))

    # Settling.

    def exported(self, offsets: BitMap64) -> Decision:
        """Acknowledge messages that nobody was handed: they were taken elsewhere."""
        return Decision(self._acked_records(offsets), count=len(offsets))

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
        if self.settings.enable_exactly_once:
            decision, live = self._live(now, by_generation, is_ack=True)
            if decision.is_refused and not partial:
                return decision
            late = BitMap64()
        else:
            decision = Decision()
            live, late = self._live_or_late(by_generation, end)
            self._backlog.discard(late)
            self._delayed.discard(late)
        acked = BitMap64()
        for lease, offsets in live:
            self._leases.settle(lease, offsets)
            decision.ended.append((lease.granted_s, len(offsets)))
            acked |= offsets
        decision.count = len(acked) + len(late)
        if isinstance(self._backlog, OrderedBacklog):
            acked = self._backlog.acknowledge(acked)
        decision.records += self._acked_records(acked | late)
        return self._finish(decision)

    def refused(self, now: float, by_generation: ByGeneration, *, is_ack: bool) -> Decision:
        """What a request would be refused for under exactly-once; nothing is done."""
        return self._live(now, by_generation, is_ack=is_ack)[0]

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
        decision, live = self._live(now, by_generation)
        if not self.settings.enable_exactly_once:
            decision.invalid.clear()
        elif decision.is_refused and not partial:
            return decision
        decision.count = sum(len(offsets) for _, offsets in live)
        if seconds > 0:
            for lease, offsets in live:
                self._leases.extend(lease, offsets, now + seconds)
        else:
            self._fail(decision, now, live, nack, jitter)
        return self._finish(decision)

    def expire(self, now: float, *, jitter: float) -> Decision:
        """Release leases and aversions that are over, and messages whose back-off is."""
        decision = Decision()
        due: list[Matched] = [(lease, lease.open) for lease in self._leases.due(now)]
        decision.count = sum(len(offsets) for _, offsets in due)
        self._fail(decision, now, due, EXPIRED, jitter)
        self._aversions.expire(now)
        waited = self._delayed.due(now)
        if waited:
            self._backlog.release(waited)
        return self._finish(decision)

    def abandon(self, consumer: Credit) -> None:
        """A consumer is gone: its leases run on to their deadlines, its window is nobody's.

        Clients acknowledge with unary calls after they have closed their streams.
        """
        for lease in self._leases.of(consumer):
            lease.credit = None
        self._backlog.abandon(consumer)

    def give_back(self, now: float, consumer: Credit, written: int) -> Decision:
        """Release what a consumer leased after the generation that was written to it last.

        It never left, so that no attempt is counted and nobody has to wait for it.
        """
        unsent = [(lease, lease.open) for lease in self._leases.of(consumer, after=written)]
        decision = Decision(count=sum(len(offsets) for _, offsets in unsent))
        self._fail(decision, now, unsent, UNSENT, jitter=0.0)
        return self._finish(decision)

    # Dead letters.

    def is_forwarding(self, offset: Offset) -> bool:
        """Whether a dead letter is still to be made of a message."""
        return offset in self._forwarding

    def forwarded(self, offsets: BitMap64) -> Decision:
        """Dead letters were appended to their topic; commit the records with that append."""
        offsets = offsets & self._forwarding
        self._forwarding -= offsets
        decision = Decision(count=len(offsets))
        acked = offsets
        if isinstance(self._backlog, OrderedBacklog):
            acked = self._backlog.acknowledge(offsets)
        decision.records += self._acked_records(acked)
        return self._finish(decision)

    def forward_failed(self, now: float, offsets: BitMap64) -> Decision:
        """There is nowhere to forward to: keep the messages and deliver them again, later."""
        offsets = offsets & self._forwarding
        self._forwarding -= offsets
        self._failures.spare(offsets)
        self._put_back(now, offsets, lambda _: limits.DEAD_LETTER_RETRY_S)
        return self._finish(Decision())

    # Seek, snapshots, retention.

    def seek(self, target: Offset, retained_from: Offset, *, generation: int) -> Decision:
        """Acknowledge all below `target`, reopen what is retained from there on."""
        return self._moved(self.cursor.seek(target, retained_from), generation)

    def restore(self, other: Cursor, at_least: Offset, *, generation: int) -> Decision:
        """Take over a snapshot's cursor; what is no longer in the log stays closed."""
        return self._moved(self.cursor.copied_from(other, at_least=at_least), generation)

    def advance(
        self, floor: Offset, *, reopened_since_s: float = math.inf, start: Offset = 0
    ) -> Decision:
        """Close everything below `floor`: its retention has ended, or it was trimmed.

        What was reopened at `reopened_since_s` or later stays, unless it is below `start`.
        """
        below = self.cursor.reopened.within(0, floor)
        kept = self.cursor.reopened.within(start, floor, since_s=reopened_since_s)
        if floor <= self.cursor.mark and len(below) == len(kept):
            return Decision()
        gone = BitMap64(range(self.cursor.floor, floor)) - kept
        lowest = kept.min() if kept else floor
        acked = self._let_go(gone) | self._backlog.close(lowest)
        if self._passing is not None:
            self._passing.close(lowest)
        change = self._acknowledged(acked, below=floor, keeping=kept)
        return self._finish(Decision(self._cursor_records(change)))

    # Administration.

    def reopen(
        self, now: float, offsets: BitMap64, *, generation: int, is_wanted: bool = False
    ) -> Decision:
        """Make acknowledged messages unacknowledged again, with no failure counted.

        Those of `offsets` that are not acknowledged change nothing; the log must have all of them.
        What is leased stays leased and can be acknowledged. The filter judges again, unless the
        messages are known to be wanted. Ack ids from before `generation`, which is new, say nothing
        about what is reopened. `count` is how many there are.
        """
        # Copies for others were never this subscription's.
        opened = self.cursor.acknowledged(offsets - self._addressed.others)
        if not opened:
            return Decision()
        chunks = self.cursor.reopened.add(
            opened, fence=generation, since_s=now, is_wanted=is_wanted
        )
        decision = Decision(self._reopened_records(opened, chunks), count=len(opened))
        if not self.settings.is_filtered and isinstance(self._backlog, Backlog):
            self._backlog.release(opened)
        else:
            self._backlog.go_back(opened, self._taken_offsets(), self._delayed.offsets)
        if self._passing is not None:
            self._passing.reopen(opened)
        return self._finish(decision)

    def open_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        """Runs of offsets that are neither acknowledged nor left out by the filter, in order."""
        return self._open.unacked_ranges(start, self._reach(end))

    def is_open(self, offset: Offset) -> bool:
        """Whether it is neither acknowledged nor left out by the filter."""
        return offset not in self._open

    def free(self, offsets: BitMap64) -> BitMap64:
        """Those of `offsets` that are unacknowledged, and that nobody has."""
        unacked = BitMap64(o for o in offsets if o not in self._open)
        if isinstance(self._backlog, OrderedBacklog):
            unacked -= self._backlog.outstanding
        return unacked - self._taken_offsets()

    def discard(self, offsets: BitMap64) -> Decision:
        """Acknowledge messages that are `free`, whatever came before them of their key."""
        offsets = self.free(offsets)
        decision = Decision(count=len(offsets))
        decision.records += self._acked_records(offsets | self._let_go(offsets))
        return self._finish(decision)

    def next_deadline(self) -> float | None:
        """When `expire` has something to do next."""
        parts = (self._leases, self._delayed, self._aversions)
        deadlines = [part.next_deadline() for part in parts]
        return min((d for d in deadlines if d is not None), default=None)

    def stats(self, end: Offset) -> ShareStats:
        passed = 0 if self._passing is None else len(self._passing.offsets)
        return ShareStats(
            floor=self.cursor.floor,
            backlog=max(0, self.cursor.open_before(end) - passed),
            outstanding=self._leases.outstanding,
            delayed=len(self._delayed.offsets),
            forwarding=len(self._forwarding),
        )

    # Private: leases.

    def _live(
        self, now: float, by_generation: ByGeneration, *, is_ack: bool = False
    ) -> tuple[Decision, list[Matched]]:
        """What the ids name of live leases, by lease; the rest is `invalid`, or an `early` ack."""
        after_s = now if self.settings.enable_exactly_once else -math.inf
        live, invalid = self._leases.named(by_generation, after_s=after_s)
        decision = Decision(invalid=invalid)
        if is_ack and isinstance(self._backlog, OrderedBacklog):
            early = self._backlog.would_be_early(BitMap64().union(*(some for _, some in live)))
            decision.early += take_out(live, early)
        return decision, live

    def _live_or_late(
        self, by_generation: ByGeneration, end: Offset
    ) -> tuple[list[Matched], BitMap64]:
        """At least once: what is leased under any generation, and what was and came back."""
        if self.cursor.reopened:
            by_generation = self._leases.without_void(by_generation, self.cursor.reopened.void)
        live, stale = self._leases.named_at_all(by_generation, self._fence, self.unplaced)
        if stale:
            end = max(end, self._backlog.next_offset)
            late = BitMap64(o for o in stale if o < end and o not in self.cursor)
            return live, self._backlog.late(late - self._forwarding, self._delayed.offsets)
        return live, stale

    def _without_exhausted(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Leave out messages that used up their attempts before a restart or a new policy.

        In order, the backlog does that: only the first of a key may be forwarded.
        """
        is_ordered = isinstance(self._backlog, OrderedBacklog)
        if is_ordered or self.settings.dead_letter is None or not self._attempts:
            return runs
        kept, exhausted = split(runs, self._is_exhausted)
        self._to_forward += exhausted
        return kept

    # Private: failures.

    def _fail(
        self, decision: Decision, now: float, failed: Sequence[Matched], nack: Nack, jitter: float
    ) -> None:
        """Leased messages came back: count, then wait, deliver again or forward."""
        offsets = self._leases.settle_all(failed)
        if not offsets:
            return
        if nack.is_told:
            self._aversions.nacked(now, failed)
        schedule = self.settings.retry_schedule
        self._failures.came_back(offsets, nack)
        if nack.is_counted and (self.settings.dead_letter is not None or schedule is not None):
            chunks = self._failures.count(offsets, nack)
            decision.records += self._attempt_records(chunks.items())
        self._put_back(now, offsets, self._failures.waits(nack, schedule, jitter))

    def _put_back(
        self, now: float, offsets: BitMap64, wait_of: Callable[[Offset], float] | None
    ) -> None:
        """Nobody holds `offsets` any more: wait, deliver again or forward."""
        if isinstance(self._backlog, OrderedBacklog):
            recall = self._backlog.recall(offsets)
            self._failures.returned |= self._leases.release(recall.offsets)
            heads = [(0, offset) for offset in recall.unplaced]
            for number, offset in [*recall.heads.items(), *heads]:
                head = BitMap64() if self._is_exhausted(offset) else BitMap64([offset])
                if head and not self._delayed.put(now, head, wait_of):
                    self._backlog.block(number, offset)
                if number:
                    self._backlog.settle(number)
            offsets = recall.keyless
        if self.settings.dead_letter is not None:
            exhausted = BitMap64(filter(self._is_exhausted, offsets))
            self._to_forward += exhausted
            offsets = offsets - exhausted
        self._backlog.release(self._delayed.put(now, offsets, wait_of))

    def _taken_offsets(self) -> BitMap64:
        """What is leased, or on its way to be a dead letter."""
        return self._forwarding | self._leases.offsets

    def _let_go(self, gone: BitMap64) -> BitMap64:
        """Nobody shall have these; return what becomes acknowledged because of that."""
        self._leases.release(gone)
        self._delayed.discard(gone)
        self._forwarding -= gone
        self._failures.forget(gone)
        return self._backlog.drop(gone)

    def _is_exhausted(self, offset: Offset) -> bool:
        return self._failures.is_exhausted(offset, self.settings.dead_letter)

    # Private: records.

    def _finish(self, decision: Decision) -> Decision:
        """Gather what the parts noted while the verb ran."""
        if isinstance(self._backlog, OrderedBacklog):
            self._to_forward += self._backlog.to_forward
            self._backlog.to_forward.clear()
            self._failures.returned |= self._leases.release(self._backlog.recalled)
            self._backlog.recalled.clear()
        if self._to_forward:
            policy = self.settings.dead_letter
            assert policy is not None
            letters = [self._failures.letter(offset, policy) for offset in self._to_forward]
            decision.dead_letters += letters
            self._forwarding.update(self._to_forward)
            self._to_forward.clear()
        if self.settings.enable_exactly_once:
            for key in sorted(self._leases.changed):
                lease = self._leases.part(*key)
                record = self._lease_over(*key) if lease is None else self._lease_record(lease)
                decision.records.append(record)
        self._leases.changed.clear()
        self._failures.counted()
        return decision

    def _acked_records(self, offsets: BitMap64) -> list[ShareRecord]:
        if not offsets:
            return []
        self._failures.forget(offsets)
        return self._cursor_records(self._acknowledged(offsets))

    def _moved(self, change: CursorChange, generation: int) -> Decision:
        """The cursor jumps: everything handed out before is void, every count starts anew."""
        decision = Decision(self._cursor_records(change, fence=generation))
        decision.records += self._attempt_records((n, None) for n in self._attempts.numbers())
        self._leases.clear()
        # Also what a scan found to be forwarded: it would be forwarded and still be there.
        self._forget_soft_state()
        return self._finish(decision)

    def _new_backlog(self) -> Backlog | OrderedBacklog:
        floor, held, ordering = self.cursor.floor, self._leases.offsets, self.settings.ordering
        if ordering == "none":
            return Backlog(floor, held, self._aversions)
        is_strict, exhausted = ordering == "strict", self._is_exhausted
        return OrderedBacklog(floor, held, self._aversions, strict=is_strict, exhausted=exhausted)

    def _forget_soft_state(self) -> None:
        self._delayed = Delayed()
        self._forwarding = BitMap64()
        self._to_forward: list[Offset] = []
        self._failures = Failures(self._attempts)
        self._aversions = Aversions()
        self._backlog = self._new_backlog()
        self._passing = self._new_passing()
