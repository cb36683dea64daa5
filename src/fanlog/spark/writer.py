"""The sink: rows are staged by tasks, and published by the driver's commit, once.

Rows staged under (query, epoch, partition, attempt) are invisible until the driver names the
attempts that won; the broker remembers the last epoch of a query. So a task, a batch or a query
that is tried again publishes nothing twice, in whichever order its rows come.

A streaming query's name is its id in the checkpoint: the name that the program gives may be used
again for another one, which begins at batch 0 again. A batch has a name of its own, made when it is
planned, unless the program says which transaction it is.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from fanlog.client.failures import CallFailed
from fanlog.client.sink import SinkClient
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.spark.broker import PATIENCE_S, connect
from fanlog.spark.options import WriteOptions
from fanlog.spark.outgoing import Outgoing, requests, rows_of
from fanlog.v1 import sink_pb2

#: How long a commit may take; a large one is published in parts.
COMMIT_TIMEOUT_S: Final = 600.0

#: Properties that Spark sets for the tasks of a streaming query.
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
_BATCH_PROPERTY: Final = "streaming.sql.batchId"

_log = logging.getLogger("fanlog.spark")


@dataclass(frozen=True)
class TaskStages(WriterCommitMessage):
    """The stages of one task. Travels to the driver."""

    query: str
    epoch: int
    attempt: str
    #: The broker's partitions: rows, and dead letters if there are any.
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stager:
    """Stages the rows of tasks. Travels to them, so there is no connection in it."""

    options: WriteOptions

    def stage(self, batches: Iterator[pa.RecordBatch], query: str, epoch: int) -> TaskStages:
        """Stage the rows of one attempt of one task.

        Raises:
            InvalidArgument: Rows are refused, and there is no topic for them.
            CallFailed: The broker refused all of it, or is away.
        """
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        # Each of the two kinds is a partition to the broker.
        rows_at, dead_at = 2 * number, 2 * number + 1
        attempt = uuid.uuid4().hex
        incoming = _Incoming(self.options, batches)
        # A stream has found it there before.
        patience_s = PATIENCE_S if epoch else 0.0
        with connect(self.options.endpoint, patience_s=patience_s) as connection:
            sink = SinkClient(connection)

            def key(partition: int) -> bytes:
                made = sink_pb2.StageKey(
                    query=query, epoch=epoch, partition=partition, attempt=attempt
                )
                return bytes(made.SerializeToString())

            refused = _stage(sink, key(rows_at), incoming)
            if not incoming.count:
                return TaskStages(query, epoch, attempt, ())
            if not refused:
                return TaskStages(query, epoch, attempt, (rows_at,))
            if not self.options.dead_letter_topic:
                raise InvalidArgument(_refusal(refused))
            self._stage_dead(sink, key(dead_at), incoming, refused)
        return TaskStages(query, epoch, attempt, (rows_at, dead_at))

    def _stage_dead(
        self,
        sink: SinkClient,
        key: bytes,
        incoming: _Incoming,
        refused: Sequence[sink_pb2.RefusedRow],
    ) -> None:
        topic = self.options.dead_letter_topic
        rows = [(incoming.row(each.row), each.reason) for each in refused]
        bare: set[int] = set()
        while True:
            copies = [
                row.dead_letter(topic, reason, is_bare=number in bare)
                for number, (row, reason) in enumerate(rows)
            ]
            # Staged under the same key again, these replace the rows that were there.
            again = {each.row: each for each in _stage(sink, key, iter([copies]))}
            if not again:
                return
            if again.keys() & bare:
                raise InvalidArgument(
                    f"{topic} does not take dead letters: {_refusal(list(again.values()))}"
                )
            bare |= again.keys()


class _Incoming(Iterator[list[Outgoing]]):
    """The rows of a task, as they come; kept as long as any of them may be refused."""

    def __init__(self, options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> None:
        self._options = options
        self._batches = batches
        self._kept: list[pa.RecordBatch] = []
        self.count = 0
        #: Why there are no more rows, if not because that was all.
        self.failure: BaseException | None = None

        @cache
        def full_name(name: str) -> str:
            return name if "/" in name or not name else f"projects/{options.project}/topics/{name}"

        self._full_name = full_name

    def __next__(self) -> list[Outgoing]:
        # Called by a thread of gRPC's, which would say no more than that something was wrong.
        try:
            batch = next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self.failure = error
            raise
        self.count += batch.num_rows
        if self._options.dead_letter_topic:
            self._kept.append(batch)
        return self._rows(batch)

    def row(self, number: int) -> Outgoing:
        for batch in self._kept:
            if number < batch.num_rows:
                [row] = self._rows(batch.slice(number, 1))
                return row
            number -= batch.num_rows
        raise AssertionError("a row that never was")

    def _rows(self, batch: pa.RecordBatch) -> list[Outgoing]:
        return rows_of(batch, self._full_name, self._options.topic)


def _stage(
    sink: SinkClient, key: bytes, rows: Iterator[list[Outgoing]]
) -> list[sink_pb2.RefusedRow]:
    """Stage rows under a key; give those that are refused. Without any rows, nothing is staged."""
    sent = requests(key, rows)
    first = next(sent, None)
    if first is None:
        return []

    def chained() -> Iterator[bytes]:
        yield first
        yield from sent

    try:
        return list(sink.stage(chained()).refused)
    except CallFailed as error:
        failure = getattr(rows, "failure", None)
        raise failure or error from error


def _refusal(refused: Sequence[sink_pb2.RefusedRow]) -> str:
    more = f" (and {len(refused) - 1} more rows)" if len(refused) > 1 else ""
    return f"row {refused[0].row} of the task cannot be published: {refused[0].reason}{more}"


class BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of one batch.

    Spark makes it once, calls `write` in every task and then, in the driver, `commit` or `abort`
    once; it has travelled to all of them from where it was made.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._stager = Stager(options)
        query, epoch = options.transaction or (f"batch-{uuid.uuid4().hex}", 0)
        self._query, self._epoch = query, epoch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStages:
        return self._stager.stage(iterator, self._query, self._epoch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._stager.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._stager.options, self._query, self._epoch)


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a streaming query.

    Spark makes one for the tasks of each batch, and another, which knows nothing of the first, for
    `commit` or `abort`.
    """

    def __init__(self, options: WriteOptions) -> None:
        if options.transaction is not None:
            raise InvalidArgument("options txnAppId and txnVersion are for batches")
        self._stager = Stager(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStages:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_PROPERTY)
        batch = None if context is None else context.getLocalProperty(_BATCH_PROPERTY)
        if not query or batch is None:
            raise FailedPrecondition(
                f"Spark does not say which query and batch this is ({_QUERY_PROPERTY},"
                f" {_BATCH_PROPERTY}): use a version of Spark from 4.3 on"
            )
        return self._stager.stage(iterator, query, int(batch))

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        _commit(self._stager.options, messages)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        for query in {each.query for each in messages if isinstance(each, TaskStages)}:
            _abort(self._stager.options, query, batchId)


def _commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    staged = [each for each in messages if isinstance(each, TaskStages)]
    stages = [
        sink_pb2.StageKey(
            query=each.query, epoch=each.epoch, partition=partition, attempt=each.attempt
        )
        for each in staged
        for partition in each.partitions
    ]
    if not stages:
        return
    with connect(options.endpoint, timeout_s=COMMIT_TIMEOUT_S, patience_s=PATIENCE_S) as connection:
        # It may have happened, and been lost on the way: asked again, the broker says so.
        SinkClient(connection).commit_epoch(staged[0].query, staged[0].epoch, stages)


def _abort(options: WriteOptions, query: str, epoch: int) -> None:
    try:
        with connect(options.endpoint) as connection:
            SinkClient(connection).abort_epoch(query, epoch)
    except CallFailed as failure:
        # Stages are forgotten after a while in any case; the query fails for another reason.
        _log.warning("what was staged is left to expire: %s", failure)
