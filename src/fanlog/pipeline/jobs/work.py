"""One attempt at one job, as the code that does it sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fanlog.errors import FanlogError

if TYPE_CHECKING:
    import pyarrow as pa

#: The arguments of a job, and its result, as JSON has them.
Arguments = Mapping[str, Any]
JobResult = Mapping[str, object]
#: The work of a task of Spark: `mapInArrow` sends it there.
ArrowTask = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class Stopped(FanlogError):
    """The job is to stop: it was cancelled, or another worker has it."""

    code = "JOB_STOPPED"


class Work:
    """A job's arguments, and how far it is. Shared by the thread that works and the one that
    reports.
    """

    def __init__(self, name: str, kind: str, arguments: Arguments) -> None:
        #: Full name; the same for every attempt, so that effects can be told by it.
        self.name = name
        self.kind = kind
        self.arguments = arguments
        self.done = 0
        self.total = 0
        self.phase = ""
        self._stopping = threading.Event()
        self._on_stop: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    @property
    def project(self) -> str:
        return self.name.split("/")[1]

    def progress(
        self, done: int | None = None, total: int | None = None, phase: str | None = None
    ) -> None:
        """Say how far it is; a safe place to stop at.

        Raises:
            Stopped: Do not go on.
        """
        if done is not None:
            self.done = done
        if total is not None:
            self.total = total
        if phase is not None:
            self.phase = phase
        if self._stopping.is_set():
            raise Stopped(f"job {self.name} was stopped")

    def on_stop(self, stop: Callable[[], object]) -> None:
        """Have something called when it is to stop, from another thread; at once if it is."""
        with self._lock:
            self._on_stop.append(stop)
            is_stopping = self._stopping.is_set()
        if is_stopping:
            stop()

    def stop(self) -> None:
        """Have it stop at the next safe place."""
        with self._lock:
            self._stopping.set()
            callbacks = list(self._on_stop)
        for stop in callbacks:
            stop()
