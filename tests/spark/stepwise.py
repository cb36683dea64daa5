"""The pipeline's archive step by step, as Spark takes the steps, without Spark.

Run as a program it is a pipeline that dies: `python -m spark.stepwise POINT ENDPOINT LAKE` kills
itself at `written` (files are there, no commit), at `committed` (no report), or in the middle of a
job (`job`: its effect is there, nobody was told).
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fanlog.client import Client
from fanlog.lake.location import Location
from fanlog.pipeline.context import Context
from fanlog.pipeline.flows.archive import ArchiveCommit, ArchiveFlow
from fanlog.pipeline.flows.archive_source import ArchiveSource
from fanlog.pipeline.jobs.replay import replay
from fanlog.pipeline.jobs.work import Work
from fanlog.pipeline.worker import Worker

ALL = ReadAllAvailable()
Offset = dict[str, Any]


class Steps:
    """One start of the archive. Its `offset` is what Spark has in its checkpoint."""

    def __init__(self, endpoint: str, location: Location, offset: Offset | None = None) -> None:
        options = {"endpoint": endpoint, "lake": location.uri}
        self._reader = ArchiveSource(CaseInsensitiveDict(options)).streamReader(None)
        archive = ArchiveFlow(None, endpoint, location, Path())  # type: ignore[arg-type]
        self._archived = archive.attach()
        self.offset: Offset = offset or self._reader.initialOffset()

    def plan(self) -> Offset:
        return self._reader.latestOffset(self.offset, ALL)

    def write(self, end: Offset) -> list[Any]:
        """What tasks do: everything has travelled."""
        reader, portions = pickle.loads(
            pickle.dumps((self._reader, self._reader.partitions(self.offset, end)))
        )
        rows = [
            row for portion in portions for one in reader.read(portion) for row in one.to_pylist()
        ]
        return [SimpleNamespace(**row) for row in rows]

    def commit(self, rows: list[Any]) -> None:
        """What the driver does; and the report."""
        commit = pickle.loads(pickle.dumps(self._archived.commit))
        commit(SimpleNamespace(collect=lambda: rows), 0)

    def run(self) -> Offset:
        """Archive all there is; gives where that is."""
        while (end := self.plan()) != self.offset:
            self.commit(self.write(end))
            self.offset = end
        return self.offset


def _die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def job_worker(endpoint: str, location: Location, name: str, *, dies: bool = False) -> Worker:
    """A worker for replays that need no Spark."""
    context = Context(spark=None, endpoint=endpoint, location=location)  # type: ignore[arg-type]

    def run(work: Work) -> Mapping[str, Any]:
        done = replay(context, work)
        return _die() if dies else done

    return Worker(lambda: Client(endpoint), {"replay": run}, name=name)


def main(point: str, endpoint: str, lake: str) -> None:
    location = Location.parse(lake)
    if point == "job":
        with Client(endpoint) as client:
            job_worker(endpoint, location, "dies", dies=True).run_one(client, wait_s=30)
        return
    steps = Steps(endpoint, location)
    if point == "committed":
        ArchiveCommit.report = _die  # type: ignore[method-assign]
    rows = steps.write(steps.plan())
    if point == "written":
        _die()
    steps.commit(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
