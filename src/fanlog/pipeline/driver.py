"""Spark's driver, as the pipeline needs it beside queries: here, or behind a Connect server."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from fanlog.pipeline.jobs.work import Work

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

#: Rows of a range that is divided as Spark divides by itself.
_DIVIDED = 1 << 20
#: A setting that every server has.
_ANY_SETTING = "spark.sql.session.timeZone"

#: Of each stage, by its number: tasks that have ended, and all.
Stages = Mapping[int, tuple[int, int]]


class Driver(Protocol):
    """The driver of one session."""

    def is_alive(self) -> bool:
        """Whether it is still there; one that is not does not come back."""

    def stoppable(self, work: Work) -> AbstractContextManager[None]:
        """Make this thread one that Spark works for, until the work is to stop."""

    def stages(self, work: Work) -> Stages:
        """The stages that were begun for a piece of work."""


def driver_of(spark: SparkSession) -> Driver:
    """The driver of a session."""
    return RemoteDriver(spark) if is_remote() else LocalDriver(spark)


def parallelism_of(spark: SparkSession) -> int:
    """How many tasks that Spark runs side by side, as it says itself."""
    if not is_remote():
        return int(spark.sparkContext.defaultParallelism)
    # A client is not told; but it sees how the server divides a range.
    parts = spark.range(_DIVIDED).select(F.spark_partition_id().alias("part"))
    return int(parts.distinct().count())


class LocalDriver:
    """A driver with its Java in a child of this process."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext

    def is_alive(self) -> bool:
        java: Any = self._context._jsc
        try:
            return java is not None and not java.sc().isStopped()
        except (Py4JError, OSError):
            return False

    @contextmanager
    def stoppable(self, work: Work) -> Iterator[None]:
        # Without it Spark does not find a sink in Python, in a thread that it has not seen before.
        spark: Any = self._spark
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        self._context.setJobGroup(work.name, work.kind, interruptOnCancel=True)
        work.on_stop(lambda: self._context.cancelJobGroup(work.name))
        try:
            yield
        finally:
            self._context.setLocalProperty("spark.jobGroup.id", "")

    def stages(self, work: Work) -> Stages:
        tracker = self._context.statusTracker()
        found: dict[int, tuple[int, int]] = {}
        try:
            for job in tracker.getJobIdsForGroup(work.name):
                info = tracker.getJobInfo(job)
                for number in info.stageIds if info else ():
                    stage = tracker.getStageInfo(number)
                    if stage is not None:
                        found[number] = (stage.numCompletedTasks, stage.numTasks)
        except (Py4JError, OSError):
            # Spark is gone; the thread that waits for the query gets the error.
            pass
        return found


class RemoteDriver:
    """A driver behind a Spark Connect server, which tells how far it is as it answers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        #: The name of the job that a thread runs a query for: the server reports to that thread.
        self._current = threading.local()
        self._stages: dict[str, dict[int, tuple[int, int]]] = {}
        spark.registerProgressHandler(self._note_stages)  # type: ignore[arg-type]

    def is_alive(self) -> bool:
        try:
            self._spark.conf.get(_ANY_SETTING)
        except PySparkException:
            return False
        return True

    @contextmanager
    def stoppable(self, work: Work) -> Iterator[None]:
        self._spark.addTag(work.id)
        self._current.name = work.name
        self._stages[work.name] = {}
        work.on_stop(lambda: self._spark.interruptTag(work.id))
        try:
            yield
        finally:
            del self._current.name, self._stages[work.name]
            self._spark.removeTag(work.id)

    def stages(self, work: Work) -> Stages:
        return dict(self._stages.get(work.name, {}))

    def _note_stages(self, stages: Iterable[StageInfo] | None, **_: object) -> None:
        mine = self._stages.get(getattr(self._current, "name", ""))
        if mine is not None:
            mine |= {one.stage_id: (one.num_completed_tasks, one.num_tasks) for one in stages or ()}
