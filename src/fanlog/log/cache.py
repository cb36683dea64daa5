"""Decoded batches read lately: ten thousand subscriptions on a topic read the same ones."""

from __future__ import annotations

from collections import OrderedDict

from fanlog.log.batch import Batch
from fanlog.model import Offset, PartitionId

#: What a cached batch costs beside its content and slots.
_OVERHEAD_BYTES = 1_024


class BatchCache:
    """The batches used last, up to `max_bytes`. Used by one thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._batches: OrderedDict[tuple[PartitionId, Offset], Batch] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def get(self, partition: PartitionId, base_offset: Offset) -> Batch | None:
        key = (partition, base_offset)
        batch = self._batches.get(key)
        if batch is not None:
            self._batches.move_to_end(key)
        return batch

    def add(self, batch: Batch) -> None:
        """Keep a batch that is not in the cache yet, and let go of those used least lately."""
        key = (batch.partition, batch.base_offset)
        assert key not in self._batches
        cost_bytes = _cost_bytes(batch)
        if cost_bytes > self._max_bytes:
            return
        self._batches[key] = batch
        self._size_bytes += cost_bytes
        while self._size_bytes > self._max_bytes:
            _, oldest = self._batches.popitem(last=False)
            self._size_bytes -= _cost_bytes(oldest)


def _cost_bytes(batch: Batch) -> int:
    slot_bytes = 4 if batch.key_hashes is None else 12
    return _OVERHEAD_BYTES + slot_bytes * len(batch.starts) + len(batch.content)
