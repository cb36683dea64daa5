"""Exports: one flow for all export subscriptions; those that are made or deleted come and go.

The plan, the reading and the writing are `fanlog.pipeline.export.source`; what is done with what
was written is here: the commit of the tables, under the number of the batch, and only then the word
to the broker, which acknowledges. Where a pipeline dies between the two, the next one gets the same
batch, and the table has that number already.
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanlog.client import CallFailed, Client
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import PipelineAccess
from fanlog.pipeline.driver import parallelism_of
from fanlog.pipeline.export.batch import BatchPlan, Piece, commit_batch
from fanlog.pipeline.export.source import EXPORTS, FAILED, FORMAT, ExportSource, reporting
from fanlog.pipeline.flows.flow import start_query
from fanlog.pipeline.log import log_of
from fanlog.v1 import export_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("fanlog.pipeline")

#: How often exports are asked for batches.
EVERY_S = 2.0


class Exports:
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

    def start(self, *, every_s: float = EVERY_S, only_now: bool = False, only: str = "") -> Any:
        """Begin; gives the query. `only_now` ends when there is no batch, `only` is for one."""
        with Client(self._endpoint) as client:
            log_id = log_of(client).log_id
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
        exported = Exported(self._endpoint, self._location)
        return start_query("export", pieces, exported.commit, folder=folder, every_s=every)


@dataclass(frozen=True, slots=True)
class Exported:
    """What becomes of what tasks have written, wherever the driver is."""

    endpoint: str
    location: Location

    def commit(self, batch: DataFrame, _: int) -> None:
        """Commit what a batch of the query has of each export's own batch."""
        rows = sorted(batch.collect(), key=lambda row: str(row.subscription))
        for name, some in groupby(rows, key=lambda row: str(row.subscription)):
            found = list(some)
            texts = [row.piece for row in found if row.piece is not None]
            # Some task failed and has said so: the whole batch comes again.
            if FAILED not in texts:
                plan: BatchPlan = pickle.loads(bytes(found[0].plan))
                with reporting(self.endpoint, name):
                    self._commit(plan, [Piece.from_json(text) for text in texts])

    def _commit(self, plan: BatchPlan, pieces: list[Piece]) -> None:
        commit_batch(plan, pieces, self.location)
        try:
            with Client(self.endpoint) as client:
                advance(client, plan.subscription, plan.number)
        except CallFailed as error:
            # Deleted meanwhile, or no export any more.
            if error.status not in ("NOT_FOUND", "FAILED_PRECONDITION"):
                raise
        rejected = sum(piece.count for piece in pieces if piece.kind == "rejected")
        log.info(
            "action=exported subscription=%s batch=%d messages=%d rejected=%d",
            plan.subscription,
            plan.number,
            sum(piece.count for piece in pieces),
            rejected,
        )


def advance(client: Client, subscription: str, number: int) -> int:
    """Tell the broker that a batch is where it belongs; how many messages it acknowledged."""
    request = export_pb2.AdvanceRequest(subscription=subscription, number=number)
    answer = client.call(f"{EXPORTS}/Advance", request, export_pb2.AdvanceResponse)
    return int(answer.acknowledged)
