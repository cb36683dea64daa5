"""The key slots of the messages of one share that are out. Soft state.

Leases know offsets; who may take a key slot depends on what is leased of it, here and on the other
shares of the subscription. This is where a share counts that, and tells the assignment.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Set

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core import key_slots
from fanlog.core.assignment import GONE, Assignment
from fanlog.core.flow import Credit
from fanlog.core.share.packer import Slots
from fanlog.model.resources import Offset, PartitionId

_NONE: frozenset[int] = frozenset()


class SlotHolds:
    """Which messages of one share are leased, by key slot. Not safe to share between threads."""

    __slots__ = ("_assignment", "_cache", "_counts", "_partition", "_slot_of", "slot_count")

    def __init__(self, partition: PartitionId, slot_count: int) -> None:
        self.slot_count = slot_count
        self._partition = partition
        #: None while the subscription has no consumers.
        self._assignment: Assignment | None = None
        #: Leased messages of each slot.
        self._counts = [0] * slot_count
        #: The slot of messages that are leased, or were, and are not acknowledged or free again.
        self._slot_of: dict[Offset, int] = {}
        #: The slots of the messages of batches that were looked at last.
        self._cache: OrderedDict[tuple[Offset, Offset], bytes] = OrderedDict()

    # The assignment.

    def join(self, assignment: Assignment) -> None:
        """Tell an assignment from now on; whoever holds something now is none of its members."""
        self.part()
        self._assignment = assignment
        for slot, count in enumerate(self._counts):
            if count:
                assignment.hold(slot, GONE, count)

    def part(self) -> None:
        """Tell the assignment no more: nothing here counts for it."""
        assignment, self._assignment = self._assignment, None
        if assignment is not None:
            for slot, count in enumerate(self._counts):
                if count:
                    assignment.settle(slot, count)

    def open_to(self, consumer: Credit) -> Set[int]:
        """The slots that a consumer may take messages of."""
        return _NONE if self._assignment is None else self._assignment.open_to(consumer)

    # Slots of messages.

    def of_batch(self, view: Slots) -> bytes:
        """The slots of the messages of a batch, one byte each."""
        key = view.base_offset, view.end_offset
        found = self._cache.get(key)
        if found is None:
            count = view.end_offset - view.base_offset
            found = self._cache[key] = key_slots.slots_of(
                self._partition, view.base_offset, count, view.key_hashes, self.slot_count
            )
            if len(self._cache) > limits.KEY_SLOT_BATCHES_MAX:
                self._cache.popitem(last=False)
        return found

    @property
    def held(self) -> list[int]:
        """The slots of which messages are leased."""
        return [slot for slot, count in enumerate(self._counts) if count]

    def of(self, offset: Offset) -> int | None:
        """The slot of a message that is out, or that waits for its back-off."""
        return self._slot_of.get(offset)

    def split(self, offsets: BitMap64) -> tuple[dict[int, BitMap64], BitMap64]:
        """Messages by their slot; and those that were never out."""
        by_slot: defaultdict[int, BitMap64] = defaultdict(BitMap64)
        unknown = BitMap64()
        for offset in offsets:
            slot = self._slot_of.get(offset)
            if slot is None:
                unknown.add(offset)
            else:
                by_slot[slot].add(offset)
        return by_slot, unknown

    # Leases.

    def note(self, offset: Offset, slot: int) -> None:
        """Remember the slot of a message that is not leased."""
        self._slot_of[offset] = slot

    def hold(self, offset: Offset, slot: int, consumer: Credit | None) -> None:
        """A message is leased; to None under a lease of before a restart."""
        self._slot_of[offset] = slot
        self._counts[slot] += 1
        if self._assignment is not None:
            self._assignment.hold(slot, GONE if consumer is None else consumer)

    def release(self, offsets: BitMap64) -> None:
        """Messages are not leased any more, for whichever reason."""
        for offset in offsets:
            slot = self._slot_of.get(offset)
            # Unknown of a lease of before a restart that was never met.
            if slot is not None:
                self._counts[slot] -= 1
                if self._assignment is not None:
                    self._assignment.settle(slot)

    def forget(self, offsets: BitMap64) -> None:
        """Messages are acknowledged, or free to be met again."""
        for offset in offsets:
            self._slot_of.pop(offset, None)

    def forget_below(self, floor: Offset) -> None:
        for offset in [offset for offset in self._slot_of if offset < floor]:
            del self._slot_of[offset]

    def reset(self) -> None:
        """No message is leased."""
        assignment = self._assignment
        self.part()
        self._counts = [0] * self.slot_count
        self._slot_of = {}
        if assignment is not None:
            self.join(assignment)
