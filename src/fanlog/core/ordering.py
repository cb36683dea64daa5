"""The backlog that keeps the messages of a key in order. Soft state.

The rule: while any message of a key is outstanding, nothing of that key goes to anyone but the
consumer that holds it; and when one comes back, everything after it of that key comes back too.
So the outstanding messages of a key are always a run of it that begins at its first unsettled
message, and an acknowledgement counts (is *hard*) only when all earlier ones of its key do.

Keys are known by a 64-bit hash: two keys that collide wait for each other and lose nothing.

A key that is held by somebody is *busy*: what is met of it meanwhile goes to its `waiting` list.
The lists are bounded; a key that overflows remembers where, and its slots are scanned again from
there once the list is empty. Messages without a key do not wait for anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.backlog import Packer, Slots
from fanlog.core.cursor import Cursor, Range, runs
from fanlog.core.flow import Credit
from fanlog.model import Offset


class Key:
    """One ordering key that has messages outstanding or waiting."""

    __slots__ = ("acked", "is_blocked", "outstanding", "owner", "rescan_from", "waiting")

    def __init__(self) -> None:
        #: Leased and not hard-acknowledged, in order.
        self.outstanding: deque[Offset] = deque()
        #: Those of `outstanding` that were acknowledged ahead of an earlier one.
        self.acked: set[Offset] = set()
        #: Who holds the outstanding ones; None also for a lease whose consumer is gone.
        self.owner: Credit | None = None
        #: Met and not delivered, in order; all of them come after `outstanding`.
        self.waiting: deque[Offset] = deque()
        #: From here on messages of the key were met but not remembered.
        self.rescan_from: Offset | None = None
        #: Back-off: the first waiting message, and so the whole key, is held back.
        self.is_blocked = False

    def open_to(self, consumer: Credit, *, strict: bool) -> bool:
        """Whether `consumer` may get the next message of the key."""
        if self.is_blocked:
            return False
        return not self.outstanding or (self.owner is consumer and not strict)


@dataclass(frozen=True, slots=True)
class Recall:
    """What came back: the first message of each key, all of them, and those without a key."""

    heads: Mapping[int, Offset]
    offsets: BitMap64
    keyless: BitMap64


class OrderedBacklog:
    """The backlog of a share with ordering; see `Backlog` for the methods both have."""

    __slots__ = (
        "_blocked",
        "_exhausted",
        "_held",
        "_key_of",
        "_keyless",
        "_keys",
        "_queued",
        "_strict",
        "_waiting_count",
        "next_offset",
        "progress",
        "to_forward",
    )

    def __init__(
        self,
        floor: Offset,
        held: BitMap64,
        *,
        strict: bool,
        exhausted: Callable[[Offset], bool],
    ) -> None:
        self.next_offset = floor
        #: Grows whenever messages were met, whether or not they were handed out.
        self.progress = 0
        self._strict = strict
        self._exhausted = exhausted
        #: Released messages that have no key.
        self._keyless = BitMap64()
        self._keys: dict[int, Key] = {}
        #: Those of `_keys` that have messages waiting, remembered or to be scanned.
        self._queued: dict[int, Key] = {}
        #: Key of each message held back by its back-off.
        self._blocked: dict[Offset, int] = {}
        #: Key of each outstanding offset.
        self._key_of: dict[Offset, int] = {}
        self._waiting_count = 0
        # Leases that outlived a restart, not yet met by the scan: their keys are not known.
        self._held = held.copy()
        #: Messages at the head of their key that have no attempts left; the share takes them.
        self.to_forward: list[Offset] = []

    @property
    def unplaced(self) -> BitMap64:
        """Restored leases whose keys are not known yet; `scan` finds them."""
        return self._held

    def has_some(self, cursor: Cursor, end: Offset) -> bool:
        if self._keyless or any(self._is_free(key) for key in self._queued.values()):
            return True
        return next(cursor.unacked_ranges(self.next_offset, end), None) is not None

    def plan(self, cursor: Cursor, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        wanted = BitMap64(list(self._keyless)[:limit])
        for key in self._queued.values():
            if len(wanted) >= limit:
                break
            if not key.open_to(consumer, strict=self._strict):
                continue
            wanted.update(list(key.waiting)[: 1 if self._strict else limit])
            if not key.waiting and key.rescan_from is not None:
                wanted.add_range(key.rescan_from, min(key.rescan_from + limit, self.next_offset))
        ranges = list(runs(wanted))
        for start, stop in cursor.unacked_ranges(self.next_offset, end):
            if limit <= 0:
                break
            ranges.append((start, min(stop, start + limit)))
            limit -= stop - start
        return ranges

    def take(
        self,
        cursor: Cursor,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer,
        limit: int,
        consumer: Credit,
    ) -> None:
        self._take_keyless(views, packer)
        for number, key in list(self._queued.items()):
            if packer.is_full:
                return
            self._take_waiting(number, key, cursor, views, packer, consumer)
        self._take_fresh(cursor, end, views, packer, consumer)

    def scan(self, cursor: Cursor, end: Offset, views: Sequence[Slots]) -> None:
        """Meet the messages of `views` without delivering any: all of them wait."""
        self._take_fresh(cursor, end, views, None, None)

    def acknowledge(self, offsets: Iterable[Offset]) -> BitMap64:
        """Note that outstanding `offsets` are acknowledged; return those that are now hard."""
        hard = BitMap64()
        touched: set[int] = set()
        for offset in offsets:
            number = self._key_of.get(offset)
            if number is None:
                hard.add(offset)
            else:
                self._keys[number].acked.add(offset)
                touched.add(number)
        for number in touched:
            key = self._keys[number]
            while key.outstanding and key.outstanding[0] in key.acked:
                offset = key.outstanding.popleft()
                key.acked.discard(offset)
                del self._key_of[offset]
                hard.add(offset)
            self._settle(number, key)
        return hard

    def would_be_early(self, offsets: BitMap64) -> BitMap64:
        """Those of `offsets` behind an earlier message of their key that is not among them."""
        early = BitMap64()
        for number in {self._key_of[o] for o in offsets if o in self._key_of}:
            key = self._keys[number]
            is_behind = False
            for offset in key.outstanding:
                acked = offset in offsets or offset in key.acked
                if is_behind and offset in offsets:
                    early.add(offset)
                is_behind = is_behind or not acked
        return early

    def recall(self, offsets: BitMap64) -> Recall:
        """Outstanding messages failed: they and all after them of their keys wait again.

        The caller may `block` each key, and must `settle` it; messages without a key are the
        caller's to release.
        """
        keyless = BitMap64()
        recalled = BitMap64()
        heads: dict[int, Offset] = {}
        for offset in offsets:
            number = self._key_of.get(offset)
            if number is None:
                if offset not in recalled:
                    keyless.add(offset)
                continue
            heads[number] = offset
            key = self._keys[number]
            while key.outstanding and key.outstanding[-1] >= offset:
                last = key.outstanding.pop()
                key.acked.discard(last)
                del self._key_of[last]
                key.waiting.appendleft(last)
                self._waiting_count += 1
                recalled.add(last)
            self._queued[number] = key
        return Recall(heads, recalled, keyless)

    def block(self, number: int, offset: Offset) -> None:
        """Hold back key `number`, whose next message is `offset`, until that is released."""
        key = self._keys[number]
        assert key.waiting[0] == offset
        key.is_blocked = True
        self._blocked[offset] = number

    def settle(self, number: int) -> None:
        """The key changed: forward its head if that has no attempts left, forget it if idle."""
        self._settle(number, self._keys[number])

    def release(self, offsets: BitMap64) -> None:
        """Back-offs are over, or messages without a key are free again."""
        for offset in offsets:
            number = self._blocked.pop(offset, None)
            if number is None:
                self._keyless.add(offset)
            else:
                self._keys[number].is_blocked = False
                self._settle(number, self._keys[number])

    def discard(self, offsets: BitMap64) -> None:
        self._keyless -= offsets
        self._held -= offsets
        for number, key in list(self._queued.items()):
            if not key.waiting or offsets.isdisjoint(BitMap64(key.waiting)):
                continue
            if key.is_blocked and key.waiting[0] in offsets:
                del self._blocked[key.waiting[0]]
                key.is_blocked = False
            kept = deque(o for o in key.waiting if o not in offsets)
            self._waiting_count -= len(key.waiting) - len(kept)
            key.waiting = kept
            self._settle(number, key)

    def skip(self, start: Offset, end: Offset) -> None:
        self.discard(BitMap64(range(start, end)))
        if start <= self.next_offset < end:
            self.next_offset = end
        for key in self._queued.values():
            if key.rescan_from is not None and start <= key.rescan_from < end:
                key.rescan_from = end if end < self.next_offset else None

    def _is_free(self, key: Key) -> bool:
        if key.is_blocked:
            return False
        return not key.outstanding or (key.owner is not None and not self._strict)

    def _take_keyless(self, views: Sequence[Slots], packer: Packer) -> None:
        if not self._keyless:
            return
        taken = BitMap64()
        for offset in self._keyless:
            slots = _find(views, offset)
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            taken.add(offset)
        self._keyless -= taken

    def _take_waiting(
        self,
        number: int,
        key: Key,
        cursor: Cursor,
        views: Sequence[Slots],
        packer: Packer,
        consumer: Credit,
    ) -> None:
        while key.open_to(consumer, strict=self._strict):
            if not key.waiting:
                self._rescan(number, key, cursor, views)
            if not key.waiting:
                break
            offset = key.waiting[0]
            if offset in cursor:
                self._pop_waiting(key)
                continue
            if not key.outstanding and self._exhausted(offset):
                self._settle(number, key)
                break
            slots = _find(views, offset)
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            self._pop_waiting(key)
            self._hand_out(number, key, offset, consumer)
        self._settle(number, key)

    def _take_fresh(
        self,
        cursor: Cursor,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer | None,
        consumer: Credit | None,
    ) -> None:
        """Meet fresh messages in order; hand out what may go, let the rest wait."""
        for slots in views:
            stop = min(end, slots.end_offset)
            if not slots.base_offset <= self.next_offset < stop:
                continue
            hashes = slots.key_hashes
            self.progress += 1
            for offset in range(self.next_offset, stop):
                if offset in cursor:
                    continue
                number = hashes[offset - slots.base_offset] if hashes is not None else 0
                if not self._meet(offset, number, slots, packer, consumer):
                    self.next_offset = offset
                    return
            self.next_offset = stop

    def _meet(
        self,
        offset: Offset,
        number: int,
        slots: Slots,
        packer: Packer | None,
        consumer: Credit | None,
    ) -> bool:
        """One fresh message; False when it would go out and the answer is full."""
        if offset in self._held:
            self._held.discard(offset)
            if number:
                self._hand_out(number, self._keys.setdefault(number, Key()), offset, None)
            return True
        if number == 0:
            if packer is None:
                self._keyless.add(offset)
                return True
            return packer.add(slots, offset, offset + 1) > offset
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = Key()
        elif packer is None or consumer is None or not self._is_next(key, consumer):
            self._let_wait(number, key, offset)
            return True
        if packer is None or consumer is None or self._exhausted(offset):
            self._let_wait(number, key, offset)
            self._settle(number, key)
            return True
        if packer.add(slots, offset, offset + 1) == offset:
            self._settle(number, key)
            return False
        self._hand_out(number, key, offset, consumer)
        return True

    def _is_next(self, key: Key, consumer: Credit) -> bool:
        has_earlier = bool(key.waiting) or key.rescan_from is not None
        return not has_earlier and key.open_to(consumer, strict=self._strict)

    def _let_wait(self, number: int, key: Key, offset: Offset) -> None:
        self._queued[number] = key
        if key.rescan_from is not None:
            return
        if self._waiting_count >= limits.WAITING_MAX or len(key.waiting) >= limits.KEY_WAITING_MAX:
            key.rescan_from = offset
            return
        key.waiting.append(offset)
        self._waiting_count += 1

    def _rescan(self, number: int, key: Key, cursor: Cursor, views: Sequence[Slots]) -> None:
        """Refill the waiting list of an overflowed key from the slots of `views`."""
        for slots in views:
            start = key.rescan_from
            if start is None or len(key.waiting) >= limits.KEY_WAITING_MAX:
                return
            if not slots.base_offset <= start < slots.end_offset:
                continue
            stop = min(slots.end_offset, self.next_offset)
            hashes = slots.key_hashes or ()
            self.progress += 1
            for offset in range(start, stop):
                index = offset - slots.base_offset
                if index < len(hashes) and hashes[index] == number and offset not in cursor:
                    if len(key.waiting) >= limits.KEY_WAITING_MAX:
                        key.rescan_from = offset
                        return
                    key.waiting.append(offset)
                    self._waiting_count += 1
            key.rescan_from = stop if stop < self.next_offset else None

    def _pop_waiting(self, key: Key) -> None:
        key.waiting.popleft()
        self._waiting_count -= 1

    def _hand_out(self, number: int, key: Key, offset: Offset, consumer: Credit | None) -> None:
        key.outstanding.append(offset)
        key.owner = consumer
        self._key_of[offset] = number

    def _settle(self, number: int, key: Key) -> None:
        """After a change: forget an idle key; a head without attempts left is to be forwarded."""
        if not key.outstanding:
            key.owner = None
            if key.waiting and not key.is_blocked and self._exhausted(key.waiting[0]):
                offset = key.waiting[0]
                self._pop_waiting(key)
                self._hand_out(number, key, offset, None)
                self.to_forward.append(offset)
        if not key.waiting and key.rescan_from is None:
            self._queued.pop(number, None)
            if not key.outstanding:
                self._keys.pop(number, None)


def _find(views: Sequence[Slots], offset: Offset) -> Slots | None:
    return next((v for v in views if v.base_offset <= offset < v.end_offset), None)
