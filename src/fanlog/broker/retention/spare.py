"""Spare messages: those that only the server's default retention keeps. How many bytes they have,
and which go first.

Sizes are kept coarsely (`fanlog.core.stretches`): commits add to them as they are made, and batches
of before are weighed once, in portions, when they are first asked about. When there is too much,
everything goes that was published before one time, in all partitions alike. Which offsets that is,
the log says exactly; only the time is a guess, and the next sweep makes up for it.

Soft state: all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fanlog import limits
from fanlog.broker.events import Appended, Event
from fanlog.broker.pacing import paced
from fanlog.broker.transaction import Ledger
from fanlog.core.stretches import Stretches, StretchPiece, cutoff_ns
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Bounds, Log
from fanlog.model.resources import Offset, PartitionId


class Cuts(NamedTuple):
    """Up to where partitions are let go of: all that was published before a time."""

    before_ns: int
    offsets: Mapping[PartitionId, Offset]


NO_CUTS = Cuts(0, {})


class Spare:
    """Sizes of one broker's partitions, and where to cut them. Lives on the loop."""

    def __init__(self, ledger: Ledger, store: Log, *, bytes_max: int, has_default: bool) -> None:
        self._ledger = ledger
        self._store = store
        self.bytes_max = bytes_max
        #: Bytes of spare messages when they were last measured, and of those appended since.
        self.size_bytes = 0
        self._appended_bytes = 0
        self._step_bytes = max(
            limits.STRETCH_BYTES_MIN, min(limits.STRETCH_BYTES, bytes_max // limits.SPARE_PARTS)
        )
        self._known: dict[PartitionId, Stretches] = {}
        #: The one that is being weighed.
        self._partly: dict[PartitionId, Stretches] = {}
        #: There may be too many bytes of them; told again and again until they are measured.
        self.on_many: Event[int] = Event()
        if has_default:
            ledger.on_append.listen(self._append)

    @property
    def _many_bytes(self) -> int:
        """From here on it is time to look: some are let go of before there are too many."""
        return self.bytes_max - self.bytes_max // limits.SPARE_PARTS

    def _append(self, appended: Appended) -> None:
        """A commit has appended messages."""
        partition, base, end, size_bytes, time_ns = appended
        found = self._known.get(partition)
        if found is None:
            if base:
                # Earlier batches are not weighed yet: they are, together with this one.
                return
            found = self._known[partition] = Stretches(0, self._step_bytes)
        found.add(end, size_bytes, time_ns, time_ns)
        self._appended_bytes += size_bytes
        is_much = self._appended_bytes >= self.bytes_max // limits.SPARE_PARTS
        if is_much and self.size_bytes + self._appended_bytes > self._many_bytes:
            self.on_many.tell(self.size_bytes + self._appended_bytes)

    @property
    def is_weighing(self) -> bool:
        """Whether a part of what was asked about last is not looked at yet."""
        return bool(self._partly)

    def is_younger(self, partition: PartitionId, time_ns: int) -> bool:
        """Whether all of a partition was certainly published at that time or later."""
        found = self._known.get(partition)
        oldest_ns = None if found is None else found.oldest_ns
        return oldest_ns is not None and oldest_ns >= time_ns

    async def weigh(self, starts: Mapping[PartitionId, Offset], *, portions: int) -> bool:
        """Look at partitions that are not known yet, from their hot starts on.

        At most so many portions of them: the next call goes on. Whether there were any.
        """
        self._forget()
        self._partly = {p: found for p, found in self._partly.items() if p in starts}
        left = portions
        for partition, start in starts.items():
            if partition in self._known:
                continue
            found = self._partly.get(partition) or Stretches(start, self._step_bytes)
            while found.end < self._ledger.end(partition):
                if not left:
                    self._partly = {partition: found}
                    return True
                left -= 1
                extents = await self._store.extents(
                    partition,
                    found.end,
                    step_bytes=self._step_bytes,
                    limit=limits.WEIGHED_BATCHES_MAX,
                )
                for one in extents:
                    found.add(one.end_offset, one.size_bytes, one.first_ns, one.last_ns)
                if not extents:
                    break
            # No commit came since its end was looked at: from here on commits add to it.
            self._known[partition] = found
            self._partly.clear()
        return left < portions

    def _forget(self) -> None:
        """Let go of the sizes of messages that were trimmed."""
        bounds = self._store.partitions()
        self._known = {p: found for p, found in self._known.items() if p in bounds}
        for partition, found in self._known.items():
            found.cut(bounds[partition].start)

    def measure(self, spans: Mapping[PartitionId, Bounds]) -> int:
        """Bytes of the spare messages, which are those in `spans`."""
        self.size_bytes = sum(self.size_of(p, s.start, s.end) for p, s in spans.items())
        self._appended_bytes = 0
        return self.size_bytes

    @property
    def excess_bytes(self) -> int:
        """How much is to go; 0 while there are not too many."""
        if self.size_bytes <= self._many_bytes:
            return 0
        return self.size_bytes - self.bytes_max + 2 * (self.bytes_max // limits.SPARE_PARTS)

    def forget(self, partition: PartitionId, low: Offset, high: Offset) -> int:
        """Spare messages are let go of before their time; about how many bytes."""
        size_bytes = self.size_of(partition, low, high)
        self.size_bytes = max(0, self.size_bytes - size_bytes)
        return size_bytes

    def size_of(self, partition: PartitionId, low: Offset, high: Offset) -> int:
        found = self._known.get(partition)
        return 0 if found is None else found.size_bytes(low, high)

    async def size_between(
        self, partition: PartitionId, low: Offset, high: Offset, hot_start: Offset
    ) -> int:
        """Bytes of the messages from `low` to before `high` of the hot log, about.

        A partition that is not known yet, or not up to there, is weighed first.
        """
        found = self._known.get(partition)
        if found is None or found.end < high:
            await self._weigh_on(partition, hot_start)
        return self.size_of(partition, low, high)

    async def _weigh_on(self, partition: PartitionId, hot_start: Offset) -> None:
        found = self._known.get(partition) or Stretches(hot_start, self._step_bytes)
        while (low := found.end) < self._ledger.end(partition):
            extents = await self._store.extents(
                partition, low, step_bytes=self._step_bytes, limit=limits.WEIGHED_BATCHES_MAX
            )
            # Another task may have weighed on meanwhile.
            if found.end == low:
                for one in extents:
                    found.add(one.end_offset, one.size_bytes, one.first_ns, one.last_ns)
            if not extents:
                break
        self._known.setdefault(partition, found)

    async def cuts(self, spans: Mapping[PartitionId, Bounds], size_bytes: int) -> Cuts:
        """Where to cut, so that about so many bytes go, oldest first; nowhere if there are none."""
        while True:
            before_ns = cutoff_ns(self._pieces(spans), size_bytes)
            found: dict[PartitionId, Offset] = {}
            async for partition, span in paced(spans.items()):
                if self.is_younger(partition, before_ns):
                    continue
                try:
                    offset = await self._store.offset_for_time(partition, before_ns)
                except LakeUnavailable:
                    continue
                if min(offset, span.end) > span.start:
                    found[partition] = offset
            if found or size_bytes > self.size_bytes:
                return Cuts(before_ns, found)
            # The guess was too early.
            size_bytes = max(1, size_bytes) * 2

    def _pieces(self, spans: Mapping[PartitionId, Bounds]) -> Iterator[StretchPiece]:
        for partition, span in spans.items():
            found = self._known.get(partition)
            if found is not None:
                yield from found.pieces(span.start, span.end)
