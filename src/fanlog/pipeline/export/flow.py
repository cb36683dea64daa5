"""Exports: one flow for all export subscriptions; those that are made or deleted come and go.

The plan, the reading and the writing are `fanlog.pipeline.export.source`. Here the driver commits
the tables, under the number of the batch, and only then tells the broker, which acknowledges. Where
a pipeline dies between the two, the next one gets the same batch, and the table has that number
already.
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.client import CallFailed, Client
from fanlog.client.exports import ExportClient
from fanlog.client.log import LogClient
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import PipelineAccess
from fanlog.pipeline.driver import parallelism_of
from fanlog.pipeline.export.batch import BatchPlan, TaskOutput, commit_batch
from fanlog.pipeline.export.source import FAILED, FORMAT, ExportSource, report_failures
from fanlog.pipeline.flows.flow import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("fanlog.pipeline")

#: How often exports are asked for batches.
EVERY_S = 2.0


class ExportFlow:
    """The exports of one broker to one lake."""

    def __init__(
        self,
        spark: SparkSession,
        endpoint: str,
        location: Location,
        checkpoints: Path,
        reach: PipelineAccess,
    ) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._location = location
        self._checkpoints = checkpoints
        self._reach = reach

    def start(
        self, *, every_s: float = EVERY_S, only_now: bool = False, only: str = ""
    ) -> StreamingQuery:
        """Begin; gives the query. `only_now` ends when there is no batch, `only` is for one."""
        with Client(self._endpoint) as client:
            log_id = LogClient(client).describe().log_id
        self._spark.dataSource.register(ExportSource)
        pieces = (
            self._spark.readStream.format(FORMAT)
            .option("endpoint", self._endpoint)
            .option("lake", self._location.uri)
            .option("tasks", str(parallelism_of(self._spark)))
            .option("buckets", ",".join(self._reach.buckets))
            .option("only", only)
            .load()
        )
        folder = self._checkpoints / "export" / log_id
        every = None if only_now else every_s
        exported = ExportCommit(self._endpoint, self._location)
        return start_query("export", pieces, exported.commit, folder=folder, every_s=every)


@dataclass(frozen=True, slots=True)
class ExportCommit:
    """Makes the rows and files of tasks part of the lake. Travels to where the driver is."""

    endpoint: str
    location: Location

    def commit(self, batch: DataFrame, _: int) -> None:
        """Commit the outputs of a batch of the query, each under its export's own batch."""
        rows = sorted(batch.collect(), key=lambda row: str(row.subscription))
        for name, some in groupby(rows, key=lambda row: str(row.subscription)):
            found = list(some)
            texts = [row.piece for row in found if row.piece is not None]
            # Some task failed and has said so: the whole batch comes again.
            if FAILED not in texts:
                plan: BatchPlan = pickle.loads(bytes(found[0].plan))
                with report_failures(self.endpoint, name):
                    self._commit(plan, [TaskOutput.from_json(text) for text in texts])

    def _commit(self, plan: BatchPlan, outputs: list[TaskOutput]) -> None:
        commit_batch(plan, outputs, self.location)
        try:
            with Client(self.endpoint) as client:
                ExportClient(client).advance(plan.subscription, plan.number)
        except CallFailed as error:
            # Deleted meanwhile, or no export any more.
            if error.status not in ("NOT_FOUND", "FAILED_PRECONDITION"):
                raise
        rejected = sum(one.count for one in outputs if one.kind == "rejected")
        log.info(
            "action=exported subscription=%s batch=%d messages=%d rejected=%d",
            plan.subscription,
            plan.number,
            sum(one.count for one in outputs),
            rejected,
        )
