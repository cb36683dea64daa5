"""The source of all exports: what it reads it writes, and its rows are what it wrote.

The broker hands out batches of each export, one at a time, the same until it was advanced past. So
an offset here is which batch each export is at, and a batch that Spark runs again is the same one,
or is over. Tasks read their portions, write them, and give one row for each
piece. The driver then commits, and tells the broker (`fanlog.pipeline.export.flow`). Messages do
not pass through the JVM.

An export that fails says so to the broker, and holds up no other: it is tried again later, which is
what the second number of an offset counts.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from fanlog.core.cursor import runs
from fanlog.errors import Aborted, FanlogError, PermissionDenied
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import NOTHING, PipelineAccess
from fanlog.model.exports import FILES_FIELD, S3
from fanlog.model.resources import ExportState, FileExport, SchemaType, TableExport
from fanlog.pipeline.export.batch import BatchPlan, export_batch, table_columns
from fanlog.pipeline.export.revisions import Revisions
from fanlog.pipeline.export.rows import TableMismatch
from fanlog.spark.connection import CallFailed, Connection
from fanlog.spark.plan import Span, divide
from fanlog.spark.task import Portion, Task
from fanlog.v1 import export_pb2
from fanlog.wire import types
from fanlog.wire.exports import export_of
from fanlog.wire.schemas import FULL, type_of

FORMAT: Final = "fanlog_export"
SCHEMA: Final = "subscription string, plan binary, piece string"
#: In place of a piece: the task failed, and has said why.
FAILED: Final = "failed"
#: How long an export that failed is left alone, at first and at most.
AGAIN_S: Final = 2.0
AGAIN_S_MAX: Final = 60.0
EXPORTS: Final = "fanlog.v1.Exports"

_log = logging.getLogger("fanlog.spark")

#: Messages that nobody wants, between two that are wanted: fewer are read along with them.
GAP_MAX: Final = 256
_ROWS: Final = pa.schema(
    [("subscription", pa.string()), ("plan", pa.binary()), ("piece", pa.string())]
)


class ExportSource(DataSource):
    """Options: `endpoint` of the broker, `lake` with its address, `tasks`, `buckets` that files may
    go to, with commas between them, and `only` for one subscription instead of all.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return ExportReader(
            endpoint=self.options["endpoint"],
            location=Location.parse(self.options["lake"]),
            tasks=int(self.options.get("tasks", "1")),
            only=self.options.get("only", ""),
            reach=PipelineAccess(buckets=tuple(self.options.get("buckets", "").split(","))),
        )


@dataclass(frozen=True)
class ExportPortion(InputPartition):
    """One task's portion of a batch."""

    plan: BatchPlan
    spans: tuple[Span, ...]
    #: What is wanted of the spans, where that is not all: bitmaps by partition.
    wanted: tuple[tuple[int, bytes], ...]


class ExportReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are, for each export, the number of a batch and how often it was tried."""

    def __init__(
        self,
        *,
        endpoint: str,
        location: Location,
        tasks: int,
        only: str = "",
        reach: PipelineAccess = NOTHING,
    ) -> None:
        self._endpoint = endpoint
        self._location = location
        self._tasks = tasks
        self._only = only
        self._reach = reach
        self._is_only_now = False
        #: When to try an export again.
        self._again_s: dict[str, float] = {}

    # Called in the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"batches": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """It ends when there is no batch that was not tried."""
        self._is_only_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        before = start["batches"]
        found: dict[str, list[int]] = {}
        with Connection(self._endpoint) as connection:
            for name in self._names(connection):
                answer = _batch(connection, name)
                known = before.get(name, [0, 0])
                if answer is None or not answer.HasField("batch"):
                    found[name] = known
                elif answer.batch.number != known[0]:
                    found[name] = [answer.batch.number, 0]
                    self._again_s.pop(name, None)
                else:
                    found[name] = [known[0], known[1] + self._is_due(name, known[1])]
        # Those that are gone are left out only along with something else: that alone is no news.
        is_news = any(before.get(name, [0, 0]) != one for name, one in found.items())
        return {"batches": found} if is_news else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before = start["batches"]
        portions: list[InputPartition] = []
        with Connection(self._endpoint) as connection:
            for name, (number, tries) in end["batches"].items():
                if before.get(name) == [number, tries] or not number:
                    continue
                answer = _batch(connection, name)
                if answer is None or answer.batch.number != number:
                    # It is over: somebody else was here, or this one before it died.
                    continue
                with reporting(self._endpoint, name):
                    portions += self._portions(connection, name, answer)
        return portions

    # Called in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ExportPortion)
        plan = partition.plan
        # What retention has taken meanwhile is over; what is in a damaged file may come back.
        task = Task(
            endpoint=self._endpoint,
            with_sequence=False,
            fail_on_data_loss=False,
            skips_damaged=False,
        )
        portion = Portion(hot=partition.spans, location=self._location)
        messages = _wanted(task.read(portion), dict(partition.wanted))
        texts: list[str | None] = [FAILED]
        with reporting(self._endpoint, plan.subscription):
            texts = [piece.to_json() for piece in export_batch(plan, messages, self._location)]
        # One row at least: a batch of which nothing is left is over, too.
        texts = texts or [None]
        yield pa.RecordBatch.from_pydict(
            {
                "subscription": [plan.subscription] * len(texts),
                "plan": [pickle.dumps(plan)] * len(texts),
                "piece": texts,
            },
            schema=_ROWS,
        )

    # Private.

    def _names(self, connection: Connection) -> list[str]:
        answer = connection.call(
            EXPORTS,
            "ListExports",
            export_pb2.ListExportsRequest(),
            export_pb2.ListExportsResponse,
        )
        names = [one.subscription for one in answer.exports]
        return [name for name in names if self._only in ("", name)]

    def _is_due(self, name: str, tries: int) -> bool:
        """Whether to try a batch once more that was tried and is still there."""
        now = time.monotonic()
        if self._is_only_now or now < self._again_s.get(name, 0.0):
            return False
        self._again_s[name] = now + min(AGAIN_S_MAX, AGAIN_S * 2 ** min(tries, 10))
        return True

    def _portions(self, connection: Connection, name: str, answer: Any) -> list[ExportPortion]:
        batch = answer.batch
        export = export_of(batch)
        if isinstance(export, FileExport) and export.bucket.startswith(S3):
            self._reach.check_bucket(export.bucket, field=f"{FILES_FIELD}.bucket")
        revisions = None
        if export.use_topic_schema:
            revisions = revisions_of(connection, batch.offsets[0].topic)
        columns = None
        if isinstance(export, TableExport):
            columns = table_columns(self._location, export, revisions)
        plan = BatchPlan(
            subscription=name,
            app_id=f"{answer.log_id}/{answer.id}",
            number=batch.number,
            time=batch.time.ToDatetime(tzinfo=UTC),
            export=export,
            revisions=revisions,
            columns=columns,
        )
        spans, wanted = _spans(batch)
        # Which message is in which file must not depend on how many tasks there are.
        is_table = isinstance(export, TableExport)
        portions = divide(spans, tasks_min=self._tasks) if is_table else [tuple(spans)]
        return [ExportPortion(plan, portion, wanted) for portion in portions]


def _batch(connection: Connection, subscription: str) -> Any:
    """The batch of an export; None when it is no export any more."""
    request = export_pb2.GetBatchRequest(subscription=subscription)
    try:
        return connection.call(EXPORTS, "GetBatch", request, export_pb2.GetBatchResponse)
    except CallFailed as error:
        if error.status not in ("NOT_FOUND", "FAILED_PRECONDITION"):
            raise
        return None


def revisions_of(connection: Connection, topic: str) -> Revisions | None:
    """The schema of a topic, with all its revisions; None when one of them is gone."""
    try:
        found = connection.call(
            "google.pubsub.v1.Publisher",
            "GetTopic",
            types.GetTopicRequest(topic=topic),
            types.Topic,
        )
        settings = found.schema_settings
        if not settings.schema.startswith("projects/"):
            return None
        definitions: dict[str, str] = {}
        kind: SchemaType | None = None
        token = ""
        while True:
            page = connection.call(
                "google.pubsub.v1.SchemaService",
                "ListSchemaRevisions",
                types.ListSchemaRevisionsRequest(name=settings.schema, page_token=token, view=FULL),
                types.ListSchemaRevisionsResponse,
            )
            for one in page.schemas:
                kind = kind or type_of(one)
                definitions[one.revision_id] = one.definition
            token = page.next_page_token
            if not token:
                break
    except CallFailed as error:
        if error.status != "NOT_FOUND":
            raise
        return None
    assert kind is not None, "a schema has revisions"
    # The newest come first.
    newest = settings.last_revision_id or next(iter(definitions))
    return Revisions(kind, newest, definitions)


@contextmanager
def reporting(endpoint: str, subscription: str) -> Iterator[None]:
    """Tell the broker why an export does not go on, and go on with the others.

    That the broker cannot be asked is the business of all of them, and is raised.
    """
    try:
        yield
    except (FanlogError, OSError, pa.ArrowException) as error:
        if isinstance(error, CallFailed):
            raise
        if isinstance(error, Aborted):
            # Another pipeline does the same; the batch that comes next will be right.
            _log.info("action=export_lost subscription=%s error=%s", subscription, error)
            return
        state: ExportState = "NOT_FOUND"
        if isinstance(error, TableMismatch):
            state = "SCHEMA_MISMATCH"
        elif (
            isinstance(error, PermissionDenied)
            or "ermission" in str(error)
            or "ead-only" in str(error)
        ):
            state = "PERMISSION_DENIED"
        reason = error.message if isinstance(error, FanlogError) else str(error)
        request = export_pb2.ReportExportRequest(
            subscription=subscription, state=state, reason=reason
        )
        with Connection(endpoint) as connection:
            connection.call(EXPORTS, "ReportExport", request, export_pb2.ReportExportResponse)
        _log.warning("action=export_failed subscription=%s error=%s", subscription, reason)


def _spans(batch: Any) -> tuple[list[Span], tuple[tuple[int, bytes], ...]]:
    """What to read of a batch, and what is wanted of that, where it is not all."""
    spans: list[Span] = []
    wanted: list[tuple[int, bytes]] = []
    for one in batch.offsets:
        partition = one.set.partition
        bits = BitMap64.deserialize(one.set.bitmap)
        found = list(_joined(bits))
        spans += [Span(one.topic, partition, start, end) for start, end in found]
        if sum(end - start for start, end in found) != len(bits):
            wanted.append((partition, one.set.bitmap))
    spans.sort(key=lambda span: (span.topic, span.partition, span.start))
    return spans, tuple(wanted)


def _joined(bits: BitMap64) -> Iterator[tuple[int, int]]:
    """The runs of a set, those with little between them taken together."""
    last: tuple[int, int] | None = None
    for start, end in runs(bits):
        if last is not None and start - last[1] <= GAP_MAX:
            last = (last[0], end)
            continue
        if last is not None:
            yield last
        last = (start, end)
    if last is not None:
        yield last


def _wanted(
    batches: Iterator[pa.RecordBatch], wanted: dict[int, bytes]
) -> Iterator[pa.RecordBatch]:
    """Leave out what was read along with what is wanted."""
    sets = {
        partition: np.fromiter(BitMap64.deserialize(bits), np.int64)
        for partition, bits in wanted.items()
    }
    for batch in batches:
        if sets:
            partitions = batch.column("partition").to_numpy()
            offsets = batch.column("offset").to_numpy()
            mask = np.ones(len(offsets), np.bool_)
            for partition, found in sets.items():
                is_there = partitions == partition
                mask[is_there] = np.isin(offsets[is_there], found, assume_unique=True)
            batch = batch.filter(pa.array(mask))
        if batch.num_rows:
            yield batch
