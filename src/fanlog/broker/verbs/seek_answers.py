"""The answer to a seek: messages reopened and from when, messages acknowledged, and reasons.

Messages are counted by the cursors before and after, which are sets of offsets: none is read for
it. `reopened` counts before the subscription's filter has judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog import times
from fanlog.broker.pacing import paced
from fanlog.core.drops import Drops
from fanlog.core.share import Share
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.model.resources import Offset, PartitionId

UNACKED = "nothing from there on was acknowledged"
AT_END = "nothing was published from there on"
NO_TOPIC = "the subscription reads no topic yet"
AS_SNAPSHOT = "nothing was acknowledged since that the snapshot has unacknowledged"
DROPPED = "had been dropped by the backlog policy, which holds for them again"
KEEPING = (
    "; a topic's message_retention_duration keeps messages, or a subscription's "
    "retain_acked_messages"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekAnswer:
    """The answer to a seek."""

    #: Messages that were acknowledged and are not any more.
    reopened: int
    #: Messages that were not acknowledged and are now.
    acknowledged: int
    #: Publish time of the first that was reopened; None when there is none, or it cannot be read.
    reopened_from_ns: int | None
    #: Why nothing was reopened, or not all that was asked for; empty when all was.
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a seek takes one share."""

    #: The first offset that is asked for.
    wanted: Offset
    #: The first that is kept although it was acknowledged.
    kept: Offset
    #: The first that the log has.
    start: Offset

    def lacks(self, open_now: BitMap64) -> bool:
        """Whether something that is asked for cannot be delivered again."""
        if self.wanted <= self.start and self.start > 0:
            return True
        asked = max(0, self.kept - self.wanted)
        return asked > open_now.range_cardinality(self.wanted, self.wanted + asked)


class Move:
    """One seek of one subscription: made before it, `count` right after it, then `answer`."""

    def __init__(
        self,
        shares: Callable[[], Iterable[Share]],
        end_of: Callable[[PartitionId], Offset],
        drops_of: Callable[[Share], Drops | None],
    ) -> None:
        self._shares = shares
        self._end_of = end_of
        self._drops_of = drops_of
        self._before = self._after = self._open_offsets()

    def count(self) -> None:
        """The cursors have moved, and were not changed otherwise meanwhile: compare them."""
        self._after = self._open_offsets()

    async def answer(
        self, store: Log, now: float, targets: Mapping[PartitionId, Target] | None
    ) -> SeekAnswer:
        """The messages that the seek moved; `targets` are None for a snapshot."""
        nothing = BitMap64()
        reopened = {p: open_ - self._before.get(p, nothing) for p, open_ in self._after.items()}
        closed = (self._before[p] - self._after.get(p, nothing) for p in self._before)
        count = sum(map(len, reopened.values()))
        hint = "" if count else AS_SNAPSHOT
        if targets is not None:
            lacking = {p: t for p, t in targets.items() if t.lacks(self._after.get(p, nothing))}
            hint = await self._lacking(store, now, lacking)
            if not hint and not count:
                hint = self._nothing(targets)
        dropped = self._dropped(reopened)
        if dropped:
            hint = "; ".join(filter(None, [hint, dropped]))
        firsts = {p: found.min() for p, found in reopened.items() if found}
        return SeekAnswer(
            reopened=count,
            acknowledged=sum(map(len, closed)),
            reopened_from_ns=await _first_time_ns(store, firsts),
            hint=hint if count else f"nothing was reopened: {hint}",
        )

    def _dropped(self, reopened: Mapping[PartitionId, BitMap64]) -> str:
        """What of the reopened messages a backlog policy had dropped."""
        count = 0
        for share in self._shares():
            drops, offsets = self._drops_of(share), reopened.get(share.partition)
            if drops is not None and offsets:
                count += drops.among(offsets)
        return f"{count} of them at most {DROPPED}" if count else ""

    def _nothing(self, targets: Mapping[PartitionId, Target]) -> str:
        if not self._after:
            return NO_TOPIC
        is_end = all(target.wanted >= self._end_of(p) for p, target in targets.items())
        return AT_END if is_end else UNACKED

    async def _lacking(self, store: Log, now: float, lacking: Mapping[PartitionId, Target]) -> str:
        """Until when nothing is kept that is asked for; empty when all is."""
        if not lacking:
            return ""
        kept = {p: t.kept for p, t in lacking.items() if t.kept < self._end_of(p)}
        time_ns = await _first_time_ns(store, kept)
        hint = f"nothing before {times.of_ns(time_ns or int(now * 1e9))} is kept"
        if any(target.kept > target.start for target in lacking.values()):
            hint += " once it is acknowledged"
        return hint if kept else hint + KEEPING

    def _open_offsets(self) -> dict[PartitionId, BitMap64]:
        return {
            share.partition: share.cursor.open_offsets(self._end_of(share.partition))
            for share in self._shares()
        }


async def _first_time_ns(store: Log, offsets: Mapping[PartitionId, Offset]) -> int | None:
    """The earliest publish time of some messages, one a partition; None if none can be read."""
    found_ns: list[int] = []
    async for partition, offset in paced(offsets.items()):
        try:
            found = await store.read(partition, offset, max_bytes=1)
        except LakeUnavailable:
            # The seek is done; when it begins will be seen when the lake is back.
            continue
        found_ns += [item.publish_time_ns for item in found[:1] if not isinstance(item, Damaged)]
    return min(found_ns, default=None)
