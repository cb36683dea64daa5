"""The process `fanlog pipeline`: one Spark session, the flows, and a worker for jobs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.client import CallFailed, Client
from fanlog.client.log import LogClient
from fanlog.errors import FailedPrecondition
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import NOTHING, PipelineAccess
from fanlog.model.pipelines import PipelineReport
from fanlog.pipeline.caretaker import Caretaker
from fanlog.pipeline.child_processes import end_children
from fanlog.pipeline.context import Context
from fanlog.pipeline.export.flow import ExportFlow
from fanlog.pipeline.flows.archive import ArchiveFlow
from fanlog.pipeline.flows.dead_letters import DeadLetterFlow
from fanlog.pipeline.flows.flow import Flow
from fanlog.pipeline.flows.stats import StatsFlow
from fanlog.pipeline.heartbeat import Heartbeat
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.session import is_server, join_server, shown, start_session
from fanlog.pipeline.worker import Worker
from fanlog.spark.java import JavaNotFound, prepare_java
from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JavaNotFound", "Pipeline", "Settings", "run"]

log = logging.getLogger("fanlog.pipeline")

#: How long a broker is waited for at the start.
BROKER_WAIT_S = 60.0
#: Exit code when Spark has ended: to start again helps.
LOST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a pipeline is started."""

    endpoint: str
    master: str = "local[*]"
    #: Empty for the broker's own.
    lake: str = ""
    #: Checkpoints and Spark's own log.
    state_dir: Path = Path("data/pipeline")
    #: Of a driver of our own; None for the default.
    memory: str | None = None
    log_level: str | None = None
    reach: PipelineAccess = NOTHING
    spark: Mapping[str, str] = field(default_factory=dict)


class Pipeline:
    """Flows and a worker on one session. `start`, then `stop`."""

    def __init__(
        self,
        context: Context,
        state_dir: Path,
        *,
        master: str,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._on_lost = on_lost
        #: Whether Spark is gone.
        self.is_lost = False
        spark = context.spark
        # Absolute: a Connect server has another working directory.
        checkpoints = state_dir.absolute() / "checkpoints"
        archive = ArchiveFlow(spark, context.endpoint, context.location, checkpoints)
        letters = DeadLetterFlow(context.endpoint, context.location, monotonic=time.monotonic)
        stats = StatsFlow(spark, context.endpoint, context.location, checkpoints)
        exports = ExportFlow(spark, context.endpoint, context.location, checkpoints, context.reach)
        self.flows = [
            Flow(name, start, on_failure=self._flow_failed, monotonic=time.monotonic)
            for name, start in (
                ("archive", archive.start),
                ("export", exports.start),
                ("dead letters", letters.start),
                ("stats", stats.start),
            )
        ]
        self._name = f"{socket.gethostname()}-{os.getpid()}"
        self._master = master
        self._started_s = time.time()
        self._worker = Worker(
            lambda: Client(context.endpoint), kinds.runners(context), name=self._name
        )
        self._caretaker = Caretaker(lambda: Client(context.endpoint), now=time.time)
        self._heartbeat = Heartbeat(lambda: Client(context.endpoint), self._report)
        self._threads = [
            threading.Thread(target=one.run, name=type(one).__name__.lower(), daemon=True)
            for one in (self._worker, self._caretaker, self._heartbeat)
        ]

    def start(self) -> None:
        # Asked once: a heartbeat goes on when Spark does not answer.
        log.info(
            "action=pipeline_start spark=%s tasks=%d",
            self._context.spark_version,
            self._context.parallelism,
        )
        for flow in self.flows:
            flow.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._heartbeat.stop()
        self._caretaker.stop()
        self._worker.stop()
        for flow in self.flows:
            flow.stop()
        for thread in self._threads:
            thread.join(30.0)

    def _report(self) -> PipelineReport:
        return PipelineReport(
            name=self._name,
            version=version("fanlog"),
            spark_version=self._context.spark_version,
            master=self._master,
            parallelism=self._context.parallelism,
            started_s=self._started_s,
            flows=tuple(flow.report() for flow in self.flows),
            job=self._worker.job,
        )

    def _flow_failed(self, _name: str, _error: str) -> None:
        if not self._context.driver.is_alive():
            self.is_lost = True
            self._on_lost()


def find_lake(settings: Settings) -> Location:
    """The lake of the broker, which is waited for.

    Raises:
        FailedPrecondition: It has none, or another than the one that was given.
        CallFailed: No broker answers.
    """
    answer = _first_answer(settings.endpoint)
    if not answer.lake_uri:
        raise FailedPrecondition(
            f"the broker at {settings.endpoint} has no lake; start it with `fanlog serve --lake "
            "./data/lake`, or both with `fanlog up`"
        )
    if not settings.lake:
        return Location.parse(answer.lake_uri)
    location = Location.parse(settings.lake)
    if location.uri != answer.lake_uri:
        raise FailedPrecondition(
            f"--lake says {location.uri}, and the broker at {settings.endpoint} archives to "
            f"{answer.lake_uri}"
        )
    return location


def run(settings: Settings, *, say: Callable[[str], None]) -> int:
    """Run until SIGTERM or Ctrl-C; gives the exit code.

    Raises:
        JavaNotFound: There is none that Spark runs on.
        FailedPrecondition: The broker has no lake, or another.
        CallFailed: No broker answers.
    """
    began_s = time.monotonic()
    _log_to_stderr()
    if not is_server(settings.master):
        # Before the broker is waited for: without Java there is nothing to wait for.
        prepare_java()
    stopping = _Stopping()
    try:
        return _run(settings, stopping, say=say, began_s=began_s)
    except _Stopped:
        # A Java that was about to be ready would wait for ever for a client.
        end_children()
        say("fanlog pipeline stopped before it was ready")
        return 0


class _Stopped(BaseException):
    """Asked to stop while nothing runs yet. No Exception: no caller in between may catch it."""


class _Stopping:
    """SIGTERM and Ctrl-C.

    Spark takes many seconds to start, and a broker may: neither is waited for. Nothing was begun
    until then.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        #: Nothing has to be ended in order.
        self.is_starting = True
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked.set()
        if self.is_starting:
            self.is_starting = False
            raise _Stopped


def _run(
    settings: Settings, stopping: _Stopping, *, say: Callable[[str], None], began_s: float
) -> int:
    location = find_lake(settings)
    spark, where = _session(settings)
    stopping.is_starting = False
    context = Context(
        spark=spark, endpoint=settings.endpoint, location=location, reach=settings.reach
    )
    pipeline = Pipeline(
        context, settings.state_dir, master=shown(settings.master), on_lost=stopping.asked.set
    )
    pipeline.start()
    say(
        f"fanlog pipeline ready in {time.monotonic() - began_s:.1f} s: Spark {spark.version} on "
        f"{where}, lake {location.uri}, broker {settings.endpoint}"
    )
    stopping.asked.wait()
    if pipeline.is_lost:
        # There is nothing to end in order: jobs are left to others, flows begin where they were.
        say("fanlog pipeline: Spark is gone, so this ends; start it again")
        return LOST
    say("fanlog pipeline stopping")
    pipeline.stop()
    spark.stop()
    return 0


def _session(settings: Settings) -> tuple[SparkSession, str]:
    """A session, and where it is."""
    if is_server(settings.master):
        return join_server(settings.master, settings=settings.spark), shown(settings.master)
    spark_log = settings.state_dir / "spark.log"
    spark = start_session(
        settings.master,
        log_file=spark_log,
        log_level=settings.log_level or "warn",
        memory=settings.memory or "1g",
        settings=settings.spark,
    )
    return spark, f"{settings.master} (its log is {spark_log})"


def _first_answer(endpoint: str) -> log_pb2.GetOffsetsResponse:
    late_s = time.monotonic() + BROKER_WAIT_S
    while True:
        try:
            with Client(endpoint) as client:
                return LogClient(client).describe()
        except CallFailed as error:
            if error.has_arrived or time.monotonic() > late_s:
                raise
            time.sleep(0.2)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("fanlog").addHandler(handler)
    logging.getLogger("fanlog").setLevel(logging.INFO)
    # Libraries give the root logger a handler when they have something to complain of.
    logging.getLogger("fanlog").propagate = False
