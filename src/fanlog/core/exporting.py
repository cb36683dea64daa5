"""The rules of exports: the schema they ask for, the records of a change, the next batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.catalog import Catalog
from fanlog.core.cursor import Range
from fanlog.core.hard_state import HardState
from fanlog.core.records import ExportRecord, Record
from fanlog.core.share import Share
from fanlog.core.share.backlog import outside
from fanlog.errors import FailedPrecondition
from fanlog.model import exports
from fanlog.model.resources import FileExport, Offset, PartitionId, Subscription, TableExport


class GatheredBatch:
    """A batch in the making."""

    def __init__(self, files: FileExport | None, now: float) -> None:
        self._files = files
        self.now = now
        self._offsets: dict[PartitionId, BitMap64] = {}
        self._count = 0
        #: As far as a look at the first messages tells.
        self._size_bytes = 0.0
        self._oldest_s = now
        self._most = limits.EXPORT_BATCH_MESSAGES_MAX
        if files is not None and files.max_messages:
            self._most = max(1, self._most // files.max_messages) * files.max_messages

    @property
    def room(self) -> int:
        """How many messages more it takes."""
        return self._most - self._count

    @property
    def is_full(self) -> bool:
        return (
            self.room <= 0
            or self._size_bytes >= limits.EXPORT_BATCH_BYTES_MAX
            or len(self._offsets) >= limits.EXPORT_BATCH_PARTITIONS_MAX
        )

    def add(self, share: Share, end: Offset, size_bytes: float, published_s: float) -> None:
        """Add open messages of a share, of about `size_bytes` each."""
        most = self.room
        if size_bytes:
            left = limits.EXPORT_BATCH_BYTES_MAX - self._size_bytes
            most = min(most, max(1, int(left / size_bytes)))
        bits = BitMap64()
        count = 0
        for start, stop in open_ranges(share, end):
            stop = min(stop, start + most - count)
            bits.add_range(start, stop)
            count += stop - start
            if count >= most:
                break
        if count:
            self._offsets[share.partition] = bits
            self._count += count
            self._size_bytes += count * size_bytes
            self._oldest_s = min(self._oldest_s, published_s)

    def offsets(self) -> dict[PartitionId, BitMap64]:
        """The messages gathered; none while files wait for more."""
        files = self._files
        if files is None or self.is_full:
            return self._offsets
        if self.now - self._oldest_s >= files.max_duration_s:
            return self._offsets
        if 0 < files.max_bytes <= self._size_bytes:
            return self._offsets
        if 0 < files.max_messages <= self._count:
            # Whole files only: the rest has time.
            return _cut(self._offsets, self._count - self._count % files.max_messages)
        return {}


def check_schema(
    catalog: Catalog, topic_name: str, table: TableExport | None, files: FileExport | None
) -> None:
    """Check that the schema an export asks for is there.

    Raises:
        FailedPrecondition: The topic has none, or none that files can be written by.
        TopicNotFound: There is no such topic.
    """
    export = table or files
    if export is None or not export.use_topic_schema:
        return
    field = exports.TABLE_FIELD if table is not None else f"{exports.FILES_FIELD}.avro_config"
    settings = catalog.topic(topic_name).schema_settings
    if settings is None or settings.schema_id is None:
        why = "has no schema" if settings is None else "has one that was deleted"
        raise FailedPrecondition(f"{field}.use_topic_schema: topic {topic_name!r} {why}")
    schema = catalog.schemas.by_id(settings.schema_id)
    if files is not None and schema is not None and schema.type != "AVRO":
        raise FailedPrecondition(
            f"{field}.use_topic_schema: the schema of topic {topic_name!r} is of type "
            f"{schema.type}; Avro files are written by Avro schemas alone"
        )


def records_of_change(hard: HardState, before: Subscription, after: Subscription) -> list[Record]:
    """The records that go with other settings; checks the schema, raising as `check_schema` does.

    One that is no export any more lets go of its batch under way.
    """
    if (before.table, before.files) != (after.table, after.files):
        check_schema(hard.catalog, after.topic_shown, after.table, after.files)
    progress = hard.exports.get(before.id)
    if before.mode != "export" or after.mode == "export" or progress is None:
        return []
    return [ExportRecord(before.id, replace(progress, table=None, files=None, offsets={}))]


def open_ranges(share: Share, end: Offset) -> Iterator[Range]:
    """The open messages of a share before `end`, as far as its filter has judged.

    Those that are not to be delivered yet are exported when they are due.
    """
    found = share.cursor.unacked_ranges(0, min(end, share.routed_to))
    return outside(found, share.pending) if share.pending else found


def _cut(offsets: dict[PartitionId, BitMap64], count: int) -> dict[PartitionId, BitMap64]:
    """The first `count` of some offsets."""
    kept: dict[PartitionId, BitMap64] = {}
    for partition, bits in offsets.items():
        if count <= 0:
            break
        kept[partition] = bits if len(bits) <= count else bits[:count]
        count -= len(kept[partition])
    return kept
