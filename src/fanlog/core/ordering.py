"""The backlog that keeps the messages of a key in order. Soft state.

The rule: while any message of a key is outstanding, nothing of that key goes to anyone but the
consumer that holds it; and when one comes back, everything after it of that key comes back too.
So the outstanding messages of a key are always a run of it that begins at its first unsettled
message, and an acknowledgement counts (is *hard*) only when all earlier ones of its key do.

Keys are known by a 64-bit hash: two keys that collide wait for each other and lose nothing.

A key that is held by somebody is *busy*: what is met of it meanwhile goes to its `waiting` list.
The lists are bounded; a key that overflows remembers where, and its slots are scanned again from
there once the list is empty. Messages without a key do not wait for anybody.

When messages are reopened the backlog *goes back* to the first of them and meets all after it once
more, but for what it has met and somebody has (`_met`). An outstanding message may then have an
earlier one of its key behind it; the key is closed until what is outstanding of it is settled.

Leases that outlived a restart are *unplaced* until the scan meets them, for their keys are not
known before. One that fails meanwhile is simply met as a fresh message; those after it of its key
that are still leased are recalled when they are met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.aversion import Aversions
from fanlog.core.backlog import Openness, Packer, Slots, without
from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Credit
from fanlog.core.ordering_key import Key, Recall
from fanlog.model.resources import Offset


class OrderedBacklog:
    """The backlog of a share with ordering; see `Backlog` for the methods both have."""

    __slots__ = (
        "_aversions",
        "_blocked",
        "_exhausted",
        "_held",
        "_key_of",
        "_keyless",
        "_keys",
        "_met",
        "_queued",
        "_skipped",
        "_waiting_count",
        "next_offset",
        "progress",
        "recalled",
        "strict",
        "to_forward",
    )

    def __init__(
        self,
        floor: Offset,
        held: BitMap64,
        aversions: Aversions,
        *,
        strict: bool,
        exhausted: Callable[[Offset], bool],
    ) -> None:
        self.next_offset = floor
        #: Grows whenever messages were met or left out, whether or not any was handed out.
        self.progress = 0
        #: One message of a key at a time.
        self.strict = strict
        self._exhausted = exhausted
        self._aversions = aversions
        #: Released messages that have no key.
        self._keyless = BitMap64()
        self._keys: dict[int, Key] = {}
        #: Those of `_keys` that have messages waiting, remembered or to be scanned.
        self._queued: dict[int, Key] = {}
        #: Messages held back by their back-off, and so all after them of their key; 0 stands for
        #: a key not known yet.
        self._blocked: dict[Offset, int] = {}
        #: Key of each outstanding offset.
        self._key_of: dict[Offset, int] = {}
        self._waiting_count = 0
        # Leases that outlived a restart, not yet met by the scan: their keys are not known.
        self._held = held.copy()
        # Ahead of `next_offset` since the backlog went back, and met before: not to be met again.
        self._met = BitMap64()
        #: What cannot be read.
        self._skipped = BitMap64()
        #: Messages at the head of their key that have no attempts left; the share takes them.
        self.to_forward: list[Offset] = []
        #: Restored leases found behind a message that failed; the share ends them.
        self.recalled = BitMap64()

    @property
    def unplaced(self) -> BitMap64:
        """Restored leases whose keys are not known yet; `scan` finds them."""
        return self._held

    @property
    def outstanding(self) -> BitMap64:
        """Messages of a key that are held by somebody, or acknowledged ahead of an earlier one."""
        return BitMap64(self._key_of)

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        if self._keyless or self.to_forward:
            return True
        if any(self._is_free(key) for key in self._queued.values()):
            return True
        return next(self._fresh(cursor, end), None) is not None

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        wanted = BitMap64(islice(self._keyless - self._aversions.of(consumer), limit))
        for key in self._queued.values():
            if len(wanted) >= limit:
                break
            if not self._is_open(key, consumer):
                continue
            wanted.update(islice(key.waiting, 1 if self.strict else limit - len(wanted)))
            if not key.waiting and key.rescan_from is not None:
                # Noted, so that `skip` finds a scan that begins in what cannot be read.
                start = key.rescan_from = max(key.rescan_from, cursor.floor)
                wanted.add_range(start, max(start, min(start + limit, self.next_offset)))
        ranges = list(runs(wanted))
        limit -= len(wanted)
        for start, stop in self._fresh(cursor, end):
            if limit <= 0:
                break
            ranges.append((start, min(stop, start + limit)))
            limit -= stop - start
        # Messages without a key may be ready ahead of where the backlog went back to.
        return sorted(ranges) if self._met else ranges

    def take(
        self,
        cursor: Openness,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer,
        limit: int,
        consumer: Credit,
    ) -> None:
        self._take_keyless(views, packer, consumer)
        for number, key in list(self._queued.items()):
            if packer.is_full:
                return
            if self._take_waiting(number, key, cursor, views, packer, consumer):
                # Let the other keys have their turn first next time.
                self._queued[number] = self._queued.pop(number)
        self._take_fresh(cursor, end, views, packer, consumer)

    def scan(self, cursor: Openness, end: Offset, views: Sequence[Slots]) -> None:
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
        early = offsets & self._held
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
        keyless, unplaced, recalled = BitMap64(), BitMap64(), BitMap64()
        heads: dict[int, Offset] = {}
        for offset in offsets:
            number = self._key_of.get(offset)
            if number is None:
                if offset in self._held:
                    self._held.discard(offset)
                    unplaced.add(offset)
                elif offset not in recalled:
                    keyless.add(offset)
                continue
            key = self._keys[number]
            key.is_restored = False
            if offset < self.next_offset:
                heads[number] = offset
            else:
                unplaced.add(offset)
            recalled |= self._take_back(key, offset)
            self._queued[number] = key
            if offset >= self.next_offset:
                self._settle(number, key)
        return Recall(heads, recalled, keyless, unplaced)

    def _take_back(self, key: Key, offset: Offset) -> BitMap64:
        """Take what is outstanding of a key from `offset` on; return it."""
        taken = BitMap64()
        while key.outstanding and key.outstanding[-1] >= offset:
            last = key.outstanding.pop()
            key.acked.discard(last)
            del self._key_of[last]
            taken.add(last)
        back = BitMap64(taken)
        if back.max() >= self.next_offset:
            # The backlog went back: it will meet them again.
            back.remove_range(self.next_offset, back.max() + 1)
            self._met -= taken
        if key.rescan_from is not None and back and back.max() >= key.rescan_from:
            back.remove_range(key.rescan_from, back.max() + 1)
        self._waiting_count += len(back)
        if key.waiting and back and key.waiting[0] < back.max():
            key.waiting = deque(sorted([*key.waiting, *back]))
        else:
            key.waiting.extendleft(reversed(back.to_array()))
        return taken

    def block(self, number: int, offset: Offset) -> None:
        """Hold back `offset`, and so its key, until it is released; 0 if the key is not known."""
        self._blocked[offset] = number

    def settle(self, number: int) -> None:
        """The key changed: forward its head if that has no attempts left, forget it if idle."""
        self._settle(number, self._keys[number])

    def release(self, offsets: BitMap64) -> None:
        """Back-offs are over, or messages without a key are free again."""
        for offset in offsets:
            number = self._blocked.pop(offset, None)
            if number:
                self._settle(number, self._keys[number])
            elif offset < self.next_offset or offset in self._met:
                self._keyless.add(offset)

    def go_back(self, opened: BitMap64, busy: BitMap64, delayed: BitMap64) -> None:
        """Meet `opened`, and all after it, once more, but for what somebody has or has no key."""
        start = opened.min()
        self._met -= opened
        if start >= self.next_offset:
            return
        self._met = (busy | delayed | self._keyless) - self._held - BitMap64(self._blocked)
        self._met.update(self._key_of, self.to_forward)
        self._met.remove_range(0, start)
        for number, key in list(self._queued.items()):
            kept = deque(offset for offset in key.waiting if offset < start)
            self._waiting_count -= len(key.waiting) - len(kept)
            key.waiting = kept
            if key.rescan_from is not None and key.rescan_from >= start:
                key.rescan_from = None
            self._settle(number, key)
        for offset in self._blocked:
            if offset >= start:
                self._blocked[offset] = 0
        self.next_offset = start
        self.progress += 1

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        # In order, what came back is due again together with all after it: keyless ones only.
        return offsets & (self._keyless | (delayed - BitMap64(self._blocked)))

    def discard(self, offsets: BitMap64) -> None:
        self._keyless -= offsets

    def close(self, floor: Offset) -> BitMap64:
        """As in `Backlog`: an acknowledgement that waited for one that is gone becomes hard."""
        self.next_offset = max(self.next_offset, floor)
        self._leave_out(0, floor)
        self.to_forward = [offset for offset in self.to_forward if offset >= floor]
        return self.acknowledge([offset for offset in self._key_of if offset < floor])

    def drop(self, offsets: BitMap64) -> BitMap64:
        """As in `Backlog`, and as `close`."""
        if not offsets:
            return BitMap64()
        self._keyless -= offsets
        self._held -= offsets
        self._met -= offsets
        for offset in [offset for offset in self._blocked if offset in offsets]:
            del self._blocked[offset]
        for number, key in list(self._queued.items()):
            kept = deque(offset for offset in key.waiting if offset not in offsets)
            self._waiting_count -= len(key.waiting) - len(kept)
            key.waiting = kept
            self._settle(number, key)
        self.to_forward = [offset for offset in self.to_forward if offset not in offsets]
        return self.acknowledge([offset for offset in self._key_of if offset in offsets])

    def skip(self, start: Offset, end: Offset) -> None:
        before = len(self._skipped)
        self._skipped.add_range(start, end)
        self.progress += len(self._skipped) - before
        if start <= self.next_offset < end:
            self.next_offset = end
        self._leave_out(start, end)

    def abandon(self, consumer: Credit) -> None:
        """A consumer is gone: what it holds of a key still holds up the rest of it."""
        for key in self._keys.values():
            if key.owner is consumer:
                key.owner = None

    def _leave_out(self, start: Offset, end: Offset) -> None:
        """Nothing in the range is to be delivered any more."""
        before = len(self._keyless) + self._waiting_count
        self._keyless.remove_range(start, end)
        self._held.remove_range(start, end)
        for offset in [offset for offset in self._blocked if start <= offset < end]:
            del self._blocked[offset]
        for number, key in list(self._queued.items()):
            kept = deque(offset for offset in key.waiting if not start <= offset < end)
            self._waiting_count -= len(key.waiting) - len(kept)
            key.waiting = kept
            if key.rescan_from is not None and start <= key.rescan_from < end:
                key.rescan_from = end if end < self.next_offset else None
                self.progress += 1
            self._settle(number, key)
        self.progress += before - len(self._keyless) - self._waiting_count

    def _is_open(self, key: Key, consumer: Credit) -> bool:
        """Whether `consumer` may get the next message of the key."""
        if not self._is_free(key) or (key.outstanding and key.owner is not consumer):
            return False
        if key.waiting and key.waiting[0] in self._aversions.of(consumer):
            return False
        # One without attempts left waits until it is first, and is forwarded then.
        return not (key.outstanding and key.waiting and self._exhausted(key.waiting[0]))

    def _is_free(self, key: Key) -> bool:
        """Whether somebody may get the next message of the key."""
        if key.waiting and key.waiting[0] in self._blocked:
            return False
        if key.waiting and key.outstanding and key.waiting[0] < key.outstanding[-1]:
            return False
        return not key.outstanding or (key.owner is not None and not self.strict)

    def _fresh(self, cursor: Openness, end: Offset) -> Iterator[Range]:
        fresh = without(cursor.unacked_ranges(self.next_offset, end), self._skipped)
        return without(fresh, self._met) if self._met else fresh

    def _take_keyless(self, views: Sequence[Slots], packer: Packer, consumer: Credit) -> None:
        if not self._keyless:
            return
        taken = BitMap64()
        for offset in self._keyless - self._aversions.of(consumer):
            slots = _find(views, offset)
            if self._exhausted(offset):
                self.to_forward.append(offset)
            elif slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            taken.add(offset)
        self._keyless -= taken

    def _take_waiting(
        self,
        number: int,
        key: Key,
        cursor: Openness,
        views: Sequence[Slots],
        packer: Packer,
        consumer: Credit,
    ) -> bool:
        """Hand out what may go of one key; whether the key has more after that."""
        before = packer.count
        while self._is_open(key, consumer):
            if not key.waiting:
                self._rescan(number, key, cursor, views)
                if key.waiting:
                    # What was found may be held back itself.
                    continue
            if not key.waiting or self._exhausted(key.waiting[0]):
                break
            offset = key.waiting[0]
            slots = _find(views, offset)
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            self._pop_waiting(key)
            self._hand_out(number, key, offset, consumer)
        self._settle(number, key)
        return packer.count > before and number in self._queued

    def _take_fresh(
        self,
        cursor: Openness,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer | None,
        consumer: Credit | None,
    ) -> None:
        """Meet fresh messages in order; hand out what may go, let the rest wait."""
        before = self.next_offset
        for slots in views:
            stop = min(end, slots.end_offset)
            first, _ = next(self._fresh(cursor, end), (end, end))
            if slots.base_offset <= first < stop:
                fresh = list(self._fresh(cursor, stop))
                self.next_offset = self._meet_all(fresh, stop, slots, packer, consumer)
                if self.next_offset < stop:
                    break
        self.progress += self.next_offset - before
        if self._met and self._met.max() < self.next_offset:
            self._met.clear()

    def _meet_all(
        self,
        fresh: Sequence[Range],
        stop: Offset,
        slots: Slots,
        packer: Packer | None,
        consumer: Credit | None,
    ) -> Offset:
        """Meet fresh messages of one view; return the first that did not fit, or `stop`."""
        hashes, base = slots.key_hashes, slots.base_offset
        for range_start, range_end in fresh:
            for offset in range(range_start, range_end):
                number = hashes[offset - base] if hashes is not None else 0
                if not self._meet(offset, number, slots, packer, consumer):
                    return offset
        return stop

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
            self._place(offset, number)
            return True
        if number == 0:
            return self._meet_keyless(offset, slots, packer, consumer)
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = Key()
        is_blocked = offset in self._blocked
        if is_blocked:
            self._blocked[offset] = number
        elif packer is not None and consumer is not None and self._is_next(key, consumer, offset):
            if packer.add(slots, offset, offset + 1) == offset:
                self._settle(number, key)
                return False
            self._hand_out(number, key, offset, consumer)
            return True
        self._let_wait(number, key, offset)
        self._settle(number, key)
        return True

    def _meet_keyless(
        self, offset: Offset, slots: Slots, packer: Packer | None, consumer: Credit | None
    ) -> bool:
        if offset in self._blocked:
            # It will be released as what it is.
            del self._blocked[offset]
        elif self._exhausted(offset):
            self.to_forward.append(offset)
        elif packer is None or offset in self._aversions.of(consumer):
            self._keyless.add(offset)
        else:
            return packer.add(slots, offset, offset + 1) > offset
        return True

    def _place(self, offset: Offset, number: int) -> None:
        """A lease that outlived the restart has found its key."""
        self._held.discard(offset)
        if number == 0:
            return
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = Key()
            key.is_restored = True
        if key.is_restored and not key.waiting and key.rescan_from is None:
            self._hand_out(number, key, offset, None)
        else:
            # One before it failed before either of them was met.
            self.recalled.add(offset)
            self._let_wait(number, key, offset)

    def _is_next(self, key: Key, consumer: Credit, offset: Offset) -> bool:
        if key.waiting or key.rescan_from is not None or self._exhausted(offset):
            return False
        if key.outstanding and key.outstanding[-1] > offset:
            return False
        return offset not in self._aversions.of(consumer) and self._is_open(key, consumer)

    def _let_wait(self, number: int, key: Key, offset: Offset) -> None:
        self._queued[number] = key
        if key.rescan_from is not None:
            return
        if self._waiting_count >= limits.WAITING_MAX or len(key.waiting) >= limits.KEY_WAITING_MAX:
            key.rescan_from = offset
            return
        key.waiting.append(offset)
        self._waiting_count += 1

    def _rescan(self, number: int, key: Key, cursor: Openness, views: Sequence[Slots]) -> None:
        """Refill the waiting list of an overflowed key from the slots of `views`."""
        has_room = self._waiting_count < limits.WAITING_MAX
        room = limits.KEY_WAITING_MAX if has_room else 1
        for slots in views:
            if key.rescan_from is None or len(key.waiting) >= room:
                return
            # What is acknowledged may be gone from the log.
            start = max(key.rescan_from, cursor.floor)
            stop = min(slots.end_offset, self.next_offset)
            if not slots.base_offset <= start < stop:
                continue
            hashes = slots.key_hashes or ()
            self.progress += 1
            key.rescan_from = stop if stop < self.next_offset else None
            for offset in range(start, stop):
                index = offset - slots.base_offset
                if index >= len(hashes) or hashes[index] != number or offset in self._key_of:
                    continue
                if offset not in cursor:
                    if len(key.waiting) >= room:
                        key.rescan_from = offset
                        return
                    key.waiting.append(offset)
                    self._waiting_count += 1

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
            offset = key.waiting[0] if key.waiting else None
            if offset is not None and offset not in self._blocked and self._exhausted(offset):
                self._pop_waiting(key)
                self._hand_out(number, key, offset, None)
                self.to_forward.append(offset)
        if not key.waiting and key.rescan_from is None:
            self._queued.pop(number, None)
            if not key.outstanding:
                self._keys.pop(number, None)


def _find(views: Sequence[Slots], offset: Offset) -> Slots | None:
    return next((v for v in views if v.base_offset <= offset < v.end_offset), None)
