"""The partition of a message, chosen from its topic's partitions.

The choice is a function of the message alone, so that it is the same after a restart and on every
machine. Messages of one ordering key go to one partition, for order holds within a partition only;
so do messages of one dedup id, for each partition remembers its own. Other messages of one
publisher stay together, in the order they were published.

Topics have one partition each today; then nothing of a message is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from fanlog.model.resources import PartitionId


def choose(
    partitions: Sequence[PartitionId],
    *,
    key_hash: int = 0,
    dedup_id: str = "",
    publisher: str = "",
) -> PartitionId:
    """The partition of a message.

    Args:
        partitions: Those of its topic, at least one, in their order.
        key_hash: The hash of its ordering key, as in its batch; 0 for no key.
        dedup_id: Empty for none. A message with an ordering key goes by its key: a repetition has
            the same one.
        publisher: Names the publisher, where it is known.
    """
    if len(partitions) == 1:
        return partitions[0]
    number = key_hash or _hash(dedup_id or publisher)
    return partitions[number % len(partitions)]


def allot(
    partitions: Sequence[PartitionId],
    count: int,
    key_hashes: Sequence[int] | None = None,
    dedup_ids: Sequence[str] | None = None,
    publisher: str = "",
) -> dict[PartitionId, list[int]]:
    """The indexes of the messages that go to each partition, of `count` published together.

    `key_hashes` and `dedup_ids` have one entry a message, or are None when no message has one.
    """
    found: dict[PartitionId, list[int]] = {}
    for index in range(count):
        partition = choose(
            partitions,
            key_hash=0 if key_hashes is None else key_hashes[index],
            dedup_id="" if dedup_ids is None else dedup_ids[index],
            publisher=publisher,
        )
        found.setdefault(partition, []).append(index)
    return found


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
