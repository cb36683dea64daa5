"""Verify: the lake against the log, partition by partition.

What must hold: between a partition's start and what is archived, the lake has every offset once,
and where the hot log still has the same offsets, both have the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from fanlog import names
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.pipeline.context import Context
from fanlog.pipeline.progress import Progress
from fanlog.pipeline.work import Work
from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Partitions with something wrong that are named.
NAMED_MAX = 100


def verify(context: Context, work: Work) -> Mapping[str, Any]:
    """Do the job."""
    parts = _parts(context, work)
    with Progress(context, work, phase="counting the lake"):
        lake = _lake(context, parts)
        found = {row.partition: row for row in _counted(lake).collect()}
    with Progress(context, work, phase="comparing with the log"):
        hot = {row.partition: row for row in _sums(_hot(context, parts)).collect()}
        cold = {row.partition: row for row in _sums(_within(lake, _warm(parts))).collect()}
    wrong: list[dict[str, Any]] = []
    totals = {"messages": 0, "missing": 0, "duplicates": 0, "different": 0}
    for part in parts:
        row = found.get(part.partition)
        count, distinct = (row.messages, row.offsets) if row else (0, 0)
        missing = part.archived - part.start - distinct
        said = {"missing": missing, "duplicates": count - distinct, "different": 0}
        mine, theirs = hot.get(part.partition), cold.get(part.partition)
        if mine is not None and not missing and not said["duplicates"]:
            same = theirs is not None and (mine.messages, mine.sum) == (
                theirs.messages,
                theirs.sum,
            )
            said["different"] = 0 if same else 1
        totals["messages"] += count
        for name, number in said.items():
            totals[name] += number
        if any(said.values()):
            wrong.append({"topic": part.topic, "partition": part.partition, **said})
    return {
        "is_fine": not wrong,
        "partitions": len(parts),
        "compared": sum(row.messages for row in hot.values()),
        **totals,
        "wrong": wrong[:NAMED_MAX],
    }


def _parts(context: Context, work: Work) -> list[Any]:
    """The archived partitions that the job is about."""
    arguments = work.arguments
    if "topics" in arguments:
        selection = log_pb2.TopicSelection(topics=arguments["topics"])
    else:
        pattern = arguments.get("pattern") or names.topic_name(work.project, "#")
        selection = log_pb2.TopicSelection(pattern=pattern)
    request = log_pb2.GetOffsetsRequest(selection=selection)
    with context.client() as client:
        answer = client.call("fanlog.v1.Log/GetOffsets", request, log_pb2.GetOffsetsResponse)
    return [part for part in answer.partitions if part.archived > part.start]


def _lake(context: Context, parts: list[Any]) -> DataFrame:
    """What the lake has of the partitions, from their starts to what is archived."""
    files = open_table(context.location, MESSAGES).file_uris()
    rows = context.spark.read.schema(_SCHEMA).parquet(*files) if files else None
    if rows is None:
        rows = context.spark.createDataFrame([], _SCHEMA)
    return _within(rows, [(one.partition, one.start, one.archived) for one in parts])


_SCHEMA = (
    "partition long, offset long, publish_time timestamp, ordering_key string, "
    "attributes map<string,string>, data binary"
)


def _hot(context: Context, parts: list[Any]) -> DataFrame:
    """What the log has of it, too."""
    topics = sorted({part.topic for part in parts if part.hot_start < part.archived})
    if not topics:
        return context.spark.createDataFrame([], _SCHEMA)
    rows = (
        context.spark.read.format("fanlog")
        .option("endpoint", context.endpoint)
        .option("topics", ",".join(topics))
        .load()
        .select(*[one.split()[0] for one in _SCHEMA.split(", ")])
    )
    return _within(rows, _warm(parts))


def _warm(parts: list[Any]) -> list[tuple[int, int, int]]:
    """Where log and lake overlap."""
    return [(one.partition, one.hot_start, one.archived) for one in parts]


def _within(rows: DataFrame, spans: list[tuple[int, int, int]]) -> DataFrame:
    """Rows within spans of offsets."""
    session = rows.sparkSession
    wanted = session.createDataFrame(spans, "p long, low long, high long")
    is_wanted = (
        (F.col("partition") == F.col("p"))
        & (F.col("offset") >= F.col("low"))
        & (F.col("offset") < F.col("high"))
    )
    return rows.join(F.broadcast(wanted), is_wanted).drop("p", "low", "high")


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("partition").agg(
        F.count(F.lit(1)).alias("messages"), F.count_distinct("offset").alias("offsets")
    )


def _sums(rows: DataFrame) -> DataFrame:
    """A checksum of each partition's rows, in whatever order they come."""
    attributes = F.sort_array(F.map_entries("attributes"))
    digest = F.xxhash64(
        "offset", "publish_time", "ordering_key", F.to_json(attributes), F.col("data")
    )
    # Sums of 64 bits run over; decimals do not.
    return rows.groupBy("partition").agg(
        F.count(F.lit(1)).alias("messages"), F.sum(digest.cast("decimal(20,0)")).alias("sum")
    )
