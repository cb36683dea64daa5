"""A body in parts, one for each partition that its messages go to.

With one partition the body is its own only part, and no message is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from fanlog.broker.transaction import Transaction
from fanlog.core import partitioning
from fanlog.log.batch import Body
from fanlog.model.resources import Offset, PartitionId, Topic

#: The messages of a body that go to one partition, and their indexes in it; None for all of them.
BodyPart = tuple[PartitionId, Body, Sequence[int] | None]
#: Where such messages are in the log: the offset of each, in the order of the indexes.
Placed = tuple[PartitionId, Sequence[Offset], Sequence[int] | None]


def parts_of(
    partitions: Sequence[PartitionId], body: Body, dedup_ids: Sequence[str] | None = None
) -> list[BodyPart]:
    """Split a body for a topic with these partitions; the order within a part is that of the body.

    `dedup_ids` has one entry a message, empty for none.
    """
    if len(partitions) == 1:
        [only] = partitions
        return [(only, body, None)]
    found = partitioning.allot(partitions, body.count, body.key_hashes, dedup_ids)
    if len(found) == 1:
        return [(partition, body, None) for partition in found]
    return [(partition, body.only(indexes), indexes) for partition, indexes in found.items()]


def append(transaction: Transaction, topic: Topic, body: Body) -> list[Placed]:
    """Append the messages of a body to the partitions of a topic."""
    if len(topic.partitions) == 1:
        [only] = topic.partitions
        base = transaction.append(topic.id, only, body)
        return [(only, range(base, base + body.count), None)]
    placed: list[Placed] = []
    for partition, part, indexes in parts_of(topic.partitions, body):
        base = transaction.append(topic.id, partition, part)
        placed.append((partition, range(base, base + part.count), indexes))
    return placed
