"""The archive: every topic into the table `messages`, exactly once; then the broker is told.

The plan, the files and the reading are `fanlog.pipeline.flows.archive_source`. Here are the steps
of the driver with the files of a batch: one commit of the table, with (log, sequence) as its
application transaction. Then the report, which may be lost: the next one says more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.client import CallFailed, Client
from fanlog.client.log import LogClient
from fanlog.lake import inspection
from fanlog.lake.archive import commit_archive
from fanlog.lake.files import DataFile
from fanlog.lake.location import Location
from fanlog.lake.tables import ensure_lake, lake_id
from fanlog.pipeline.driver import parallelism_of
from fanlog.pipeline.flows.archive_source import FORMAT, ArchiveSource
from fanlog.pipeline.flows.flow import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("fanlog.pipeline")

#: How often there is a batch while messages come: they are in the lake after that time.
EVERY_S = 3.0


class ArchiveFlow:
    """The archive of one broker's log in one lake."""

    def __init__(
        self, spark: SparkSession, endpoint: str, location: Location, checkpoints: Path
    ) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._location = location
        self._checkpoints = checkpoints

    def start(self, *, every_s: float = EVERY_S, only_now: bool = False) -> StreamingQuery:
        """Begin; gives the query. `only_now` ends with the messages there are."""
        archived = self.attach()
        self._spark.dataSource.register(ArchiveSource)
        files = (
            self._spark.readStream.format(FORMAT)
            .option("endpoint", self._endpoint)
            .option("lake", self._location.uri)
            .option("tasks", str(parallelism_of(self._spark)))
            .load()
        )
        folder = self._checkpoints / "archive" / archived.log_id
        every = None if only_now else every_s
        return start_query("archive", files, archived.commit, folder=folder, every_s=every)

    def attach(self) -> ArchiveCommit:
        """Find out which log goes to which lake, and tell the broker how far that is.

        A report that was lost would otherwise wait for the next batch; and of a lake that was
        replaced by an older copy the broker hears at once.
        """
        ensure_lake(self._location)
        with Client(self._endpoint) as client:
            answer = LogClient(client).describe()
        archived = ArchiveCommit(self._endpoint, self._location, answer.log_id)
        found = inspection.standing(self._location, answer.log_id)
        if found.sequence != answer.archived_sequence:
            archived.report(found.table_version, found.sequence)
        return archived


@dataclass(frozen=True, slots=True)
class ArchiveCommit:
    """Makes the files that tasks have written part of the lake. Travels to where the driver is."""

    endpoint: str
    location: Location
    log_id: str

    def commit(self, batch: DataFrame, _: int) -> None:
        """Add the files of a batch to the table, and tell the broker."""
        rows = batch.collect()
        if not rows:
            return
        [(after, sequence)] = {(row.after, row.sequence) for row in rows}
        files = [DataFile.from_json(row.file) for row in rows if row.file is not None]
        committed = commit_archive(
            self.location, self.log_id, files, after_sequence=after, to_sequence=sequence
        )
        count = sum(file.count for file in files)
        log.debug("action=archived messages=%d sequence=%d", count, sequence)
        self.report(committed.table_version, sequence)

    def report(self, table_version: int, sequence: int) -> None:
        """Tell the broker how far the table is; the report may be lost."""
        # The one that is there now: a lake may be brought back while an archive runs.
        lake = lake_id(self.location)
        try:
            with Client(self.endpoint) as client:
                LogClient(client).report_archived(
                    lake_id=lake, table_version=table_version, sequence=sequence
                )
        except CallFailed as error:
            log.warning("action=report_failed sequence=%d error=%s", sequence, error)
