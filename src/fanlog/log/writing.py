"""One write transaction of the data folder: commits go into LMDB here, and nowhere else.

A `Writing` gathers the changes of the soft state (rows, garbage, newest values) beside what it puts
into the transaction; the log lets readers see them once LMDB has the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from fanlog.log import envelope, folder, stored_batches
from fanlog.log.api import Bounds, Trim
from fanlog.log.encoded import EncodedBatch, EncodedCommit
from fanlog.log.envelope import Kind
from fanlog.log.folder import PartitionRow, Store
from fanlog.model.resources import Offset, PartitionId

#: Batches freed, and partitions looked at, by one commit at most: bounds the work of a trim in it.
FREED_BATCHES_MAX = 64


class Writing:
    """Changes of one transaction. Used by the thread that has it open."""

    def __init__(
        self,
        store: Store,
        txn: stored_batches.Transaction,
        bounds: Mapping[PartitionId, Bounds],
        garbage: Mapping[PartitionId, PartitionRow],
        last: tuple[int, int],
    ) -> None:
        """`last` is the sequence and the publish time of the commit before."""
        self.store = store
        self.txn = txn
        self._bounds = bounds
        self._commit_count = 0
        self.sequence, self.publish_time_ns = last
        self.rows: dict[PartitionId, PartitionRow] = {}
        self.garbage = dict(garbage)
        self.has_freed = False
        #: The last value of each partition that was appended to.
        self.newest: dict[PartitionId, tuple[Offset, bytes | memoryview]] = {}

    def commit(self, commit: EncodedCommit) -> None:
        """Put a commit; the next one of the log."""
        self._commit_count += 1
        self.sequence, self.publish_time_ns = commit.sequence, commit.publish_time_ns
        for batch in commit.batches:
            self._append(batch)
        self._put_state(commit)
        for trim in commit.trims:
            self._trim(trim)

    def put_fact(self, key: bytes, payload: bytes) -> None:
        """Put a fact beside the log's own."""
        folder.put_meta(self.store, self.txn, key, payload, self.sequence, self.publish_time_ns)

    def finish(self) -> None:
        """Put what is written once, for all commits together."""
        for partition, row in self.rows.items():
            key = folder.partition_key(partition)
            value = envelope.encode(
                Kind.PARTITION,
                key,
                folder.pack_row(row),
                sequence=self.sequence,
                publish_time_ns=self.publish_time_ns,
            )
            self.txn.put(key, value, db=self.store.partitions)
        folder.write_last(self.store, self.txn, self.sequence, self.publish_time_ns)
        self._free(FREED_BATCHES_MAX * max(1, self._commit_count))

    def _append(self, batch: EncodedBatch) -> None:
        partition, base_offset = batch.partition, batch.base_offset
        key = folder.batch_key(partition, base_offset)
        is_stored = self.txn.put(key, batch.value, overwrite=False, db=self.store.batches)
        assert is_stored, "a batch stands where the partition ends"
        commit_key = folder.commit_key(batch.sequence, partition, base_offset)
        self.txn.put(commit_key, b"", db=self.store.commits)
        self.newest[partition] = (base_offset, batch.value)
        # A cache that began in the middle does not know the start yet: older batches are to come.
        row = self.row(partition) or PartitionRow(0, 0, is_dropped=False)
        self.rows[partition] = row._replace(end=batch.end_offset)

    def _put_state(self, commit: EncodedCommit) -> None:
        txn, state = self.txn, self.store.state
        for key, value in commit.state:
            if value is None:
                txn.delete(key, db=state)
            else:
                txn.put(key, value, db=state)

    def _trim(self, trim: Trim) -> None:
        row = self.row(trim.partition)
        if row is None or (not trim.dropped and trim.before <= row.start):
            return
        start = row.end if trim.dropped else min(trim.before, row.end)
        row = PartitionRow(start, row.end, is_dropped=trim.dropped)
        self.rows[trim.partition] = self.garbage[trim.partition] = row

    def row(self, partition: PartitionId) -> PartitionRow | None:
        """A partition's row with these changes; None for one that is not there, or was dropped."""
        row = self.rows.get(partition)
        if row is not None:
            return None if row.is_dropped else row
        bounds = self._bounds.get(partition)
        return None if bounds is None else PartitionRow(bounds.start, bounds.end, is_dropped=False)

    def partitions(self) -> set[PartitionId]:
        """All partitions that have a row with these changes."""
        dropped = {partition for partition, row in self.rows.items() if row.is_dropped}
        return (set(self._bounds) | set(self.rows)) - dropped

    def _free(self, budget: int) -> None:
        """Delete some of the batches that lie below their partition's start."""
        for partition, row in list(islice(self.garbage.items(), budget)):
            freed, is_done = stored_batches.free(self.store, self.txn, partition, row, budget)
            self.has_freed = self.has_freed or freed > 0
            budget -= freed
            if not is_done:
                return
            del self.garbage[partition]
            if row.is_dropped:
                self.txn.delete(folder.partition_key(partition), db=self.store.partitions)
