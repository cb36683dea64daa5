"""Backtest: the messages of a window that a filter would have matched, or a schema refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa
from pyspark.sql import functions as F

from fanlog import times
from fanlog.errors import FailedPrecondition
from fanlog.model import names
from fanlog.model.resources import Encoding, SchemaType
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import history
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.work import ArrowTask, JobResult, Work
from fanlog.routing import filter_parse
from fanlog.schema import Mismatch, compile_schema
from fanlog.spark import column
from fanlog.wire.schemas import encoding_of, type_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

SAMPLES_DEFAULT = 10
SAMPLES_MAX = 100
#: Of a sample's data.
SHOWN_BYTES = 400
#: Different reasons that are counted apart.
REASONS_MAX = 20


class DayCount(TypedDict):
    """Messages of one topic on one day, and those among them that are hits."""

    topic: str
    day: str
    messages: int
    hits: int


def backtest(context: Context, work: Work) -> JobResult:
    """Do the job."""
    arguments = dict(work.arguments)
    if not arguments.keys() & {"topics", "pattern"}:
        arguments["pattern"] = names.topic_name(work.project, "#")
    messages = history.window(context, arguments)
    if "filter" in arguments:
        return _try_filter(context, work, messages, arguments["filter"])
    return _try_schema(context, work, messages)


def _try_filter(context: Context, work: Work, messages: DataFrame, text: str) -> JobResult:
    tree = filter_parse.parse(text)
    matches = F.lit(True) if tree is None else column(tree)
    with TaskProgress(context, work, phase="matching"):
        counts = count_hits(messages, matches)
    with TaskProgress(context, work, phase="taking samples"):
        samples = [_sample(row) for row in messages.where(matches).limit(_samples(work)).collect()]
    total, matched = _totals(counts)
    return {
        "messages": total,
        "matched": matched,
        "share": round(matched / total, 6) if total else 0.0,
        "by_topic_and_day": counts,
        "samples": samples,
    }


def _try_schema(context: Context, work: Work, messages: DataFrame) -> JobResult:
    kind, definition, revision = _definition(context, work)
    encodings = _encodings(context, work)
    checked = messages.select(
        "topic", "partition", "offset", "message_id", "publish_time", "attributes", "data"
    ).mapInArrow(
        _checking_task(kind, definition, encodings),
        "topic string, message_id string, publish_time timestamp, attributes map<string,string>, "
        "data binary, reason string",
    )
    refused = F.col("reason").isNotNull()
    with TaskProgress(context, work, phase="checking"):
        # Looked at three times, and checked once.
        checked = checked.persist()
        counts = count_hits(checked, refused)
        reasons = {
            row.reason: row["count"]
            for row in checked.where(refused)
            .groupBy("reason")
            .count()
            .orderBy(F.desc("count"), "reason")
            .limit(REASONS_MAX)
            .collect()
        }
        samples = [
            {**_sample(row), "reason": row.reason}
            for row in checked.where(refused).limit(_samples(work)).collect()
        ]
        checked.unpersist()
    total, rejected = _totals(counts)
    return {
        "messages": total,
        "rejected": rejected,
        "share": round(rejected / total, 6) if total else 0.0,
        "revision": revision,
        "by_topic_and_day": counts,
        "reasons": reasons,
        "samples": samples,
    }


def _samples(work: Work) -> int:
    return min(int(work.arguments.get("samples", SAMPLES_DEFAULT)), SAMPLES_MAX)


def count_hits(messages: DataFrame, is_hit: Column) -> list[DayCount]:
    """Messages and hits per topic and day, in order."""
    day = F.to_date("publish_time").alias("day")
    found = (
        messages.groupBy("topic", day)
        .agg(F.count(F.lit(1)).alias("messages"), F.count_if(is_hit).alias("hits"))
        .orderBy("topic", "day")
        .collect()
    )
    return [
        DayCount(topic=row.topic, day=str(row.day), messages=row.messages, hits=row.hits)
        for row in found
    ]


def _totals(counts: list[DayCount]) -> tuple[int, int]:
    return sum(one["messages"] for one in counts), sum(one["hits"] for one in counts)


def _sample(row: Row) -> dict[str, object]:
    """A message as people read it."""
    data = bytes(row.data)
    return {
        "topic": row.topic,
        "message_id": row.message_id,
        "publish_time": times.of_datetime(row.publish_time, timespec="auto"),
        "attributes": dict(row.attributes or {}),
        "data": data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
        + (f"… ({len(data)} bytes)" if len(data) > SHOWN_BYTES else ""),
    }


def _definition(context: Context, work: Work) -> tuple[SchemaType, str, str]:
    """Type, definition and id of the revision that is asked for."""
    name, revision = work.arguments["schema"], work.arguments.get("revision")
    with context.client() as client:
        schema, _ = client.get_schema(f"{name}@{revision}" if revision else name)
    return type_of(schema), schema.definition, schema.revision_id


def _encodings(context: Context, work: Work) -> dict[str, Encoding]:
    """How the messages of each topic are encoded: as was said, or as the topic says."""
    if "encoding" in work.arguments:
        return {"": work.arguments["encoding"]}
    found: dict[str, Encoding] = {}
    project = names.project_name(work.project)
    with context.client() as client:
        topics = work.arguments.get("topics")
        for topic in map(client.get_topic, topics) if topics else client.list_topics(project):
            if topic.HasField("schema_settings"):
                number = topic.schema_settings.encoding
                found[topic.name] = encoding_of(number, "schema_settings.encoding")
    if not found:
        raise FailedPrecondition(
            "arguments.encoding: none of the topics has a schema that would say it; give JSON or "
            "BINARY"
        )
    return found


def _checking_task(
    kind: SchemaType, definition: str, encodings: Mapping[str, Encoding]
) -> ArrowTask:
    """The work of a task: compile once, then check each message."""

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = compile_schema(kind, definition)

        def reason(topic: str, data: bytes) -> str | None:
            encoding = encodings.get("") or encodings.get(topic, "JSON")
            try:
                compiled.validate(data, encoding)
            except Mismatch as error:
                return str(error)
            return None

        for batch in batches:
            topics = batch.column("topic").to_pylist()
            found = map(reason, topics, batch.column("data").to_pylist())
            rest = batch.select(["topic", "message_id", "publish_time", "attributes", "data"])
            yield rest.append_column("reason", pa.array(found, pa.string()))

    return check
