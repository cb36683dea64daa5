"""The dedup ids that were published to one partition lately. Hard state.

A publisher that does not know whether its publish arrived sends it again with the same
`fanlog-dedup-id`, and gets the id of the message that is there already. Ids are kept as 128-bit
hashes, for a window of time, and at most so many: beyond that the oldest are forgotten early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from fanlog.core.records import DedupEntry, digest_of
from fanlog.model.resources import Offset, PartitionId


@dataclass(frozen=True, slots=True)
class Admission:
    """Which messages of one publish are new, and which repeat an earlier one."""

    #: Offset of each message: its own, or that of the one it repeats.
    offsets: Sequence[Offset]
    #: Indexes of the messages that are new, and so are to be appended.
    fresh: Sequence[int]
    records: Sequence[DedupEntry]


class DedupWindow:
    """The dedup ids of one partition. Not safe to share between threads."""

    __slots__ = ("_seen", "partition")

    def __init__(self, partition: PartitionId) -> None:
        self.partition = partition
        #: By digest: the message's offset and when the id is forgotten, the earliest first.
        self._seen: dict[bytes, tuple[Offset, float]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def admit(
        self,
        dedup_ids: Sequence[str],
        *,
        base_offset: Offset,
        now: float,
        window_s: float,
        most: int,
    ) -> Admission:
        """Decide which messages of a publish are new; these get the offsets from a base on.

        An empty id is always new. Messages of one publish may repeat each other.
        """
        offsets: list[Offset] = []
        fresh: list[int] = []
        entries: dict[bytes, DedupEntry] = {}
        for index, dedup_id in enumerate(dedup_ids):
            offset = base_offset + len(fresh)
            if dedup_id:
                digest = digest_of(dedup_id)
                known = self._seen.get(digest)
                if digest in entries:
                    offset = entries[digest].offset or 0
                elif known is not None and known[1] > now:
                    offset = known[0]
                else:
                    entries[digest] = DedupEntry(self.partition, digest, offset, now + window_s)
            if offset == base_offset + len(fresh):
                fresh.append(index)
            offsets.append(offset)
        excess = len(self._seen) + len(entries) - most
        records = [*self._forget(self._oldest(excess, entries)), *entries.values()]
        return Admission(offsets, fresh, records)

    def expire(self, now: float, *, limit: int) -> list[DedupEntry]:
        """The records that forget ids at the end of their window."""
        over = (digest for digest, (_, expires_s) in self._seen.items() if expires_s <= now)
        return self._forget(islice(over, limit))

    def forget(self, *, limit: int) -> list[DedupEntry]:
        """The records that forget all ids, a part at a time, once the partition is deleted."""
        return self._forget(islice(self._seen, limit))

    def apply(self, entry: DedupEntry) -> None:
        # At the end, also if it was there before: its window begins anew, and the order is that
        # of the ends of windows.
        self._seen.pop(entry.digest, None)
        if entry.offset is not None:
            self._seen[entry.digest] = (entry.offset, entry.expires_s)

    def sort(self) -> None:
        """Bring ids into the order of their ends, after recovery."""
        self._seen = dict(sorted(self._seen.items(), key=lambda item: item[1][1]))

    def _oldest(self, count: int, but: dict[bytes, DedupEntry]) -> Iterator[bytes]:
        return islice((digest for digest in self._seen if digest not in but), max(0, count))

    def _forget(self, digests: Iterator[bytes]) -> list[DedupEntry]:
        return [DedupEntry(self.partition, digest, None, 0.0) for digest in digests]
