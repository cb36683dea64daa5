"""A broker with a lake, in small: what is archived can be read when the log let go of it."""

from __future__ import annotations

from pathlib import Path

from fanlog.broker.tiers import NoTiers
from fanlog.lake.location import Location
from fanlog.log.api import Log
from fanlog.model import Offset, PartitionId
from fanlog.testing.archiver import Archiver, Report
from server.conftest import RunningServer


class LakeTiers(NoTiers):
    """Believes what it is told."""

    def __init__(self, store: Log, location: Location, lake_id: str) -> None:
        super().__init__(store)
        self._log = store
        self.lake_uri = location.uri
        self.lake_id = lake_id
        self.archived_sequence = 0
        self._ends: dict[PartitionId, Offset] = {}

    def start(self, partition: PartitionId) -> Offset:
        return 0 if partition in self._ends else super().start(partition)

    def archived(self, partition: PartitionId) -> Offset:
        return self._ends.get(partition, super().archived(partition))

    def report(self, report: Report) -> None:
        self.archived_sequence = report.sequence
        self._ends = {number: bounds.end for number, bounds in self._log.partitions().items()}


class Archive:
    """The archive of a running broker."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self._server = server
        self.location = Location.parse(str(folder))
        catalog = server.broker.hard.catalog
        self._archiver = Archiver(self.location, server.store, catalog.topic_name_of)
        self._tiers = LakeTiers(server.store, self.location, self._archiver.lake_id)
        server.broker.tiers = self._tiers  # type: ignore[assignment]

    def run(self, files_max: int = 1) -> None:
        """Archive all there is, and say so."""
        self._tiers.report(self._server.run(self._archiver.run(files_max=files_max)))
