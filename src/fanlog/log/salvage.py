"""Make a new data folder from the readable parts of a damaged one.

Where LMDB's pages are sound, the trees are walked, and only values that fail their checksum are
left behind. Where they are not, the file is searched for batches and envelopes, which describe
themselves.

A salvaged log:

- Every surviving message keeps its partition and offset, and so its message id.
- Offsets that are lost stay unused: reading them gives `Damaged`, and their neighbours are served.
  Lost offsets before a partition's first surviving batch are trimmed.
- The commit index is made anew from the batches; the identity is kept if it is readable.
- A state record that fails its checksum is replaced by the newest older copy found in the file, if
  any, and the report names it.
- Files that the state relies on are there, too, if they were.

A search may bring back more than was there: a record that was deleted, or a commit that never
finished, as long as its page was not used again. Of two versions the later commit wins.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

import lmdb

from fanlog.log import batch as codec
from fanlog.log import envelope, folder, stored_batches
from fanlog.log.api import KEY_BYTES_MAX, Bounds, Damaged
from fanlog.log.batch import BatchDamaged
from fanlog.log.doctor import InspectState, examine
from fanlog.log.envelope import EnvelopeDamaged, Kind, Record
from fanlog.log.folder import FolderFacts, PartitionRow, Store
from fanlog.log.report import FolderReport
from fanlog.log.side_files import SideFiles, copy_files
from fanlog.model.resources import Offset, PartitionId

_MAGICS = re.compile(re.escape(codec.MAGIC) + b"|" + re.escape(envelope.MAGIC))

#: Bytes written by one transaction of the new folder.
_SLICE_BYTES = 64 * 1024 * 1024

_IDENTITY_BYTES = 16


class _Place(NamedTuple):
    """A sound batch somewhere in the old folder. Sorts by how new it is."""

    sequence: int
    publish_time_ns: int
    partition: PartitionId
    base_offset: Offset
    end_offset: Offset
    #: Where it lies in the data file, or -1 when it is reached by its key.
    file_position: int
    value_bytes: int


class _Finds:
    """The finds of a search: where batches are, and the newest version of each record."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.records: dict[tuple[Kind, bytes], Record] = {}

    def add_record(self, record: Record) -> None:
        key = (record.kind, record.key)
        other = self.records.get(key)
        if other is None or _age(other) <= _age(record):
            self.records[key] = record


def salvage(
    data_dir: Path,
    out_dir: Path,
    *,
    inspect_state: InspectState | None = None,
    beside: SideFiles | None = None,
) -> FolderReport:
    """Write the readable parts of `data_dir` to `out_dir`; `data_dir` itself is not changed.

    With it go the files that the state found relies on. The report is of the new folder, with the
    losses on the way first. Durable on return.

    Raises:
        ConfigError: There is no data folder, or `out_dir` is not empty.
        DataFolderInUse: A broker is using `data_dir`.
        DiskFull: No room for the new folder.
    """
    folder.refuse_cache(data_dir)
    folder.require(data_dir)
    folder.require_empty(out_dir)
    losses = FolderReport(data_dir=out_dir)
    try:
        with folder.hold(data_dir), _map_file(data_dir / folder.DATA_NAME) as content:
            if problems := folder.page_problems(data_dir):
                losses.add("warning", f"LMDB's pages are damaged ({problems[0]}): file searched")
                _search_and_build(content, out_dir, losses)
            else:
                _walk_and_build(data_dir, content, out_dir, losses)
            if beside is not None:
                _take_along(data_dir, out_dir, beside, losses)
    except lmdb.Error as error:
        raise folder.write_error(error, f"the new data folder {out_dir}", out_dir) from error
    report = examine(out_dir, inspect_state=inspect_state)
    report.findings[:0] = losses.findings
    report.more_findings_count += losses.more_findings_count
    return report


def _take_along(data_dir: Path, out_dir: Path, beside: SideFiles, report: FolderReport) -> None:
    store = folder.open_store(out_dir, readonly=True)
    try:
        with store.env.begin(buffers=True) as txn:
            names = beside.names(store, txn)
    finally:
        store.close()
    with ExitStack() as stack:
        found: dict[str, BinaryIO] = {}
        missing: list[str] = []
        for name in names:
            try:
                found[name] = stack.enter_context((data_dir / beside.folder / name).open("rb"))
            except OSError:
                missing.append(name)
        try:
            copy_files(found, out_dir / beside.folder)
        except OSError as error:
            raise folder.write_error(error, f"the new data folder {out_dir}", out_dir) from error
    beside.report_missing(missing, report)


@contextmanager
def _map_file(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def _search_and_build(content: mmap.mmap, out_dir: Path, report: FolderReport) -> None:
    finds = _search(content)

    def read(place: _Place) -> bytes:
        return content[place.file_position : place.file_position + place.value_bytes]

    with _Builder(out_dir) as builder:
        for place in _without_overlaps(finds.places, finds.records):
            builder.add_batch(place, read(place))
        builder.finish(finds, report)


def _search(content: mmap.mmap) -> _Finds:
    """Every sound batch and envelope in the file, on any page."""
    finds = _Finds()
    searched_to = 0
    with memoryview(content) as view:
        for match in _MAGICS.finditer(content):
            position = match.start()
            # A message may hold anything, a stored batch included: look between, not inside.
            if position < searched_to:
                continue
            if match.group() == codec.MAGIC:
                searched_to = max(searched_to, _search_batch(view, position, finds))
            else:
                searched_to = max(searched_to, _search_record(view, position, finds))
    return finds


def _search_batch(view: memoryview, position: int, finds: _Finds) -> int:
    """Take up the batch that begins here, if it is one; returns where it ends."""
    try:
        header = codec.decode_header(view[position : position + codec.HEADER_BYTES])
        end = position + header.value_bytes
        codec.check_slots(codec.decode(view[position:end]))
    except BatchDamaged:
        return position
    finds.places.append(_place(header, position))
    return end


def _search_record(view: memoryview, position: int, finds: _Finds) -> int:
    try:
        record = envelope.decode(view[position:])
    except EnvelopeDamaged:
        return position
    if not _can_be_ours(record):
        return position
    finds.add_record(record)
    return position + record.value_bytes


def _can_be_ours(record: Record) -> bool:
    """Whether a record has the shape of its kind: a publisher may have written it in a message."""
    if record.kind is Kind.PARTITION:
        try:
            folder.parse_partition_key(record.key)
            folder.parse_row(record.payload)
        except struct.error:
            return False
    is_identity = record.kind is Kind.META and record.key == folder.META_IDENTITY
    if is_identity and len(record.payload) != _IDENTITY_BYTES:
        return False
    return len(record.key) <= KEY_BYTES_MAX


def _without_overlaps(
    places: Iterable[_Place], records: dict[tuple[Kind, bytes], Record]
) -> Iterator[_Place]:
    """The batches to keep, in order of partition and offset: the newest where two overlap."""
    by_partition = sorted(places, key=lambda place: (place.partition, place.base_offset))
    for partition, group in groupby(by_partition, key=lambda place: place.partition):
        row = _row_of(records, partition)
        if row is not None and row.is_dropped:
            continue
        start = 0 if row is None else row.start
        kept: list[_Place] = []
        for place in group:
            if place.end_offset <= start:
                continue
            while kept and kept[-1].end_offset > place.base_offset and kept[-1] < place:
                kept.pop()
            if not kept or kept[-1].end_offset <= place.base_offset:
                kept.append(place)
        yield from kept


def _walk_and_build(
    data_dir: Path, content: mmap.mmap, out_dir: Path, report: FolderReport
) -> None:
    store = folder.open_store(data_dir, readonly=True)
    try:
        with store.env.begin(buffers=True) as txn, _Builder(out_dir) as builder:
            finds, damaged = _walk_records(store, txn)
            if damaged:
                _restore_older(content, finds, damaged, report)
            with txn.cursor(store.batches) as at:
                for key, value in at:
                    if len(key) != folder.BATCH_KEY_BYTES:
                        report.add("warning", f"lost: a batch under the key {key.hex()}: damaged")
                        continue
                    row = _row_of(finds.records, folder.parse_batch_key(key)[0])
                    place = _sound_batch(key, value, row, report)
                    if place is not None:
                        builder.add_batch(place, bytes(value))
            builder.finish(finds, report)
    finally:
        store.close()


def _sound_batch(
    key: memoryview, value: memoryview, row: PartitionRow | None, report: FolderReport
) -> _Place | None:
    """Describe the batch under `key`; None if it is damaged or trimmed."""
    partition, base_offset = folder.parse_batch_key(key)
    if row is not None and row.is_dropped:
        return None
    batch = stored_batches.load(partition, base_offset, base_offset + 1, value)
    if isinstance(batch, Damaged):
        where = f"partition {partition} from offset {base_offset} on"
        report.add("warning", f"lost: {where}: {batch.reason}")
        return None
    if row is not None and batch.end_offset <= row.start:
        return None
    return _place(codec.decode_header(value), -1)


def _walk_records(
    store: Store, txn: lmdb.Transaction[memoryview]
) -> tuple[_Finds, list[tuple[Kind, bytes, str]]]:
    finds = _Finds()
    damaged = []
    databases = {Kind.META: store.meta, Kind.PARTITION: store.partitions, Kind.STATE: store.state}
    for kind, database in databases.items():
        with txn.cursor(database) as at:
            for key, value in at:
                try:
                    folder.open_envelope(kind, key, value)
                except EnvelopeDamaged as error:
                    damaged.append((kind, bytes(key), str(error)))
                else:
                    finds.add_record(envelope.decode(value))
    return finds, damaged


def _restore_older(
    content: mmap.mmap, finds: _Finds, damaged: list[tuple[Kind, bytes, str]], report: FolderReport
) -> None:
    """For records that fail their checksum, use the newest sound copy left in the file."""
    older = _search(content).records
    for kind, key, reason in damaged:
        name = f"the {kind.name.lower()} record under the key {key.hex()}"
        if (record := older.get((kind, key))) is None:
            report.add("warning", f"lost: {name}: {reason}")
        else:
            finds.add_record(record)
            text = f"{name} ({reason}) is replaced by that of commit {record.sequence}"
            report.add("warning", text)


class _Builder:
    """Writes a new data folder, in transactions of a bounded size."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir
        self._bounds: dict[PartitionId, Bounds] = {}
        self._last = (0, 0)
        self._pending_bytes = 0
        self._lock = folder.take_lock(out_dir)
        self._store = folder.open_store(out_dir)
        self._txn = self._store.env.begin(write=True, buffers=True)

    def __enter__(self) -> _Builder:
        return self

    def __exit__(self, *error: object) -> None:
        self._txn.abort()
        self._store.close()
        os.close(self._lock)

    def add_batch(self, place: _Place, value: bytes) -> None:
        """Store a batch. In order of partition and offset."""
        partition, base_offset = place.partition, place.base_offset
        store = self._store
        self._txn.put(folder.batch_key(partition, base_offset), value, db=store.batches)
        key = folder.commit_key(place.sequence, partition, base_offset)
        self._txn.put(key, b"", db=store.commits)
        known = self._bounds.get(partition)
        start = base_offset if known is None else known.start
        self._bounds[partition] = Bounds(start, place.end_offset)
        self._last = max(self._last, (place.sequence, place.publish_time_ns))
        self._pending_bytes += len(value)
        if self._pending_bytes >= _SLICE_BYTES:
            self._txn.commit()
            self._txn = store.env.begin(write=True, buffers=True)
            self._pending_bytes = 0

    def finish(self, finds: _Finds, report: FolderReport) -> None:
        """Store the records and the log's own facts, and make everything durable."""
        last = max([self._last, *map(_age, finds.records.values())])
        self._put_rows(finds, last, report)
        for record in finds.records.values():
            if record.kind is Kind.STATE:
                value = _wrap(Kind.STATE, record.key, record.payload, _age(record))
                self._txn.put(record.key, value, db=self._store.state)
        identity = finds.records.get((Kind.META, folder.META_IDENTITY))
        if identity is None:
            report.add("warning", "lost: the log's identity; it has a new one")
        known = os.urandom(_IDENTITY_BYTES) if identity is None else identity.payload
        facts = FolderFacts(known, *last, True)
        folder.write_facts(self._store, self._txn, facts)
        self._txn.commit()
        folder.sync_folder(self._out_dir)
        self._txn = self._store.env.begin(write=True, buffers=True)

    def _put_rows(self, finds: _Finds, last: tuple[int, int], report: FolderReport) -> None:
        rows = {
            folder.parse_partition_key(key): folder.parse_row(record.payload)
            for (kind, key), record in finds.records.items()
            if kind is Kind.PARTITION
        }
        for partition in sorted(self._bounds.keys() | rows.keys()):
            row = rows.get(partition)
            if row is not None and row.is_dropped:
                continue
            row = self._row(partition, row, report)
            key = folder.partition_key(partition)
            value = _wrap(Kind.PARTITION, key, folder.pack_row(row), last)
            self._txn.put(key, value, db=self._store.partitions)

    def _row(
        self, partition: PartitionId, row: PartitionRow | None, report: FolderReport
    ) -> PartitionRow:
        found = self._bounds.get(partition)
        if row is None:
            assert found is not None
            report.add("warning", f"the row of partition {partition} is made from its batches")
            return PartitionRow(found.start, found.end, is_dropped=False)
        start, end = row.start, row.end if found is None else max(row.end, found.end)
        first = end if found is None else found.start
        if first > start:
            text = f"lost: partition {partition} offsets {start} to {first - 1}"
            report.add("warning", f"{text}: the partition now starts at {first}")
        return PartitionRow(max(start, first), end, is_dropped=False)


def _place(header: codec.Header, file_position: int) -> _Place:
    return _Place(
        header.sequence,
        header.publish_time_ns,
        header.partition,
        header.base_offset,
        header.end_offset,
        file_position,
        header.value_bytes,
    )


def _age(record: Record) -> tuple[int, int]:
    return record.sequence, record.publish_time_ns


def _row_of(
    records: dict[tuple[Kind, bytes], Record], partition: PartitionId
) -> PartitionRow | None:
    record = records.get((Kind.PARTITION, folder.partition_key(partition)))
    return None if record is None else folder.parse_row(record.payload)


def _wrap(kind: Kind, key: bytes, payload: bytes, age: tuple[int, int]) -> bytes:
    return envelope.encode(kind, key, payload, sequence=age[0], publish_time_ns=age[1])
