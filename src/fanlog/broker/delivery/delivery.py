"""A delivery: the messages of one lease, as the feed hands them to the code that frames them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId


@dataclass(slots=True)
class Delivery:
    """Messages of one lease, to be framed: runs of offsets, and the batches they stand in.

    Never changed. It is not frozen because that makes each of its fields dearer, and an answer has
    one at least.
    """

    partition: PartitionId
    generation: int
    #: Batch, first index and end index in it.
    runs: Sequence[tuple[Batch, int, int]]
    count: int
    #: Delivery attempts by offset for those above `attempt`.
    attempts: dict[Offset, int]
    #: Delivery attempt of the others; 0 when the subscription has no dead letter policy.
    attempt: int
    size_bytes: int
    #: How many of them were delivered before.
    redelivered: int = 0
    #: The key slot of each message, where the subscription has key slots.
    slots: Mapping[Offset, int | None] | None = None
    #: A time in the middle of those that they were published at.
    published_s: float = math.nan
