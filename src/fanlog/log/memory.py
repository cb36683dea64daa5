"""The reference engine: a log in memory, for tests, demonstrations and `fanlog serve --memory`.

It has the semantics of every other engine and the simplest code that gives them. Batches go through
the same bytes as on disk, so that every batch read back has been encoded, cut, merged and verified.
Nothing survives the process: `features.durable` is False.

A broker inside a program has it keep batches as they come, where nothing is to be cut or merged:
nobody reads their bytes there, so they are encoded when somebody does.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import attrgetter

from fanlog.log import batch as codec
from fanlog.log.api import (
    Append,
    Bounds,
    Commit,
    Damaged,
    Extent,
    Features,
    LogPosition,
    LogStats,
    StoredBatch,
    Trim,
    check_commit,
)
from fanlog.log.batch import Batch, BatchDamaged
from fanlog.log.plain import encode_plain, plain_batch, plain_bytes
from fanlog.model.resources import Offset, PartitionId

#: The room that `stats` reports: memory has no watermark of its own.
_ROOM_BYTES = 1 << 40


class MemoryLog:
    """A `Log` that lives as long as its object.

    Args:
        identity: Sixteen bytes to be known by; random if not given.
        keeps_batches: Whether a batch is encoded only when its bytes are asked for.
    """

    features = Features(durable=False, total_order=True)

    def __init__(self, *, identity: bytes | None = None, keeps_batches: bool = False) -> None:
        #: Held while a commit is applied and while something is read, so that readers on another
        #: thread see whole commits.
        self._lock = threading.Lock()
        self._identity = os.urandom(16) if identity is None else identity
        self._keeps_batches = keeps_batches
        self._last_sequence = 0
        self._last_publish_time_ns = 0
        self._partitions: dict[PartitionId, _Partition] = {}
        self._state: dict[bytes, bytes] = {}
        #: One entry a batch, in commit order; those of trimmed batches go when they are half.
        self._positions: list[LogPosition] = []
        self._stale_positions = 0

    @property
    def identity(self) -> bytes:
        return self._identity

    @property
    def last_sequence(self) -> int:
        return self._last_sequence

    @property
    def last_publish_time_ns(self) -> int:
        return self._last_publish_time_ns

    @property
    def has_garbage(self) -> bool:
        return False

    def prepare(self) -> None:
        pass

    def commit(self, commit: Commit) -> None:
        check_commit(self, commit)
        encoded = [(append, self._encode(commit, append)) for append in commit.appends]
        state = list(commit.state.items())
        with self._lock:
            for append, values in encoded:
                self._append(commit.sequence, append, values)
            for key, value in state:
                if value is None:
                    self._state.pop(key, None)
                else:
                    self._state[key] = value
            for trim in commit.trims:
                self._trim(trim)
            self._last_publish_time_ns = commit.publish_time_ns
            self._last_sequence = commit.sequence

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        found: list[Batch | Damaged] = []
        with self._lock:
            held = self._partitions.get(partition)
            if held is None or offset >= held.end:
                return found
            size_bytes = 0
            first = max(0, held.index_of(max(offset, held.start)))
            for at in range(first, len(held.bases)):
                base_offset = held.bases[at]
                value = held.values[base_offset]
                size_bytes += held.size_bytes(base_offset)
                if found and size_bytes > max_bytes:
                    break
                if isinstance(value, Batch):
                    found.append(value)
                else:
                    found.append(_decode(partition, base_offset, held.end_of(base_offset), value))
                if size_bytes >= max_bytes:
                    break
        return found

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        found: list[StoredBatch | Damaged] = []
        with self._lock:
            held = self._partitions.get(partition)
            if held is None or max(offset, held.start) >= min(end, held.end):
                return found
            size_bytes = 0
            for base_offset in islice(held.bases, held.index_of(max(offset, held.start)), None):
                value = _stored(held.values[base_offset])
                size_bytes += len(value)
                if base_offset >= end or (found and size_bytes > max_bytes):
                    break
                found.append(_verify(partition, base_offset, held.end_of(base_offset), value))
        return found

    def sequence_of(self, partition: PartitionId, offset: Offset) -> int | None:
        with self._lock:
            held = self._partitions.get(partition)
            if held is None or not held.start <= offset < held.end:
                return None
            try:
                value = held.values[held.bases[held.index_of(offset)]]
                if isinstance(value, Batch):
                    return value.sequence
                return codec.decode_header(value).sequence
            except BatchDamaged:
                return None

    def bounds(self, partition: PartitionId) -> Bounds:
        with self._lock:
            held = self._partitions.get(partition)
            return Bounds(0, 0) if held is None else held.bounds

    def partitions(self) -> Mapping[PartitionId, Bounds]:
        with self._lock:
            return {partition: held.bounds for partition, held in self._partitions.items()}

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        with self._lock:
            held = self._partitions.get(partition)
            if held is None:
                return 0
            # Publish times never run backwards.
            at = bisect_left(held.bases, time_ns, key=held.time_ns)
            return max(held.bases[at], held.start) if at < len(held.bases) else held.end

    async def extents(
        self, partition: PartitionId, offset: Offset, *, step_bytes: int, limit: int
    ) -> list[Extent]:
        found: list[Extent] = []
        with self._lock:
            held = self._partitions.get(partition)
            if held is None or max(offset, held.start) >= held.end:
                return found
            first = held.index_of(max(offset, held.start))
            size_bytes, first_ns = 0, 0
            last = min(len(held.bases), first + limit)
            for at in range(first, last):
                base_offset = held.bases[at]
                first_ns = first_ns or held.known_time_ns(base_offset)
                size_bytes += held.size_bytes(base_offset)
                if size_bytes >= step_bytes or at == last - 1:
                    extent = Extent(
                        end_offset=held.end_of(base_offset),
                        size_bytes=size_bytes,
                        first_ns=first_ns,
                        last_ns=held.known_time_ns(base_offset) or first_ns,
                    )
                    found.append(extent)
                    size_bytes, first_ns = 0, 0
        return found

    def state(self) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            items = sorted(self._state.items())
        yield from items

    def positions(self, after: int, *, limit: int) -> list[LogPosition]:
        found: list[LogPosition] = []
        with self._lock:
            first = bisect_right(self._positions, after, key=attrgetter("sequence"))
            live = filter(self._is_live, islice(self._positions, first, None))
            for _, group in groupby(live, key=attrgetter("sequence")):
                commit_positions = list(group)
                if found and len(found) + len(commit_positions) > limit:
                    break
                found += commit_positions
        return found

    def stats(self) -> LogStats:
        return LogStats(file_bytes=0, free_bytes=0, room_bytes=_ROOM_BYTES)

    def close(self) -> None:
        pass

    def _encode(self, commit: Commit, append: Append) -> list[tuple[Offset, bytes | Batch]]:
        place: codec.BatchPlace = {
            "sequence": commit.sequence,
            "topic": append.topic,
            "partition": append.partition,
            "base_offset": append.base_offset,
            "publish_time_ns": commit.publish_time_ns,
        }
        if self._keeps_batches and len(append.bodies) == 1:
            batch = plain_batch(append.bodies[0], **place)
            if batch is not None:
                return [(append.base_offset, batch)]
        return list(codec.encode(append.bodies, **place))

    def _append(
        self, sequence: int, append: Append, values: Iterable[tuple[Offset, bytes | Batch]]
    ) -> None:
        partition = append.partition
        held = self._partitions.get(partition)
        if held is None:
            held = self._partitions[partition] = _Partition()
        for base_offset, value in values:
            held.bases.append(base_offset)
            held.values[base_offset] = value
            if isinstance(value, Batch):
                held.end = value.end_offset
            else:
                held.end = codec.decode_header(value).end_offset
            self._positions.append(
                LogPosition(
                    sequence=sequence,
                    partition=partition,
                    base_offset=base_offset,
                    end_offset=held.end,
                    size_bytes=held.size_bytes(base_offset),
                )
            )

    def _trim(self, trim: Trim) -> None:
        held = self._partitions.get(trim.partition)
        if held is None:
            return
        held.start = held.end if trim.dropped else max(held.start, min(trim.before, held.end))
        self._stale_positions += held.free()
        if trim.dropped:
            del self._partitions[trim.partition]
        if self._stale_positions * 2 > len(self._positions):
            self._positions = list(filter(self._is_live, self._positions))
            self._stale_positions = 0

    def _is_live(self, position: LogPosition) -> bool:
        held = self._partitions.get(position.partition)
        return held is not None and position.base_offset in held.values


class _Partition:
    """One partition's batches, by base offset."""

    def __init__(self) -> None:
        self.start: Offset = 0
        self.end: Offset = 0
        self.bases: list[Offset] = []
        #: As bytes; or as they came, see `plain_batch`.
        self.values: dict[Offset, bytes | Batch] = {}

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.start, self.end)

    def index_of(self, offset: Offset) -> int:
        return bisect_right(self.bases, offset) - 1

    def end_of(self, base_offset: Offset) -> Offset:
        after = bisect_right(self.bases, base_offset)
        return self.bases[after] if after < len(self.bases) else self.end

    def size_bytes(self, base_offset: Offset) -> int:
        """The length of a batch as bytes."""
        value = self.values[base_offset]
        return plain_bytes(value) if isinstance(value, Batch) else len(value)

    def time_ns(self, base_offset: Offset) -> int:
        value = self.values[base_offset]
        if isinstance(value, Batch):
            return value.publish_time_ns
        return codec.decode_header(value).publish_time_ns

    def known_time_ns(self, base_offset: Offset) -> int:
        """As `time_ns`; 0 when the header is not readable."""
        try:
            return self.time_ns(base_offset)
        except BatchDamaged:
            return 0

    def free(self) -> int:
        """Forget the batches that lie below the start; returns how many."""
        kept = len(self.bases) if self.start == self.end else self.index_of(self.start)
        for base_offset in self.bases[:kept]:
            del self.values[base_offset]
        del self.bases[:kept]
        return kept


def _stored(value: bytes | Batch) -> bytes:
    return encode_plain(value) if isinstance(value, Batch) else value


def _decode(
    partition: PartitionId, base_offset: Offset, end_offset: Offset, value: bytes
) -> Batch | Damaged:
    try:
        return codec.decode(value)
    except BatchDamaged as error:
        count = end_offset - base_offset
        return Damaged(partition=partition, base_offset=base_offset, count=count, reason=str(error))


def _verify(
    partition: PartitionId, base_offset: Offset, end_offset: Offset, value: bytes
) -> StoredBatch | Damaged:
    try:
        codec.verify(value)
    except BatchDamaged as error:
        count = end_offset - base_offset
        return Damaged(partition=partition, base_offset=base_offset, count=count, reason=str(error))
    return StoredBatch(
        partition=partition, base_offset=base_offset, end_offset=end_offset, value=value
    )
