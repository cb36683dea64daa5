"""Relief of a full backlog: which of the messages that nobody has are taken out. Pure.

Each function takes the free offsets of one share and how many are to go. The cost is in containers
of the bitmap, not in messages, so that a backlog of ten million is no trouble; but for `drawn` and
`sampled_out`, which look at a few messages for each that goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyroaring import BitMap64

from fanlog.limits import OFFSET_MAX
from fanlog.model.resources import Offset, PartitionId

_MASK = 2**64 - 1
#: Offsets of which fewer than one of so many are free are not tried one by one.
_SPARSE = 16


def oldest(free: BitMap64, count: int) -> BitMap64:
    """The first `count` offsets."""
    if count >= len(free):
        return free.copy()
    found = free.copy()
    found.remove_range(free[count], OFFSET_MAX + 1)
    return found


def newest(free: BitMap64, count: int) -> BitMap64:
    """The last `count` offsets."""
    if count >= len(free):
        return free.copy()
    found = free.copy()
    found.remove_range(0, free[len(free) - count])
    return found


def drawn(free: BitMap64, count: int, partition: PartitionId) -> BitMap64:
    """Any `count` offsets, each as likely as the others.

    Nothing is left to chance: which ones are drawn follows from the id of the newest message and
    from how many are, so the same history draws the same messages.
    """
    if count >= len(free):
        return free.copy()
    if count > len(free) // 2:
        return free - drawn(free, len(free) - count, partition)
    found, first, last = BitMap64(), free.min(), free.max()
    # To look whether an offset is there is much cheaper than to count up to one.
    span = last - first + 1
    is_dense = span < _SPARSE * len(free)
    lot, number = mixed(partition, last), 0
    while len(found) < count:
        lot, number = mixed(lot, number), number + 1
        offset = first + lot % span if is_dense else free[lot % len(free)]
        if offset in free:
            found.add(offset)
    return found


def by_priority(free: BitMap64, urgent: Mapping[int, BitMap64]) -> dict[int, BitMap64]:
    """The free offsets by their priority; 0 is that of all that have none."""
    found: dict[int, BitMap64] = {}
    plain = free
    for priority, some in urgent.items():
        found[priority] = free & some
        plain = plain - some
    return {0: plain, **found}


def sampled_out(some: BitMap64, partition: PartitionId, level: int) -> BitMap64:
    """Those of `some` that a sample does not have; it has one of 2 to the power of `level`.

    A sample has all messages of each smaller one: who is out stays out.
    """
    if level == 0:
        return BitMap64()
    bound = 1 << (64 - level)
    return BitMap64(offset for offset in some if mixed(partition, offset) >= bound)


def mixed(one: int, other: int) -> int:
    """64 bits that look like chance, from two numbers: those of a message are its id."""
    # The finaliser of SplitMix64, by Vigna.
    found = (one * 0x9E3779B97F4A7C15 + other + 0x632BE59BD9B4E019) & _MASK
    found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _MASK
    return found ^ (found >> 31)


def first_of(free: BitMap64, start: Offset, most: int) -> BitMap64:
    """Up to `most` offsets from `start` on."""
    found = free.copy()
    found.remove_range(0, start)
    return oldest(found, most)
