"""Sampling: a subscription that falls behind gets a sample of what is published.

A sample of *level* n has one message of 2 to the power of n; which ones follows from their ids, so
every sample has all messages of the smaller ones, and a message that comes again is in it again.
The level grows by one when the backlog is high, at most every few seconds, and shrinks when it is
low. A backlog that is full all the same is thinned from its oldest message on, to the next level.

The level of each stretch of the log is hard state, for deliveries say it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.pressure.bounds import Bound
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.drops import Drops
from fanlog.core.records import DropRecord
from fanlog.core.share import Share, relief

#: The level changes at most so often.
GROW_S = 2.0
SHRINK_S = 10.0
#: Messages that are looked at, for each that is to leave.
_LOOKED_AT = 4
#: As many at least: of a small sample most are of the next level, too.
_STEPS_MIN = 1_000


class Sampling:
    """Decides what samples leave out. Lives on the loop."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def begin(self, bound: Bound) -> None:
        """A bound is new: it goes on at the level it had, and samples what comes from now on."""
        if bound.policy.way != "sample":
            bound.level = 0
            return
        hard = self._ledger.hard
        for share in hard.shares_of(bound.subscription):
            drops = hard.drops.get((bound.id, share.partition))
            if drops is not None and drops.levels:
                bound.level = max(bound.level, drops.levels[-1][1])
            start = self._ledger.assigned_end(share.partition)
            bound.unsampled.setdefault(share.partition, start)

    def adapt(self, bound: Bound) -> None:
        """Take another level where the backlog is high, or low, for long enough."""
        since_s = self._clock.now() - bound.level_s
        if bound.fill > bound.policy.high and since_s >= GROW_S:
            self._set_level(bound, min(bound.level + 1, limits.SAMPLE_LEVEL_MAX))
        elif bound.fill <= bound.policy.low and bound.level and since_s >= SHRINK_S:
            self._set_level(bound, bound.level - 1)

    def left_out(self, bound: Bound, transaction: Transaction) -> Iterator[tuple[Share, BitMap64]]:
        """What is new and not in the sample, by share; levels are noted in the transaction."""
        for share in self._ledger.hard.shares_of(bound.subscription):
            partition = share.partition
            end = min(transaction.end(partition), share.routed_to)
            start = bound.unsampled.get(partition, 0)
            if start >= end:
                continue
            bound.unsampled[partition] = end
            self._note(share, self._drops_of(share).with_level(start, bound.level), transaction)
            if bound.level:
                # What is for this subscription alone, it asked for.
                some = share.free_offsets(end) - share.addressed.own
                some.remove_range(0, start)
                yield share, relief.sampled_out(some, partition, bound.level)

    def thinned(
        self, bound: Bound, count: int, transaction: Transaction
    ) -> Iterator[tuple[Share, BitMap64]]:
        """What smaller samples of the backlog have not, from the oldest on, up to `count`."""
        left = min(count, limits.RELIEF_STEPS_MAX // _LOOKED_AT)
        steps = max(_STEPS_MIN, left * _LOOKED_AT)
        while left > 0 and steps > 0 and bound.level < limits.SAMPLE_LEVEL_MAX:
            for share in self._ledger.hard.shares_of(bound.subscription):
                while left > 0 and steps > 0:
                    looked_at, gone = self._thin_some(bound, share, left, steps, transaction)
                    if not looked_at:
                        break
                    steps -= looked_at
                    left -= len(gone)
                    yield share, gone
            if left > 0 and steps > 0:
                # All of the backlog is of the next level: so is what comes.
                self._set_level(bound, bound.level + 1)

    def _thin_some(
        self, bound: Bound, share: Share, left: int, steps: int, transaction: Transaction
    ) -> tuple[int, BitMap64]:
        """Look at some messages of a share; how many, and those that the next level has not."""
        partition, level = share.partition, bound.level + 1
        # A message that was delivered once is in the sample; so is what is for this one alone.
        free = share.free_offsets(transaction.end(partition))
        free -= share.returned | share.addressed.own
        start = bound.thinned.get(partition, 0)
        some = relief.first_of(free, start, min(steps, left * _LOOKED_AT))
        if not some:
            return 0, some
        gone = relief.oldest(relief.sampled_out(some, partition, level), left)
        if len(gone) == left:
            some.remove_range(gone.max() + 1, limits.OFFSET_MAX + 1)
        stop = bound.thinned[partition] = some.max() + 1
        raised = self._drops_of(share).raised(some.min(), stop, level)
        self._note(share, raised, transaction)
        return len(some), gone

    def _set_level(self, bound: Bound, level: int) -> None:
        bound.level, bound.level_s = level, self._clock.now()
        bound.thinned.clear()

    def _drops_of(self, share: Share) -> Drops:
        return self._ledger.hard.drops.get((share.settings.id, share.partition), Drops())

    def _note(self, share: Share, after: Drops, transaction: Transaction) -> None:
        if after != self._drops_of(share):
            transaction.apply([DropRecord(share.settings.id, share.partition, after)])
