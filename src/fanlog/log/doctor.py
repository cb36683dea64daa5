"""Examine a data folder: every checksum, and whether its parts agree. Changes nothing.

It may run while a broker writes to the folder. Then each partition is judged as it is when it is
looked at, batches appended meanwhile are left for the next time, and the pages of LMDB itself are
only judged if the file stands still. Read transactions are renewed often, for an old one would keep
freed pages from being used again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import lt
from pathlib import Path

from fanlog.log import folder, stored_batches
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.log.envelope import EnvelopeDamaged, Kind
from fanlog.log.folder import FolderFacts, PartitionRow, Store
from fanlog.log.report import Finding, FolderReport
from fanlog.model.resources import Offset, PartitionId

#: Judges the hard state as a whole, which the log cannot read: takes every key with its value,
#: returns findings.
InspectState = Callable[[list[tuple[bytes, bytes]]], list[Finding]]

#: A read transaction is renewed after so many bytes, and after so many entries of an index.
_SLICE_BYTES = 16 * 1024 * 1024
_SLICE_ENTRIES = 50_000

_PAGE_PROBLEMS_SHOWN = 20

#: Longer than any file system takes to tell two times of a file apart that are not the same tick's.
_TICK_S = 0.02


def examine(data_dir: Path, *, inspect_state: InspectState | None = None) -> FolderReport:
    """Read all of a data folder, and report its size and every problem found.

    Raises:
        ConfigError: There is no data folder, or another build's format is in it.
        DataLoss: LMDB cannot open it at all.
    """
    place = folder.log_place(data_dir)
    folder.require(place)
    report = FolderReport(data_dir=data_dir)
    report.file_bytes = (place / folder.DATA_NAME).stat().st_size
    if not _examine_pages(place, report):
        return report
    store = folder.open_store(place, readonly=True)
    try:
        _Examination(store, report).run(inspect_state)
    except folder.UNREADABLE as error:
        report.add("error", f"LMDB cannot read its own pages: {error}")
    finally:
        store.close()
    return report


def _examine_pages(data_dir: Path, report: FolderReport) -> bool:
    """Whether LMDB can be trusted to walk its trees."""
    path = data_dir / folder.DATA_NAME
    # Twice: a write within the tick of the one before it leaves the time of the file as it was.
    for pause_s in (_TICK_S, 0.0):
        before = path.stat().st_mtime_ns
        problems = folder.page_problems(data_dir)
        if not problems:
            return True
        time.sleep(pause_s)
        if path.stat().st_mtime_ns != before:
            text = "pages were not judged: a broker is writing; stop it to have that too"
            report.add("info", text)
            return True
    for problem in problems[:_PAGE_PROBLEMS_SHOWN]:
        report.add("error", f"LMDB page: {problem}")
    report.add("error", "trees were not read: run `fanlog doctor --salvage`")
    return False


class _Examination:
    """One run over an open store."""

    def __init__(self, store: Store, report: FolderReport) -> None:
        self._store = store
        self._report = report

    def run(self, inspect_state: InspectState | None) -> None:
        facts, rows = self._read_rows()
        if facts is None:
            return
        self._report.last_sequence = facts.last_sequence
        for partition, row in rows.items():
            if not row.is_dropped:
                self._report.partition_count += 1
                _Partition(self._store, self._report, facts, partition).run(row)
        self._look_for_strangers(set(rows))
        self._examine_commits()
        self._examine_state(inspect_state)

    def _read_rows(self) -> tuple[FolderFacts | None, dict[PartitionId, PartitionRow]]:
        store, rows = self._store, {}
        with store.env.begin(buffers=True) as txn:
            try:
                facts = folder.read_facts(store, txn)
            except EnvelopeDamaged as error:
                self._report.add("error", f"the log's own facts: {error}")
                return None, {}
            if facts is None:
                self._report.add("error", "the log's own facts are missing")
            with txn.cursor(store.partitions) as at:
                for key, value in at:
                    try:
                        payload = folder.open_envelope(Kind.PARTITION, key, value)
                    except EnvelopeDamaged as error:
                        name = folder.parse_partition_key(key)
                        self._report.add("error", f"the row of partition {name}: {error}")
                    else:
                        rows[folder.parse_partition_key(key)] = folder.parse_row(payload)
        return facts, rows

    def _look_for_strangers(self, known: set[PartitionId]) -> None:
        """Batches of a partition that has no row, in the transaction that says so."""
        store = self._store
        with store.env.begin(buffers=True) as txn, txn.cursor(store.batches) as at:
            more = at.first()
            while more:
                partition, _ = folder.parse_batch_key(at.key())
                has_row = txn.get(folder.partition_key(partition), db=store.partitions) is not None
                if partition not in known and not has_row:
                    text = f"batches of partition {partition}, which has no row"
                    self._report.add("error", text)
                more = at.set_range(folder.batch_key(PartitionId(partition + 1), 0))

    def _examine_commits(self) -> None:
        """Every entry of the index leads to a batch, unless the batch was trimmed."""
        store = self._store
        key: bytes | None = b"\0"
        while key is not None:
            with store.env.begin(buffers=True) as txn, txn.cursor(store.commits) as at:
                key = self._examine_commit_slice(txn, at, key)

    def _examine_commit_slice(
        self, txn: stored_batches.Transaction, at: stored_batches.Cursor, key: bytes
    ) -> bytes | None:
        more = at.set_range(key)
        for _ in range(_SLICE_ENTRIES):
            if not more:
                return None
            sequence, partition, base = folder.parse_commit_key(at.key())
            found = txn.get(folder.batch_key(partition, base), db=self._store.batches)
            if found is None:
                row = folder.read_row(self._store, txn, partition)
                text = f"commit {sequence} has an index entry for partition {partition} "
                text += f"offset {base}, where no batch begins"
                is_trimmed = row is None or row.is_dropped or base < row.start
                self._report.add("info" if is_trimmed else "error", text)
            more = at.next()
        return bytes(at.key()) if more else None

    def _examine_state(self, inspect_state: InspectState | None) -> None:
        """In one transaction, for records refer to each other; it only copies."""
        store, report = self._store, self._report
        records = []
        with store.env.begin(buffers=True) as txn, txn.cursor(store.state) as at:
            for key, value in at:
                report.state_count += 1
                report.state_bytes += len(value)
                try:
                    payload = folder.open_envelope(Kind.STATE, key, value)
                except EnvelopeDamaged as error:
                    report.add("error", f"state under the key {bytes(key).hex()}: {error}")
                else:
                    if inspect_state is not None:
                        records.append((bytes(key), payload))
        if inspect_state is not None:
            for finding in inspect_state(records):
                report.add(finding.severity, finding.text)


class _Partition:
    """One partition's batches, in slices."""

    def __init__(
        self, store: Store, report: FolderReport, facts: FolderFacts, partition: PartitionId
    ) -> None:
        self._store = store
        self._report = report
        self._facts = facts
        self._partition = partition
        #: Sequence and publish time of the batch before.
        self._last_position = (0, 0)

    def run(self, row: PartitionRow) -> None:
        position, end = row.start, row.end
        while position < end:
            with self._store.env.begin(buffers=True) as txn:
                now = folder.read_row(self._store, txn, self._partition)
                if now is None or now.is_dropped:
                    return
                position = self._examine_slice(txn, max(position, now.start), end)

    def _examine_slice(
        self, txn: stored_batches.Transaction, position: Offset, end: Offset
    ) -> Offset:
        size_bytes = 0
        with txn.cursor(self._store.batches) as at:
            for base, after, value in stored_batches.walk(at, self._partition, position, end):
                if base > position:
                    self._report_missing(position, base)
                batch = stored_batches.load(self._partition, base, after, value)
                if batch.base_offset + batch.count > position:
                    self._examine_batch(txn, batch, len(value))
                    position = batch.base_offset + batch.count
                size_bytes += len(value)
                if size_bytes >= _SLICE_BYTES:
                    return position
        if position < end:
            self._report_missing(position, end)
        return end

    def _examine_batch(
        self, txn: stored_batches.Transaction, batch: Batch | Damaged, size_bytes: int
    ) -> None:
        report = self._report
        report.batch_count += 1
        report.batch_bytes += size_bytes
        where = f"partition {self._partition} offsets {batch.base_offset}"
        where += f" to {batch.base_offset + batch.count - 1}"
        if isinstance(batch, Damaged):
            report.lost_message_count += batch.count
            report.add("error", f"{where}: {batch.reason}")
            return
        report.message_count += batch.count
        key = folder.commit_key(batch.sequence, self._partition, batch.base_offset)
        if txn.get(key, db=self._store.commits) is None:
            report.add("error", f"{where}: commit {batch.sequence} has no index entry for it")
        position = (batch.sequence, batch.publish_time_ns)
        if any(map(lt, position, self._last_position)):
            report.add("error", f"{where}: its sequence or publish time is below the last one's")
        self._last_position = position

    def _report_missing(self, start: Offset, end: Offset) -> None:
        self._report.lost_message_count += end - start
        text = f"partition {self._partition} offsets {start} to {end - 1}: the batch is missing"
        # A salvaged folder has holes where something could not be read; that was said then.
        self._report.add("warning" if self._facts.is_salvaged else "error", text)
