"""Stats: the outcomes of the broker's deliveries, minute by minute, as two tables.

The topic of outcomes is read like any other; its messages are in `fanlog.model.outcomes`. Rows go
into `topic_stats` and `delivery_stats` in one commit each, with the offset that the topic was read
to as application transaction. So each table itself says which messages it has: a batch that is
repeated, a checkpoint that is lost or a process that dies between the two commits adds nothing
twice.

A batch has one row a minute for each topic and subscription. A minute that is in two batches,
because the broker was started anew in it, has two rows, and their counts add up.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import pyarrow as pa

from fanlog.client import Client
from fanlog.client.log import LogClient
from fanlog.lake import commits
from fanlog.lake.files import write_rows
from fanlog.lake.location import Location
from fanlog.lake.tables import DELIVERY_STATS, TOPIC_STATS, Table, ensure_lake, ensure_table
from fanlog.model import outcomes
from fanlog.model.outcomes import Outcomes, SubscriptionOutcome, TopicOutcome
from fanlog.pipeline.flows.flow import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("fanlog.pipeline")

#: How often the topic is looked at: a minute is in the tables so long after its end, at most.
EVERY_S = 15.0
#: Messages of one batch, which is read into memory: a week of minutes is ten thousand.
BATCH_MESSAGES = 500
#: How the topic is read.
SOURCE: Mapping[str, str] = {
    # As a pattern: then it need not be there yet.
    "topicPattern": outcomes.TOPIC,
    "startingOffsets": "earliest",
    # Those that were let go of are lost; that is no reason to lose the next ones.
    "failOnDataLoss": "false",
    "maxMessagesPerTrigger": str(BATCH_MESSAGES),
}


@dataclass(frozen=True, slots=True)
class Told:
    """A message of the topic of outcomes."""

    partition: int
    offset: int
    data: bytes


class StatsFlow:
    """The statistics of one broker in one lake."""

    def __init__(
        self, spark: SparkSession, endpoint: str, location: Location, checkpoints: Path
    ) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._location = location
        self._checkpoints = checkpoints

    def start(self, *, every_s: float = EVERY_S, only_now: bool = False) -> StreamingQuery:
        """Begin; gives the query. `only_now` ends with the messages there are."""
        ensure_lake(self._location)
        for table in (TOPIC_STATS, DELIVERY_STATS):
            ensure_table(self._location, table)
        with Client(self._endpoint) as client:
            log_id = LogClient(client).describe().log_id
        told = (
            self._spark.readStream.format("fanlog")
            .option("endpoint", self._endpoint)
            .options(**SOURCE)
            .load()
            .select("partition", "offset", "data")
        )
        folder = self._checkpoints / "stats" / log_id
        every = None if only_now else every_s
        take = partial(_take, self._location, log_id)
        return start_query("stats", told, take, folder=folder, every_s=every)


def _take(location: Location, log_id: str, batch: DataFrame, _: int) -> None:
    told = [Told(row.partition, row.offset, bytes(row.data)) for row in batch.collect()]
    commit_stats(location, log_id, told)


def commit_stats(location: Location, log_id: str, told: Iterable[Told]) -> None:
    """Add the rows of messages to the tables; messages that are in them already change nothing.

    Raises:
        UnknownVersion: The broker is newer than this pipeline.
        CommitLost: Another pipeline of this log came first; nothing is doubled or lost.
        LakeError: The lake cannot be written.
    """
    by_partition: dict[int, list[Told]] = {}
    for one in sorted(told, key=lambda one: (one.partition, one.offset)):
        by_partition.setdefault(one.partition, []).append(one)
    for partition, some in by_partition.items():
        app_id = f"stats-{log_id}-{partition}"
        for table in (TOPIC_STATS, DELIVERY_STATS):
            _add(location, table, app_id, some)


def _add(location: Location, table: Table, app_id: str, told: Sequence[Told]) -> None:
    ensure_table(location, table)
    after = commits.last_version(location, table, app_id) or 0
    parsed = [_parse(one) for one in told if one.offset >= after]
    rows = rows_of(table, [one for one in parsed if one is not None])
    if not rows.num_rows:
        return
    files = write_rows(location, table, rows, attempt=secrets.token_hex(8))
    to = told[-1].offset + 1
    commits.add_files(location, table, files, app_id=app_id, app_version=to, after=after)
    log.info("action=stats_added table=%s rows=%d offset=%d", table.name, rows.num_rows, to)


def rows_of(table: Table, told: Iterable[Outcomes]) -> pa.Table:
    """The rows of one of the two tables, one for each minute and name."""
    schema = table.file_schema
    if table is TOPIC_STATS:
        topics = _merge((one.minute, row.topic, row) for one in told for row in one.topics)
        rows = [_topic_row(minute, row) for minute, row in topics]
    else:
        subscriptions = _merge(
            (one.minute, row.subscription, row) for one in told for row in one.subscriptions
        )
        rows = [_delivery_row(minute, row) for minute, row in subscriptions]
    return pa.Table.from_pylist(rows, schema=schema)


class _Adds(Protocol):
    def add(self, later: Self, /) -> None: ...


_Row = TypeVar("_Row", bound=_Adds)


def _merge(rows: Iterable[tuple[datetime, str, _Row]]) -> list[tuple[datetime, _Row]]:
    """Rows of the same minute and name as one, by minute and name; the later ones come later."""
    found: dict[tuple[datetime, str], _Row] = {}
    for minute, name, row in rows:
        first = found.setdefault((minute, name), row)
        if first is not row:
            first.add(row)
    return [(key[0], found[key]) for key in sorted(found)]


def _topic_row(minute: datetime, row: TopicOutcome) -> Mapping[str, object]:
    return {"minute": minute, "topic": row.topic, "messages": row.messages, "bytes": row.bytes}


def _delivery_row(minute: datetime, row: SubscriptionOutcome) -> Mapping[str, object]:
    fields = row.to_json()
    del fields["ack_latencies"]
    return {"minute": minute, **fields}


def _parse(told: Told) -> Outcomes | None:
    try:
        return Outcomes.from_message(told.data)
    except ValueError as error:
        # Any client may publish to this topic; that is no reason to stop.
        log.warning("action=outcomes_unreadable offset=%d error=%s", told.offset, error)
        return None
