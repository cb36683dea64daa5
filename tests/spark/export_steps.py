"""The pipeline's exports step by step, as Spark takes the steps, without Spark.

Run as a program it is a pipeline that dies: `python -m spark.export_steps POINT ENDPOINT LAKE NAME`
exports one batch of a subscription and kills itself when

- `written`: files are there, and no commit;
- `halfway`: rows are committed, and what was rejected is not;
- `committed`: all is committed, and the broker was not told;
- `told`: the broker was told, and nobody wrote down that it was.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from fanlog.client.exports import ExportClient
from fanlog.lake import commits
from fanlog.lake.location import Location
from fanlog.pipeline.export.flow import ExportCommit
from fanlog.pipeline.export.source import ExportReader

Offset = dict[str, Any]


class Frame:
    """What tasks wrote, as the driver gets it."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def collect(self) -> list[Any]:
        return self._rows


class ExportSteps:
    """One start of the exports. Its `offset` is what Spark has in its checkpoint."""

    def __init__(self, endpoint: str, location: Location) -> None:
        self._endpoint = endpoint
        self.location = location
        self.offset: Offset = {"batches": {}}
        self.exported = ExportCommit(endpoint, location)

    def rows(self, only: str, tasks: int = 2) -> Frame:
        """Read, which is write, one batch: everything has travelled."""
        reader = ExportReader(
            endpoint=self._endpoint, location=self.location, tasks=tasks, only=only
        )
        self.end = reader.latestOffset(self.offset, reader.getDefaultReadLimit())
        portions = pickle.loads(pickle.dumps(reader.partitions(self.offset, self.end)))
        found = [
            row for portion in portions for one in reader.read(portion) for row in one.to_pylist()
        ]
        return Frame([SimpleNamespace(**row) for row in found])

    def commit(self, written: Frame) -> None:
        """What the driver does; and the word to the broker."""
        pickle.loads(pickle.dumps(self.exported.commit))(written, 0)

    def run(self, only: str) -> bool:
        """One batch, whole; whether there was one."""
        self.commit(self.rows(only))
        self.offset, before = self.end, self.offset
        return before != self.end


def _die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _and_die(do: Callable[..., object]) -> Callable[..., NoReturn]:
    def done(*args: object, **options: object) -> NoReturn:
        do(*args, **options)
        _die()

    return done


def main(point: str, endpoint: str, lake: str, name: str) -> None:
    steps = ExportSteps(endpoint, Location.parse(lake))
    written = steps.rows(name)
    match point:
        case "written":
            _die()
        case "halfway":
            commits.add_files = _and_die(commits.add_files)
        case "committed":
            ExportClient.advance = _die
        case "told":
            ExportClient.advance = _and_die(ExportClient.advance)
    steps.commit(written)


if __name__ == "__main__":
    main(*sys.argv[1:])
