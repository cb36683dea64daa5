"""Decoded batches read lately: ten thousand subscriptions on a topic read the same ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict

from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId

#: Memory of a cached batch beside its content and slots.
_OVERHEAD_BYTES = 1_024


class BatchCache:
    """The batches used last, up to `max_bytes`. Used by one thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._batches: OrderedDict[tuple[PartitionId, Offset], Batch] = OrderedDict()
        #: Base offsets of the cached batches, ascending.
        self._bases: defaultdict[PartitionId, list[Offset]] = defaultdict(list)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def get(self, partition: PartitionId, base_offset: Offset) -> Batch | None:
        key = (partition, base_offset)
        batch = self._batches.get(key)
        if batch is not None:
            self._batches.move_to_end(key)
        return batch

    def find(self, partition: PartitionId, offset: Offset) -> Batch | None:
        """The batch that holds `offset`, wherever in it that is."""
        bases = self._bases.get(partition)
        index = bisect_right(bases, offset) if bases else 0
        if bases is None or index == 0:
            return None
        batch = self.get(partition, bases[index - 1])
        return batch if batch is not None and offset < batch.end_offset else None

    def add(self, batch: Batch) -> None:
        """Keep a batch that is not in the cache yet, and let go of those used least lately."""
        key = (batch.partition, batch.base_offset)
        assert key not in self._batches
        cost_bytes = _cost_bytes(batch)
        if cost_bytes > self._max_bytes:
            return
        self._batches[key] = batch
        insort(self._bases[batch.partition], batch.base_offset)
        self._size_bytes += cost_bytes
        while self._size_bytes > self._max_bytes:
            (partition, base_offset), oldest = self._batches.popitem(last=False)
            bases = self._bases[partition]
            del bases[bisect_left(bases, base_offset)]
            if not bases:
                del self._bases[partition]
            self._size_bytes -= _cost_bytes(oldest)


def _cost_bytes(batch: Batch) -> int:
    slot_bytes = 4 if batch.key_hashes is None else 12
    return _OVERHEAD_BYTES + slot_bytes * len(batch.starts) + len(batch.content)
