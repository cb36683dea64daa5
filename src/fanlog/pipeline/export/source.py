"""The source of all exports: its tasks write the messages that they read, its rows name the files.

The broker hands out batches of each export, one at a time, the same until it was advanced past. So
an offset here is which batch each export is at, and a batch that Spark runs again is the same one,
or is over. Tasks read their portions, write them, and give one row for each output. The driver then
commits, and tells the broker (`fanlog.pipeline.export.flow`). Messages do not pass through the JVM.

An export that fails says so to the broker, and holds up no other: it is tried again later, and the
second number of an offset counts the tries.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fanlog.client.client import Client
from fanlog.client.exports import ExportClient
from fanlog.client.failures import SPARK, CallFailed
from fanlog.core.cursor import runs
from fanlog.errors import Aborted, FanlogError, PermissionDenied
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import NOTHING, PipelineAccess
from fanlog.model.exports import FILES_FIELD, S3
from fanlog.model.resources import ExportState, FileExport, TableExport
from fanlog.pipeline.export.batch import BatchPlan, export_batch, table_columns
from fanlog.pipeline.export.rules.table_rows import TableMismatch
from fanlog.pipeline.export.rules.topic_schema import TopicSchema
from fanlog.spark.broker import TIMEOUT_S, connect
from fanlog.spark.plan import Span, divide
from fanlog.spark.schemas import OffsetJson
from fanlog.spark.task import Portion, Task
from fanlog.v1 import export_pb2
from fanlog.wire.exports import export_of
from fanlog.wire.schemas import type_of

FORMAT: Final = "fanlog_export"
SCHEMA: Final = "subscription string, plan binary, piece string"
#: In place of an output: the task failed, and has said why.
FAILED: Final = "failed"
#: How long an export that failed is left alone, at first and at most.
AGAIN_S: Final = 2.0
AGAIN_S_MAX: Final = 60.0

_log = logging.getLogger("fanlog.spark")

#: Unwanted messages between two that are wanted: up to so many are read along with them.
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

    def streamReader(self, schema: StructType | None) -> DataSourceStreamReader:  # noqa: N802
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
    #: The wanted offsets of the spans, where those are not all: bitmaps by partition.
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

    def initialOffset(self) -> OffsetJson:  # noqa: N802
        return {"batches": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """It ends when there is no batch that was not tried."""
        self._is_only_now = True

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802
        before = start["batches"]
        found: dict[str, list[int]] = {}
        with _connect(self._endpoint) as client:
            for name in self._names(client):
                answer = _get_batch(client, name)
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

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        before = start["batches"]
        portions: list[InputPartition] = []
        with _connect(self._endpoint) as client:
            for name, (number, tries) in end["batches"].items():
                if before.get(name) == [number, tries] or not number:
                    continue
                answer = _get_batch(client, name)
                if answer is None or answer.batch.number != number:
                    # It is over: another pipeline wrote it, or this one before it died.
                    continue
                with report_failures(self._endpoint, name):
                    portions += self._portions(client, name, answer)
        return portions

    # Called in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ExportPortion)
        plan = partition.plan
        # Messages that retention took meanwhile are over; those in a damaged file may come back.
        task = Task(
            endpoint=self._endpoint,
            with_sequence=False,
            fail_on_data_loss=False,
            skips_damaged=False,
        )
        portion = Portion(hot=partition.spans, location=self._location)
        messages = _select(task.read(portion), dict(partition.wanted))
        texts: list[str | None] = [FAILED]
        with report_failures(self._endpoint, plan.subscription):
            texts = [one.to_json() for one in export_batch(plan, messages, self._location)]
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

    def _names(self, client: Client) -> list[str]:
        names = ExportClient(client).list_subscriptions()
        return [name for name in names if self._only in ("", name)]

    def _is_due(self, name: str, tries: int) -> bool:
        """Whether to try a batch once more that was tried and is still there."""
        now = time.monotonic()
        if self._is_only_now or now < self._again_s.get(name, 0.0):
            return False
        self._again_s[name] = now + min(AGAIN_S_MAX, AGAIN_S * 2 ** min(tries, 10))
        return True

    def _portions(
        self, client: Client, name: str, answer: export_pb2.GetBatchResponse
    ) -> list[ExportPortion]:
        batch = answer.batch
        export = export_of(batch)
        if isinstance(export, FileExport) and export.bucket.startswith(S3):
            self._reach.check_bucket(export.bucket, field=f"{FILES_FIELD}.bucket")
        topic_schema = None
        if export.use_topic_schema:
            topic_schema = get_topic_schema(client, batch.offsets[0].topic)
        columns = None
        if isinstance(export, TableExport):
            columns = table_columns(self._location, export, topic_schema)
        plan = BatchPlan(
            subscription=name,
            app_id=f"{answer.log_id}/{answer.id}",
            number=batch.number,
            time=batch.time.ToDatetime(tzinfo=UTC),
            export=export,
            topic_schema=topic_schema,
            columns=columns,
        )
        spans, wanted = _spans(batch)
        # Which message is in which file must not depend on how many tasks there are.
        is_table = isinstance(export, TableExport)
        portions = divide(spans, tasks_min=self._tasks) if is_table else [tuple(spans)]
        return [ExportPortion(plan, portion, wanted) for portion in portions]


def _connect(endpoint: str) -> Client:
    return Client(endpoint, timeout_s=TIMEOUT_S, wording=SPARK)


def _get_batch(client: Client, subscription: str) -> export_pb2.GetBatchResponse | None:
    """The batch of an export; None when it is no export any more."""
    try:
        return ExportClient(client).get_batch(subscription)
    except CallFailed as error:
        if error.status not in ("NOT_FOUND", "FAILED_PRECONDITION"):
            raise
        return None


def get_topic_schema(client: Client, topic: str) -> TopicSchema | None:
    """The schema of a topic, with all its revisions; None when the topic or the schema is gone."""
    try:
        settings = client.get_topic(topic).schema_settings
        if not settings.schema.startswith("projects/"):
            return None
        # The newest come first.
        found = list(client.list_schema_revisions(settings.schema, with_definitions=True))
    except CallFailed as error:
        if error.status != "NOT_FOUND":
            raise
        return None
    assert found, "a schema has revisions"
    newest = settings.last_revision_id or found[0].revision_id
    definitions = {one.revision_id: one.definition for one in found}
    return TopicSchema(type_of(found[0]), newest, definitions)


@contextmanager
def report_failures(endpoint: str, subscription: str) -> Iterator[None]:
    """Tell the broker why an export does not go on, and go on with the others.

    A broker that cannot be asked is the failure of all exports, and raised.
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
        with connect(endpoint) as connection:
            ExportClient(connection).report(subscription, state, reason)
        _log.warning("action=export_failed subscription=%s error=%s", subscription, reason)


def _spans(batch: export_pb2.ExportBatch) -> tuple[list[Span], tuple[tuple[int, bytes], ...]]:
    """The spans to read for a batch, and the wanted offsets in them, where those are not all."""
    spans: list[Span] = []
    wanted: list[tuple[int, bytes]] = []
    for one in batch.offsets:
        partition = one.set.partition
        bits = BitMap64.deserialize(one.set.bitmap)
        found = list(_join_runs(bits))
        spans += [Span(one.topic, partition, start, end) for start, end in found]
        if sum(end - start for start, end in found) != len(bits):
            wanted.append((partition, one.set.bitmap))
    spans.sort(key=lambda span: (span.topic, span.partition, span.start))
    return spans, tuple(wanted)


def _join_runs(bits: BitMap64) -> Iterator[tuple[int, int]]:
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


def _select(
    batches: Iterator[pa.RecordBatch], wanted: dict[int, bytes]
) -> Iterator[pa.RecordBatch]:
    """Leave out messages that were read along with the wanted ones."""
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
