"""The archive of a running broker that has a lake, without Spark."""

from __future__ import annotations

from fanlog.lake.location import Location
from fanlog.testing.archiver import Archiver
from server.conftest import RunningServer


class Archive:
    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self.location = Location.parse(server.broker.tiers.lake_uri)
        server.await_lake()
        catalog = server.broker.hard.catalog
        self._archiver = Archiver(self.location, server.store.hot, catalog.topic_name_of)

    def run(self, files_max: int = 1) -> None:
        """Archive all there is, and have the broker believe it."""
        report = self._server.run(self._archiver.run(files_max=files_max))
        tiers = self._server.broker.tiers
        seen = self._server.run(
            tiers.report_archived(report.lake_id, report.table_version, report.sequence)
        )
        assert seen == report.sequence
