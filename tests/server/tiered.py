"""A server with a lake and an archive of its log, and short words for what tests do with them."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from fanlog.lake.location import Location
from fanlog.testing.archiver import Archiver, ArchiveReport
from fanlog.v1 import log_pb2 as pb
from server.conftest import PATIENCE_S, RunningServer

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY


class Tiered:
    """A server with a lake, and an archive of its log."""

    def __init__(self, server: RunningServer, lake: Path) -> None:
        self.server = server
        self.lake = lake
        self.server.await_lake()
        self.archiver = self._archiver()

    def _archiver(self) -> Archiver:
        catalog = self.server.broker.hard.catalog

        def topic_of(partition):
            topic = catalog.topic_of(partition)
            return topic.name if topic is not None and topic.is_archived else None

        return Archiver(Location.parse(str(self.lake)), self.server.store.hot, topic_of)

    def archive(self, *, reports: bool = True, **options) -> ArchiveReport:
        report = self.server.run(self.archiver.run(**options))
        if reports:
            self.report(report)
        return report

    def report(self, report: ArchiveReport) -> int:
        request = pb.ReportArchivedRequest(
            lake_id=report.lake_id, table_version=report.table_version, sequence=report.sequence
        )
        with self.server.channel() as channel:
            call = channel.unary_unary("/fanlog.v1.Log/ReportArchived")
            raw = call(request.SerializeToString(), timeout=PATIENCE_S)
        return pb.ReportArchivedResponse.FromString(raw).sequence

    def refused(self, report: ArchiveReport) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            self.report(report)
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        return str(caught.value.details())

    def partition(self, topic: str) -> int:
        [partition] = self.server.broker.hard.catalog.topic(topic).partitions
        return partition

    def tiers(self, topic: str) -> tuple[int, int, int, int]:
        """Start, hot start, archived, end."""
        tiers, partition = self.server.broker.tiers, self.partition(topic)
        end = self.server.broker.ledger.end(partition)
        start = tiers.start(partition)
        return start, tiers.hot_start(partition), tiers.archived(partition), end

    def pass_time(self, seconds: float) -> None:
        self.server.advance(seconds)
        self.server.sweep()

    @property
    def alarm(self) -> str:
        return self.server.broker.tiers.alarm


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def data(received) -> list[bytes]:
    return [one.message.data for one in received]


def keeping(**fields):
    return {"message_retention_duration": Duration(seconds=int(WEEK))} | fields


def readiness(tiered: Tiered) -> str:
    with urllib.request.urlopen(tiered.server.http("/readyz"), timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def copied(tiered: Tiered, to: Path) -> None:
    shutil.copytree(tiered.lake, to)


def replaced(tiered: Tiered, by: Path | None) -> None:
    shutil.rmtree(tiered.lake, ignore_errors=True)
    if by is not None:
        shutil.copytree(by, tiered.lake)
