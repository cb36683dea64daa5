"""Where commits run: a port, so that the writer does not care whether there is a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from fanlog.errors import CommitFailed, FanlogError
from fanlog.log.api import Commit, Log

#: Called on the loop with the error, or None when the commit is durable.
Done = Callable[[FanlogError | None], None]


class Committer(Protocol):
    """Runs one commit at a time."""

    def start(self, commit: Commit, done: Done) -> None:
        """Begin `commit`; call `done` on the loop when it is over. Never two at once."""

    def close(self) -> None:
        """Let a running commit end; start no more."""


class ThreadCommitter:
    """A dedicated thread: a sync blocks no other."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._commits: SimpleQueue[tuple[Commit, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="fanlog-writer", daemon=True)
        self._thread.start()

    def start(self, commit: Commit, done: Done) -> None:
        self._commits.put((commit, done))

    def close(self) -> None:
        self._commits.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._commits.get()) is not None:
            commit, done = item
            self._loop.call_soon_threadsafe(done, run_commit(self._log, commit))
            self._log.prepare()


class InlineCommitter:
    """Commits where it stands: for tests, and for engines that never block."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def start(self, commit: Commit, done: Done) -> None:
        asyncio.get_running_loop().call_soon(done, run_commit(self._log, commit))

    def close(self) -> None:
        pass


class InstantCommitter(InlineCommitter):
    """As inline, and it is over when `start` returns: no turn of the loop lies between."""

    def start(self, commit: Commit, done: Done) -> None:
        done(run_commit(self._log, commit))


def run_commit(log: Log, commit: Commit) -> FanlogError | None:
    """Commit; return the error, if any. No exception of an engine may end the writer."""
    try:
        log.commit(commit)
    except FanlogError as error:
        return error
    except Exception as error:
        failed = CommitFailed(f"the log failed unexpectedly: {error!r}")
        failed.__cause__ = error
        return failed
    return None
