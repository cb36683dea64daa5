"""An archive without Spark: moves commits of a log into a lake, for tests.

Slow and plain, message by message; the files have the same rows as the pipeline's archive.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from fanlog.lake import archive, files, tables
from fanlog.lake.files import DataFile
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.ids import message_id
from fanlog.model.resources import PartitionId
from fanlog.wire import types

#: Bytes of batches that are read at once.
READ_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The report of an archive to the broker: how far the lake has come."""

    lake_id: str
    table_version: int
    sequence: int


class Archiver:
    """Archives one log. Topics whose name is None are left out."""

    def __init__(
        self, location: Location, log: Log, topic_of: Callable[[PartitionId], str | None]
    ) -> None:
        self._location = location
        self._log = log
        self._topic_of = topic_of
        self.lake_id = tables.ensure_lake(location)

    @property
    def log_id(self) -> str:
        return self._log.identity.hex()

    async def run(self, *, to_sequence: int | None = None, files_max: int = 1) -> ArchiveReport:
        """Archive the commits that are not in the lake yet, in one commit; report how far it is."""
        after = archive.archived_sequence(self._location, self.log_id)
        to = self._log.last_sequence if to_sequence is None else to_sequence
        if to <= after:
            version = tables.open_table(self._location, MESSAGES).version()
            return ArchiveReport(self.lake_id, int(version), after)
        written = self.write(await self.rows(after, to), files_max=files_max)
        committed = archive.commit_archive(
            self._location, self.log_id, written, after_sequence=after, to_sequence=to
        )
        return ArchiveReport(self.lake_id, committed.table_version, to)

    def write(self, rows: pa.Table, *, files_max: int = 1) -> list[DataFile]:
        """Write rows to files that no commit has added yet."""
        attempt = secrets.token_hex(8)
        share = max(1, -(-rows.num_rows // files_max))
        return [
            one
            for number, start in enumerate(range(0, rows.num_rows, share))
            for one in files.write_rows(
                self._location,
                MESSAGES,
                rows.slice(start, share),
                attempt=attempt,
                name=str(number),
            )
        ]

    async def rows(self, after: int, to: int) -> pa.Table:
        """The messages of the commits after one up to and with another, sorted."""
        found: list[pa.Table] = []
        ranges: dict[PartitionId, tuple[int, int]] = {}
        at = after
        while positions := self._log.positions(at, limit=1_000):
            for position in positions:
                if position.sequence <= to:
                    first, _ = ranges.get(position.partition, (position.base_offset, 0))
                    ranges[position.partition] = (first, position.end_offset)
            at = positions[-1].sequence
            if at >= to:
                break
        for partition, (start, end) in ranges.items():
            topic = self._topic_of(partition)
            while topic is not None and start < end:
                items = await self._log.read(partition, start, max_bytes=READ_BYTES)
                for item in items:
                    assert not isinstance(item, Damaged), item
                    if item.base_offset < end:
                        found.append(rows_of(item, topic))
                    start = item.end_offset
        rows = pa.concat_tables([MESSAGES.file_schema.empty_table(), *found])
        return rows.sort_by(
            [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        )


def rows_of(batch: Batch, topic: str) -> pa.Table:
    """The rows of one batch."""
    request = types.PublishRequest.FromString(bytes(batch.content))
    offsets = range(batch.base_offset, batch.end_offset)
    return pa.table(
        {
            "topic": [topic] * batch.count,
            "partition": [batch.partition] * batch.count,
            "offset": list(offsets),
            "message_id": [message_id(batch.partition, offset) for offset in offsets],
            "publish_time": [batch.publish_time_ns // 1_000] * batch.count,
            "ordering_key": [message.ordering_key for message in request.messages],
            "attributes": [_attributes(message, batch) for message in request.messages],
            "data": [message.data for message in request.messages],
            "sequence": [batch.sequence] * batch.count,
            "seal": [None if batch.seal is None else str(batch.seal)] * batch.count,
        },
        schema=MESSAGES.file_schema,
    )


def _attributes(message: types.PubsubMessage, batch: Batch) -> Iterable[tuple[str, str]]:
    return list({**message.attributes, **batch.attributes}.items())
