"""Ordering keys as the ordered backlog keeps them. Soft state.

A key is here while it has messages outstanding or waiting. Its outstanding messages are a run of
the key that begins at its first unsettled message; the waiting ones come after them. The lists of
waiting messages are bounded, for each key and for the share: a key with a full list remembers
from where on it remembers nothing (`rescan_from`), and its slots are scanned again from there once
the list is empty.

Keys are known by a 64-bit hash: two keys that collide wait for each other and lose nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.core.places import Places
from fanlog.core.share.backlog import Exhausted, Openness
from fanlog.core.share.packer import Slots
from fanlog.model.resources import Offset

_NOWHERE: Mapping[Offset, Offset] = {}


class Key:
    """One ordering key that has messages outstanding or waiting."""

    __slots__ = ("acked", "is_restored", "outstanding", "owner", "rescan_from", "waiting")

    def __init__(self) -> None:
        #: Leased and not hard-acknowledged, in order.
        self.outstanding: deque[Offset] = deque()
        #: Offsets of `outstanding` that were acknowledged ahead of an earlier one.
        self.acked: set[Offset] = set()
        #: The consumer of the outstanding messages; None also once that consumer is gone.
        self.owner: Credit | None = None
        #: Met and not delivered, in order; all of them come after `outstanding`, except messages
        #: that were reopened meanwhile.
        self.waiting: deque[Offset] = deque()
        #: From here on messages of the key were met but not remembered.
        self.rescan_from: Offset | None = None
        #: All outstanding messages were leased before the restart, and none of them failed since.
        self.is_restored = False

    @property
    def has_waiting(self) -> bool:
        """Whether messages of the key wait, remembered or not."""
        return bool(self.waiting) or self.rescan_from is not None


class Keys:
    """The ordering keys of one share, by their hash. A hash of 0 stands for no key."""

    __slots__ = (
        "_exhausted",
        "blocked",
        "by_hash",
        "hash_of",
        "places",
        "queued",
        "to_forward",
        "waiting_count",
    )

    def __init__(self, exhausted: Exhausted) -> None:
        self._exhausted = exhausted
        #: Where messages stand that were held back behind a gap; None where there can be none.
        self.places: Places | None = None
        self.by_hash: dict[int, Key] = {}
        #: Keys of `by_hash` that have messages waiting, remembered or to be scanned. In the order
        #: in which they are served.
        self.queued: dict[int, Key] = {}
        #: Messages held back by their back-off, and with each its key: a later message must not
        #: overtake it. 0 for a key that is not known yet.
        self.blocked: dict[Offset, int] = {}
        #: The key of each outstanding offset.
        self.hash_of: dict[Offset, int] = {}
        #: Waiting messages that are remembered, over all keys.
        self.waiting_count = 0
        #: Messages without attempts left that are the first of their key, or have none.
        self.to_forward: list[Offset] = []

    # One message of a key.

    def hand_out(self, number: int, key: Key, offset: Offset, consumer: Credit | None) -> None:
        """Make `offset` the last outstanding message of its key."""
        key.outstanding.append(offset)
        key.owner = consumer
        self.hash_of[offset] = number

    def let_wait(self, number: int, key: Key, offset: Offset) -> None:
        """Remember a message that was met and cannot go yet, if there is room for it."""
        self.queued[number] = key
        if key.rescan_from is not None:
            return
        if self.waiting_count >= limits.WAITING_MAX or len(key.waiting) >= limits.KEY_WAITING_MAX:
            # Promise P8: memory is bounded, however many messages a blocked key has.
            key.rescan_from = offset
            return
        key.waiting.append(offset)
        self.waiting_count += 1

    def has_room(self, number: int) -> bool:
        """Whether one more message of a key that waits can be remembered."""
        key = self.by_hash.get(number)
        if key is None:
            return self.waiting_count < limits.WAITING_MAX
        if key.rescan_from is not None:
            return False
        return self.waiting_count < limits.WAITING_MAX and len(key.waiting) < limits.KEY_WAITING_MAX

    def pop_waiting(self, key: Key) -> None:
        key.waiting.popleft()
        self.waiting_count -= 1

    # Acknowledgements.

    def acknowledge(self, offsets: Iterable[Offset]) -> BitMap64:
        """Note that `offsets` are acknowledged; return those that are now hard.

        An acknowledgement is hard when all earlier ones of its key are: were it hard at once and
        the earlier message failed, the later one could not be delivered again after it.
        """
        hard = BitMap64()
        touched: set[int] = set()
        for offset in offsets:
            number = self.hash_of.get(offset)
            if number is None:
                hard.add(offset)
            else:
                self.by_hash[number].acked.add(offset)
                touched.add(number)
        for number in touched:
            key = self.by_hash[number]
            while key.outstanding and key.outstanding[0] in key.acked:
                offset = key.outstanding.popleft()
                key.acked.discard(offset)
                del self.hash_of[offset]
                hard.add(offset)
            self.settle(number, key)
        return hard

    def early(self, offsets: BitMap64) -> BitMap64:
        """The offsets that an earlier outstanding message of their key, not given, precedes."""
        early = BitMap64()
        for number in {self.hash_of[o] for o in offsets if o in self.hash_of}:
            key = self.by_hash[number]
            is_behind = False
            for offset in key.outstanding:
                acked = offset in offsets or offset in key.acked
                if is_behind and offset in offsets:
                    early.add(offset)
                is_behind = is_behind or not acked
        return early

    # Messages that come back, or leave.

    def take_back(self, key: Key, offset: Offset, next_offset: Offset) -> BitMap64:
        """Let the outstanding messages of a key from `offset` on wait again; return them.

        Messages from `next_offset` on are not remembered: the backlog will meet them again.
        """
        taken = BitMap64()
        while key.outstanding and key.outstanding[-1] >= offset:
            last = key.outstanding.pop()
            key.acked.discard(last)
            del self.hash_of[last]
            taken.add(last)
        # The bounds do not hold here: the consumers' windows bound messages that were out.
        end = next_offset if key.rescan_from is None else key.rescan_from
        # A scan by offsets does not find those that stand behind others.
        moved = self.places.moved if self.places else _NOWHERE
        back = [o for o in taken if moved.get(o, o) < next_offset and (o < end or o in moved)]
        self.waiting_count += len(back)
        if self.places:
            key.waiting = deque(sorted([*key.waiting, *back], key=self.places.rank))
        elif key.waiting and back and key.waiting[0] < back[-1]:
            key.waiting = deque(sorted([*key.waiting, *back]))
        else:
            key.waiting.extendleft(reversed(back))
        return taken

    def thin_out(
        self,
        keeps: Callable[[Offset], bool],
        move: Callable[[Offset], Offset | None] | None = None,
    ) -> int:
        """Forget waiting messages that are not to be kept, and move the places to scan from.

        Returns how many of those places were moved.
        """
        moved = 0
        for number, key in list(self.queued.items()):
            kept = deque(offset for offset in key.waiting if keeps(offset))
            self.waiting_count -= len(key.waiting) - len(kept)
            key.waiting = kept
            if move is not None and key.rescan_from is not None:
                before, key.rescan_from = key.rescan_from, move(key.rescan_from)
                moved += key.rescan_from != before
            self.settle(number, key)
        return moved

    def unblock(self, keeps: Callable[[Offset], bool]) -> None:
        """Forget back-offs of messages that are not to be kept."""
        for offset in [offset for offset in self.blocked if not keeps(offset)]:
            del self.blocked[offset]

    def rescan(
        self,
        number: int,
        key: Key,
        cursor: Openness,
        views: Sequence[Slots],
        next_offset: Offset,
    ) -> int:
        """Refill the waiting list of an overflowed key; return how many views were scanned."""
        # A full share lets each key remember the one message that it needs next.
        room = limits.KEY_WAITING_MAX if self.waiting_count < limits.WAITING_MAX else 1
        scanned = 0
        for slots in views:
            if key.rescan_from is None or len(key.waiting) >= room:
                break
            # Acknowledged messages may be gone from the log.
            start = max(key.rescan_from, cursor.floor)
            stop = min(slots.end_offset, next_offset)
            if slots.base_offset <= start < stop:
                scanned += 1
                key.rescan_from = stop if stop < next_offset else None
                self._remember(number, key, cursor, slots, range(start, stop), room)
        return scanned

    def _remember(
        self, number: int, key: Key, cursor: Openness, slots: Slots, offsets: range, room: int
    ) -> None:
        """Remember the messages of a key among `offsets`, as far as there is room."""
        hashes = slots.key_hashes or ()
        for offset in offsets:
            index = offset - slots.base_offset
            if index >= len(hashes) or hashes[index] != number or offset in self.hash_of:
                continue
            if self.places and offset in self.places.absent:
                # It is met in its place, and remembered then.
                continue
            if offset not in cursor:
                if len(key.waiting) >= room:
                    key.rescan_from = offset
                    return
                key.waiting.append(offset)
                self.waiting_count += 1

    def settle(self, number: int, key: Key) -> None:
        """After a change: forget an idle key; forward its first message if that is exhausted."""
        if not key.outstanding:
            key.owner = None
            offset = key.waiting[0] if key.waiting else None
            # Only the first of a key may be forwarded: the dead letter topic has the key's order,
            # too. While it is forwarded it is outstanding, so that no later one is delivered.
            if offset is not None and offset not in self.blocked and offset in self._exhausted:
                self.pop_waiting(key)
                self.hand_out(number, key, offset, None)
                self.to_forward.append(offset)
        if not key.has_waiting:
            self.queued.pop(number, None)
            if not key.outstanding:
                self.by_hash.pop(number, None)
