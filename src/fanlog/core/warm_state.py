"""Hard state that goes along with a log which another broker writes.

It is loaded once, and brought up to each commit by the keys that the commit wrote. Records of most
kinds say by themselves what is under their key, whatever was there before; so the state after any
commits depends on the last value of each key alone, and is the one that a load of the log would
make. That holds for the kinds in `_BY_KEY`, in the cases that `_is_by_key` lets through. After any
other change, such as one of the catalog, the state is *stale*: it is to be loaded anew.

Pure, as all of the core. Not safe to share between threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from fanlog.core import records as codec
from fanlog.core.hard_state import HardState
from fanlog.core.records import (
    Activity,
    AddressRecord,
    AgendaChunk,
    ArchivedRecord,
    AttemptsChunk,
    Counters,
    CursorChunk,
    CursorHead,
    DedupEntry,
    DropRecord,
    ExportRecord,
    ForgottenRecord,
    LakeRecord,
    LeaseHeld,
    LostRecord,
    NumbersRecord,
    ProgressRecord,
    PublisherRecord,
    Record,
    ReopenedChunk,
    RequestRecord,
    TenantChunk,
    Trimmed,
)
from fanlog.core.records.shares import ShareRecord
from fanlog.core.share import Share
from fanlog.model.resources import PartitionId, SubscriptionId

#: A key, and the value that is under it now; None for a key that is gone.
StateChange = tuple[bytes, bytes | None]

_OF_SHARES = (CursorHead, CursorChunk, ReopenedChunk, AttemptsChunk, LeaseHeld)
_BY_KEY: tuple[type[Record], ...] = (
    *_OF_SHARES,
    Activity,
    AddressRecord,
    AgendaChunk,
    ArchivedRecord,
    Counters,
    DedupEntry,
    DropRecord,
    ExportRecord,
    ForgottenRecord,
    LakeRecord,
    LostRecord,
    NumbersRecord,
    ProgressRecord,
    PublisherRecord,
    RequestRecord,
    TenantChunk,
    Trimmed,
)
_KINDS = {kind.KIND: kind for kind in _BY_KEY}


class WarmState:
    """One load of hard state, and the changes since. `take` ends it.

    Args:
        state: All keys and values of the log, in the order of their keys.
        open_secrets: See `HardState.load`.

    Raises:
        DataLoss: A record cannot be read.
    """

    def __init__(
        self,
        state: Iterable[tuple[bytes, bytes]],
        open_secrets: Callable[[Record], Record] | None = None,
    ) -> None:
        self._hard = HardState.load(state, open_secrets=open_secrets)
        #: Why it has to be loaded anew; empty while it says what the log does.
        self.stale = ""
        #: Changed since their soft state was made.
        self._touched: dict[tuple[int, PartitionId], Share] = {}
        self._dedups: set[PartitionId] = set()
        self._publishers: set[PartitionId] = set()
        self._has_requests = False

    def change(self, changes: Iterable[StateChange]) -> None:
        """Bring the state up to one or more commits, given the last value of each key."""
        if self.stale:
            return
        try:
            self._apply(self._decode(changes))
        except Exception as error:
            # It was let through and could not be applied: the log itself may be as it should.
            self.stale = f"a change could not be applied: {error!r}"

    def settle(self) -> None:
        """Make soft state anew where hard state changed, so that `take` has less to do."""
        for share in self._touched.values():
            share.start()
        self._touched.clear()

    def take(self, latest_deadline_s: float = math.inf) -> HardState:
        """The state as a load would make it now; this object is of no use afterwards."""
        assert not self.stale
        for share in self._hard.shares():
            if share.state.held:
                self._touched[share.settings.id, share.partition] = share
        for share in self._touched.values():
            share.start(latest_deadline_s)
        for window in self._hard.dedup_windows():
            if window.partition in self._dedups:
                window.sort()
        if self._has_requests:
            self._hard.requests.sort()
        for publishers in self._hard.publishers:
            if publishers.partition in self._publishers:
                publishers.sort()
        return self._hard

    def _decode(self, changes: Iterable[StateChange]) -> list[Record]:
        """The records of changes, in the order in which a load applies them."""
        found: list[Record] = []
        for key, value in sorted(changes):
            kind = _KINDS.get(key[:1])
            if kind is None:
                self.stale = f"records of the kind {key[:1]!r} changed"
                return []
            record = kind.removal(key) if value is None else codec.decode(key, value)
            if not self._is_by_key(record):
                self.stale = f"a {type(record).__name__} changed in a way that is not by its key"
                return []
            found.append(record)
        found.sort(key=_phase)
        return found

    def _is_by_key(self, record: Record) -> bool:
        match record:
            case CursorHead(owner=owner, partition=partition, floor=floor):
                # Topics join patterns and leave them with a head, and shares come and go with it.
                share = self._hard.share(SubscriptionId(owner), partition)
                return share is not None and floor is not None
            case PublisherRecord(epoch=epoch):
                return epoch is not None
            case NumbersRecord(partition=partition, digest=digest, base=base):
                return base is not None or self._hard.publishers.on(partition).knows(digest)
            case ForgottenRecord(count=count):
                return count is not None
            case _:
                return True

    def _apply(self, found: Sequence[Record]) -> None:
        hard = self._hard
        for record in found:
            self._touch(record)
            hard.apply(record)

    def _touch(self, record: Record) -> None:
        """Note what is to be made anew or sorted, before a record is applied."""
        match record:
            case DedupEntry(partition=partition):
                self._dedups.add(partition)
            case RequestRecord():
                self._has_requests = True
            case PublisherRecord() | NumbersRecord() | ForgottenRecord():
                self._publishers.add(record.partition)
            case AddressRecord() | AgendaChunk() | TenantChunk():
                self._touch_all(self._hard.shares_on(record.partition))
            case CursorHead() | CursorChunk() | ReopenedChunk() | AttemptsChunk() | LeaseHeld():
                share = self._share_of(record)
                if share is not None:
                    self._touch_all([share])

    def _share_of(self, record: ShareRecord) -> Share | None:
        return self._hard.share(SubscriptionId(record.owner), record.partition)

    def _touch_all(self, shares: Iterable[Share]) -> None:
        for share in shares:
            self._touched[share.settings.id, share.partition] = share


def _phase(record: Record) -> int:
    match record:
        case CursorHead():
            return 1
        case CursorChunk() | ReopenedChunk() | AttemptsChunk() | LeaseHeld() | Activity():
            return 2
        case _:
            return 0
