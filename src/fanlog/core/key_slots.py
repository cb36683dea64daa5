"""Key slots: the parts into which the messages of a subscription are split by their keys.

A message is in the slot of its ordering key; without a key, in the slot of its message id. Which
one that is depends on nothing else, so that it is the same for ever and on every machine. Nothing
of it is stored: batches have the hashes of keys, and the place of a message says its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId


def slots_of(
    partition: PartitionId,
    base_offset: Offset,
    count: int,
    key_hashes: Sequence[int] | None,
    slot_count: int,
) -> bytes:
    """The slots of neighbours of one batch, one byte a message."""
    if key_hashes is None:
        end = base_offset + count
        return bytes(
            crc32(message_id(partition, offset).encode()) % slot_count
            for offset in range(base_offset, end)
        )
    # The upper half: the lower one may say the partition (`fanlog.core.partitioning`).
    return bytes(
        (number >> 32) % slot_count
        if number
        else crc32(message_id(partition, base_offset + index).encode()) % slot_count
        for index, number in enumerate(key_hashes)
    )
