"""Pending keys: which ordering keys are held up by a message that is not due yet.

A share learns that when it meets the message; whoever looks at one behind it may be there earlier,
and finds it in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.delivery.filtering import Filtering
from fanlog.core.share import Share
from fanlog.log.api import Log
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset


@dataclass
class PendingKeys:
    """The pending messages of one share that hold up others, as far as they were looked for.

    No more than `limits.PEEK_PENDING_BATCHES_MAX` batches are read for it.
    """

    _store: Log
    _filtering: Filtering
    _share: Share
    _first: dict[int, Offset] = field(default_factory=dict)
    _reached: Offset = 0
    _judged_to: Offset = 0
    _wanted: BitMap64 = field(default_factory=BitMap64)
    _left: int = limits.PEEK_PENDING_BATCHES_MAX

    async def look_before(self, end: Offset) -> None:
        """Learn of the pending messages before an offset.

        Raises:
            LakeUnavailable: One of them is in the lake, and that cannot be read now.
        """
        waiting = self._share.pending_with_keys(self._reached, end)
        self._reached = max(self._reached, end)
        while waiting and self._left > 0:
            first = waiting.min()
            items = await self._store.read(self._share.partition, first, max_bytes=1)
            self._left -= 1
            if not items:
                return
            item = items[0]
            stop = max(first + 1, item.base_offset + item.count)
            if isinstance(item, Batch) and item.key_hashes is not None:
                for offset in waiting & BitMap64(range(item.base_offset, stop)):
                    number = item.key_hashes[offset - item.base_offset]
                    if number not in self._first and await self._is_wanted(offset):
                        self._first[number] = offset
            waiting.remove_range(0, stop)

    def behind(self, offset: Offset, number: int) -> Offset | None:
        """The first pending message of a key, of which `number` is the hash, before another."""
        first = self._first.get(number) if number else None
        return first if first is not None and first < offset else None

    async def _is_wanted(self, offset: Offset) -> bool:
        if not self._share.settings.is_filtered or offset < self._share.routed_to:
            return True
        if offset >= self._judged_to:
            self._judged_to, self._wanted = await self._filtering.preview(
                self._share, offset, offset + limits.PEEK_JUDGED_MAX
            )
        return offset in self._wanted
