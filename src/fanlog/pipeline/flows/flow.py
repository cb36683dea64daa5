"""A flow: a query of Structured Streaming that is kept running.

One that fails is started again, after a while that grows: the broker may be away, the lake may be
read-only, another pipeline may have been faster. Its progress so far is in its checkpoint and,
where it matters, in the table it writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fanlog import times
from fanlog.model.pipelines import FlowReport
from fanlog.pipeline.spark_errors import cause_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("fanlog.pipeline")

#: How long a flow rests after its first failure, and at most.
REST_S = 1.0
REST_S_MAX = 60.0
#: How long one must have run for its next failure to be a first one.
STEADY_S = 60.0


class RunningQuery(Protocol):
    """A query of Spark's, as far as a flow knows it; some flows are no query, and look like one."""

    def stop(self) -> object:
        """End it, after the batch under way."""

    def awaitTermination(self) -> object:  # noqa: N802
        """Wait for the end; raises the error that ended it."""


Start = Callable[[], RunningQuery]


def start_query(
    name: str,
    rows: DataFrame,
    take: Callable[[DataFrame, int], None],
    *,
    folder: Path,
    every_s: float | None,
) -> StreamingQuery:
    """Begin a query that gives batches of rows to `take`; gives the query.

    Args:
        take: It travels, where Spark is a Connect server: it has to be something that can.
        folder: Its checkpoint. One for each log: another log counts anew.
        every_s: How often there is a batch; None to end with the messages there are.
    """
    writer = rows.writeStream.queryName(name).option("checkpointLocation", str(folder))
    if every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{every_s} seconds")
    return writer.foreachBatch(take).start()


class Flow:
    """Keeps one query running until it is stopped. `start` makes the query."""

    def __init__(
        self,
        name: str,
        start: Start,
        *,
        on_failure: Callable[[str, str], None] = lambda _name, _error: None,
        monotonic: Callable[[], float],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._start = start
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._now = now
        self._stopping = threading.Event()
        self._query: RunningQuery | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"flow-{name}", daemon=True)
        #: Why it is not running; empty while it is.
        self.error = ""
        self.failures = 0
        #: When it began and failed, for the last time, and why it failed then.
        self._began_s: float | None = None
        self._failed_s: float | None = None
        self._last_error = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait for the batch under way to end one way or another."""
        self._stopping.set()
        with self._lock:
            query = self._query
        if query is not None:
            query.stop()
        if self._thread.is_alive():
            self._thread.join(REST_S_MAX)

    def report(self) -> FlowReport:
        """How it is; asks Spark, which may take a moment."""
        with self._lock:
            query = self._query
        progress = None if self.error or query is None else _progress_of(query)
        return FlowReport(
            name=self.name,
            state="RESTING" if self.error else "RUNNING",
            started_s=self._began_s,
            batch=progress and progress[0],
            batch_s=progress and progress[1],
            failures=self.failures,
            failed_s=self._failed_s,
            error=self._last_error,
        )

    def _run(self) -> None:
        rest_s = REST_S
        while not self._stopping.is_set():
            began_s = self._monotonic()
            try:
                self._run_once()
                if self._stopping.is_set():
                    return
                self.error = "the query ended by itself"
            except Exception as error:
                # Of any kind: Spark raises many, and the end of a flow's thread would go unnoticed.
                # It is logged and counted below.
                self.error = cause_of(error)
            if self._stopping.is_set():
                return
            self.failures += 1
            self._failed_s, self._last_error = self._now(), self.error
            if self._monotonic() - began_s > STEADY_S:
                rest_s = REST_S
            log.warning(
                "action=flow_failed flow=%s error=%s; again in %.0f s",
                self.name,
                self.error,
                rest_s,
            )
            self._on_failure(self.name, self.error)
            self._stopping.wait(rest_s)
            rest_s = min(2 * rest_s, REST_S_MAX)

    def _run_once(self) -> None:
        query = self._start()
        with self._lock:
            self._query = query
        self.error = ""
        self._began_s = self._now()
        if self._stopping.is_set():
            query.stop()
        query.awaitTermination()


def _progress_of(query: RunningQuery) -> tuple[int, float] | None:
    """The number of a query's last batch, and its time; None for one that does not say."""
    try:
        progress: Any = getattr(query, "lastProgress", None)
    except Exception as error:
        # Of any kind: Spark may be gone, and then the flow itself says why.
        log.debug("action=progress_unknown error=%s", cause_of(error))
        return None
    if not progress:
        return None
    return int(progress["batchId"]), times.parse(progress["timestamp"]).timestamp()
