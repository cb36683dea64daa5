"""Fan-out: every subscription of a topic against a window of its history, in one pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from fanlog.model import names
from fanlog.model.ids import parse_message_id
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import history
from fanlog.pipeline.jobs.filter_join import SCHEMA, FanOut, matching_task
from fanlog.pipeline.jobs.replay import reopen
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.work import JobResult, Work
from fanlog.routing.pattern import Pattern
from fanlog.wire import types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Subscriptions that the result names, those with the most messages first.
NAMED_MAX = 1_000

_ATTRIBUTES = ("partition", "offset", "attributes")
_WHOLE = (*_ATTRIBUTES, "data", "ordering_key", "topic", "message_id", "publish_time")


def fan_out(context: Context, work: Work) -> JobResult:
    """Do the job."""
    topic = work.arguments["topic"]
    subscriptions = _subscriptions(context, topic)
    messages = messages_of(context, work)
    with TaskProgress(context, work, phase="matching"):
        found = offset_sets(messages, [one.filter for one in subscriptions])
    counts = {
        subscriptions[number].name: sum(map(len, sets.values())) for number, sets in found.items()
    }
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    result: dict[str, object] = {
        "subscriptions": len(subscriptions),
        "matching": len(ranked),
        "deliveries": sum(counts.values()),
        "by_subscription": dict(ranked[:NAMED_MAX]),
    }
    if work.arguments.get("reopen"):
        reopened = [
            reopen(context, work, subscriptions[number].name, sets).reopened
            for number, sets in sorted(found.items())
        ]
        result["reopened"] = sum(reopened)
    return result


def offset_sets(messages: DataFrame, filters: list[str]) -> dict[int, dict[int, BitMap64]]:
    """The offsets that each filter matches, by the filter's number, then by partition."""
    # Only columns that some filter looks at leave the JVM.
    columns = _WHOLE if FanOut(filters).looks_deeper else _ATTRIBUTES
    sets = messages.select(*columns).mapInArrow(matching_task(filters), SCHEMA)
    found: dict[int, dict[int, BitMap64]] = {}
    for batch in sets.toArrow().to_batches():
        for row in batch.to_pylist():
            mine = found.setdefault(row["number"], {})
            mine.setdefault(row["partition"], BitMap64())
            mine[row["partition"]] |= BitMap64.deserialize(row["offsets"])
    return found


def _subscriptions(context: Context, topic: str) -> list[types.Subscription]:
    """Every subscription that gets messages of the topic, by name or by pattern."""
    project, _, topic_id = topic.removeprefix("projects/").partition("/topics/")
    with context.client() as client:
        named = set(client.list_topic_subscriptions(topic))
        found = [
            one
            for one in client.list_subscriptions(names.project_name(project))
            if one.name in named or _matches(one.topic, project, topic_id)
        ]
    return [one for one in found if not one.detached]


def _matches(pattern: str, project: str, topic_id: str) -> bool:
    prefix = names.topic_name(project, "")
    if not pattern.startswith(prefix) or not names.is_pattern(pattern.removeprefix(prefix)):
        return False
    return Pattern(pattern.removeprefix(prefix)).matches(topic_id)


def messages_of(context: Context, work: Work) -> DataFrame:
    """The messages of the job: a single one, or a window of the topic's history.

    Raises:
        InvalidArgument: The message id is none.
    """
    if "message_id" not in work.arguments:
        return history.window(context, work.arguments)
    partition, offset = parse_message_id(work.arguments["message_id"])
    topic = work.arguments["topic"]
    return (
        context.spark.read.format("fanlog")
        .option("endpoint", context.endpoint)
        .option("topic", topic)
        .option("startingOffsets", json.dumps({topic: {str(partition): offset}}))
        .option("endingOffsets", json.dumps({topic: {str(partition): offset + 1}}))
        .load()
    )
