"""Planted bugs of backlog policies."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap64

from fanlog.broker.delivery import sample_rates
from fanlog.broker.pressure.bounds import BoundTable
from fanlog.broker.pressure.relief import OVERFLOWN, Relief
from fanlog.core.drops import Drops
from fanlog.core.share import Share, relief
from fanlog.core.share.looking import Looking
from fanlog.core.watermark import Watermark
from simulator.planting import mutant


@mutant("what is dropped may be leased", 20, (Looking, "free_offsets"), needs="pressers")
def _(_: Any) -> Any:
    def open_offsets(self: Looking, end: int) -> BitMap64:
        return self.cursor.open_offsets(end)

    return open_offsets


@mutant("a drop comes after its publish", 20, (Relief, "relieve"), needs="pressers")
def _(_: Any) -> Any:
    return lambda self, transaction: None


@mutant("a drop is not counted", 20, (Drops, "with_dropped"), needs="pressers")
def _(_: Any) -> Any:
    return lambda self, now, reason, offsets: self


@mutant("one more is dropped than is counted", 20, (Relief, "drop"), needs="pressers")
def _(drop: Any) -> Any:
    def greedy(self: Relief, share: Share, offsets: BitMap64, reason: str, *rest: Any) -> None:
        drop(self, share, offsets, reason, *rest)
        more = share.free_offsets(self._ledger.end(share.partition))
        if offsets and more:
            decision = share.relieve(BitMap64([more.min()]))
            rest[0].apply(decision.records)

    return greedy


@mutant("the oldest are the newest", 20, (relief, "oldest"), needs="pressers")
def _(_: Any) -> Any:
    return relief.newest


@mutant("the newest are the oldest", 20, (relief, "newest"), needs="pressers")
def _(_: Any) -> Any:
    return relief.oldest


@mutant("a high backlog is low at once", 40, (Watermark, "observe"), needs="pressers", first=300)
def _(_: Any) -> Any:
    def observe(self: Watermark, fill: float, *, high: float, low: float) -> Any:
        was, self.is_high = self.is_high, fill > high
        return None if was == self.is_high else ("high" if self.is_high else "low")

    return observe


@mutant("one more is drawn", 20, (relief, "drawn"), needs="pressers")
def _(drawn: Any) -> Any:
    return lambda free, count, partition: drawn(free, count + 1, partition)


@mutant("priorities are nothing to a full backlog", 30, (relief, "by_priority"), needs="pressers")
def _(_: Any) -> Any:
    return lambda free, urgent: {0: free}


@mutant("a sample says that it is smaller", 20, (sample_rates, "rate_of"), needs="pressers")
def _(rate_of: Any) -> Any:
    return lambda level: rate_of(level + 1)


@mutant(
    "a backlog is looked at when it is too late", 20, (BoundTable, "may_be_full"), needs="pressers"
)
def _(_: Any) -> Any:
    return lambda self, bound: bound.ceiling > bound.policy.messages + 3


@mutant("a drop of a key loses what is behind it", 40, (Share, "relieve"), needs="pressers")
def _(relieve: Any) -> Any:
    def lose(self: Share, offsets: BitMap64) -> Any:
        found = relieve(self, offsets)
        self._soft.backlog.skip(offsets.max() + 1, offsets.max() + 2)
        return found

    return lose


@mutant("what overflows leaves no letter", 20, (Relief, "_move"), needs="pressers")
def _(_: Any) -> Any:
    async def drop(self: Relief, share: Share, offsets: BitMap64, why: str) -> int:
        transaction = self._ledger.begin()
        self.drop(share, offsets, OVERFLOWN, transaction)
        await transaction.commit()
        return len(offsets)

    return drop
