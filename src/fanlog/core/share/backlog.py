"""The backlog of a share: which messages could be delivered next. Soft state.

An offset is in the backlog while it is unacknowledged and neither leased nor delayed. `Backlog` is
everything that a share asks of it. `fanlog.core.share.unordered` has the backlog for shares where
order does not matter, `fanlog.core.share.ordered` the one that keeps ordering keys in order; the
share does not know which of them it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from pyroaring import BitMap64

from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Credit
from fanlog.core.places import Places
from fanlog.core.share.packer import OffsetSet, Packer, Slots
from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model.resources import Offset, Ordering


class Openness(Protocol):
    """The offsets that are open to be handed out: a cursor, or less than that."""

    @property
    def floor(self) -> Offset: ...
    def __contains__(self, offset: Offset) -> bool: ...
    def acknowledged(self, offsets: BitMap64) -> BitMap64: ...
    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]: ...


class AgendaView(Protocol):
    """What messages of a partition ask for, as far as a backlog is to know."""

    @property
    def pending(self) -> BitMap64: ...
    @property
    def urgent(self) -> Mapping[int, BitMap64]: ...
    @property
    def places(self) -> Places: ...
    @property
    def tenants(self) -> Mapping[int, BitMap64]: ...
    @property
    def tenanted(self) -> BitMap64: ...


class Exhausted(OffsetSet, Protocol):
    """The messages without attempts left: they are forwarded and not delivered."""

    @property
    def may_exist(self) -> bool:
        """Whether there can be any: a cheap look before the look at each message."""
        ...


class Backlog(Protocol):
    """The messages of one share that could be delivered next. Not safe to share between threads.

    Methods that are about order do nothing, or the trivial thing, in a backlog without order.
    """

    #: What messages of the partition ask for; None when none does. Pending ones are left out.
    agenda: AgendaView | None

    @property
    def next_offset(self) -> Offset:
        """First offset that was not met since the start or the last seek."""
        ...

    @property
    def reached(self) -> Offset:
        """End of what was met; behind `next_offset` where key slots stand at different places."""
        ...

    @property
    def progress(self) -> int:
        """Grows whenever messages were met or left out, whether or not any was handed out.

        A share that handed out nothing and progressed is to be asked again.
        """
        ...

    @property
    def to_forward(self) -> list[Offset]:
        """Messages found to have no attempts left. The share takes them, and clears the list."""
        ...

    @property
    def recalled(self) -> BitMap64:
        """Messages behind one of their key that failed. The share ends leases of them."""
        ...

    @property
    def unplaced(self) -> BitMap64:
        """Leases of before a restart whose keys are not known yet; `scan` finds them."""
        ...

    @property
    def outstanding(self) -> BitMap64:
        """Messages whose key they hold up: leased, forwarded, or acknowledged early."""
        ...

    def behind(self, offset: Offset, key_hash: int) -> Offset | None:
        """The earlier message of its key that a message waits for, if there is one."""
        ...

    def configure(self, ordering: Ordering) -> None:
        """Take the ordering of changed settings; whether there is order never changes."""
        ...

    # Delivery.

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        """Whether some message below `end` may be delivered to some consumer."""
        ...

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        """Ranges worth reading for the next answer, about `limit` offsets.

        They ascend, but for those of urgent messages, which come first.
        """
        ...

    def take(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        """Move messages of `views` that fit the answer from the backlog into `packer`."""
        ...

    @property
    def next_up(self) -> Sequence[Offset]:
        """Messages before `next_offset` that were not met yet: to be read for a scan, too."""
        ...

    def scan(self, cursor: Openness, end: Offset, views: Sequence[Slots]) -> None:
        """Meet the messages of `views` without delivering any, to learn the keys of leases."""
        ...

    def skip(self, start: Offset, end: Offset) -> None:
        """Leave out offsets that cannot be read, until the next start."""
        ...

    def abandon(self, consumer: Credit) -> None:
        """Forget a consumer that is gone. Its leases run on."""
        ...

    # Acknowledgements.

    def acknowledge(self, offsets: BitMap64) -> BitMap64:
        """Note that outstanding `offsets` are acknowledged; return those that are now hard."""
        ...

    def would_be_early(self, acked: Sequence[BitMap64]) -> BitMap64:
        """The offsets of `acked` that an earlier message of their key, not in `acked`, precedes."""
        ...

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        """The offsets among `offsets`, none of them leased, that an old ack id acknowledges."""
        ...

    def discard(self, offsets: BitMap64) -> None:
        """Take out offsets that were acknowledged late."""
        ...

    # Messages that come back.

    def recall(self, offsets: BitMap64, delay: Callable[[Offset], bool]) -> BitMap64:
        """Let outstanding messages wait again, with all later ones of their keys (`recalled`).

        `delay` is asked once for the first message of each key: whether it has to wait for a
        back-off. Until that is over (`release`) its key is held up. Returns the messages without
        a key: the share delays, forwards or releases each of them.
        """
        ...

    def release(self, offsets: BitMap64) -> None:
        """Offer messages again: they have no key, or their back-off is over."""
        ...

    def let_go(self, loose: BitMap64, keyed: BitMap64) -> None:
        """Offer messages that waited for others; `keyed` wait in the list of their key still."""
        ...

    def come_due(
        self, offsets: BitMap64, keyed: BitMap64, busy: BitMap64, delayed: BitMap64
    ) -> None:
        """Offer messages that are pending no longer; `keyed` are those with an ordering key.

        None of them is `busy` or `delayed`, which other messages may be.
        """
        ...

    def take_places(
        self, anchor: Offset, offsets: Sequence[Offset], busy: BitMap64, delayed: BitMap64
    ) -> None:
        """Offer open messages that were held back behind a gap, in their order, behind `anchor`."""
        ...

    def reopen(
        self, opened: BitMap64, busy: BitMap64, delayed: BitMap64, *, is_filtered: bool
    ) -> None:
        """Offer messages that were acknowledged; not those that are `busy` or `delayed`."""
        ...

    # Messages that leave without an acknowledgement.

    def close(self, floor: Offset) -> BitMap64:
        """Forget everything below `floor`; return early acknowledgements that become hard."""
        ...

    def drop(self, offsets: BitMap64) -> BitMap64:
        """Forget `offsets`; return early acknowledgements that become hard."""
        ...


def without(ranges: Iterator[Range], held: BitMap64) -> Iterator[Range]:
    """The parts of `ranges` that are outside `held`."""
    if not held:
        yield from ranges
        return
    last = held.max()
    for start, stop in ranges:
        if start <= last:
            for hole in held.iter_equal_or_larger(start):
                if hole >= stop:
                    break
                if hole > start:
                    yield start, hole
                start = hole + 1
        if start < stop:
            yield start, stop


def find(views: Sequence[Slots], offset: Offset) -> Slots | None:
    """The view that has an offset."""
    return next((v for v in views if v.base_offset <= offset < v.end_offset), None)


def outside(ranges: Iterator[Range], held: BitMap64) -> Iterator[Range]:
    """As `without`, for a million held offsets: a step costs a range, not an offset."""
    if not held:
        yield from ranges
        return
    first, last = held.min(), held.max()
    for start, stop in ranges:
        if stop <= first or start > last:
            yield start, stop
            continue
        # In portions: the first few are often all that is asked for.
        for low in range(start, stop, CURSOR_CHUNK_OFFSETS):
            high = min(stop, low + CURSOR_CHUNK_OFFSETS)
            yield from runs(BitMap64(range(low, high)) - held)
