"""Replay: a window of history delivered again to one subscription, or published as copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap64
from pyspark.sql import Observation
from pyspark.sql import functions as F

from fanlog.client.reopening import ReopenClient
from fanlog.model import attributes
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import history
from fanlog.pipeline.jobs.place_order import in_order
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.times import timestamp_pb
from fanlog.pipeline.jobs.work import JobResult, Work
from fanlog.v1.replay_pb2 import OffsetSet, ReopenResponse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ReopenedOffsets:
    """The result of a reopening by sets of offsets."""

    matched: int
    reopened: int
    #: Messages that were not reopened, by reason.
    skipped: Counter[str]

    def to_json(self) -> JobResult:
        counts = {"matched": self.matched, "reopened": self.reopened}
        return counts | _skipped_json(self.skipped)


def replay(context: Context, work: Work) -> JobResult:
    """Do the job."""
    arguments = work.arguments
    if "to_topic" in arguments:
        return _copy(context, work)
    if "filter" not in arguments:
        return _reopen_window(context, work)
    with TaskProgress(context, work, phase="finding"):
        messages = history.where_matching(history.window(context, arguments), arguments["filter"])
        found = history.offset_sets(messages)
    return reopen(context, work, arguments["subscription"], found).to_json()


def reopen(
    context: Context, work: Work, subscription: str, found: Mapping[int, BitMap64]
) -> ReopenedOffsets:
    """Reopen sets of offsets, a partition at a time; each at most once."""
    total = sum(map(len, found.values()))
    work.progress(0, total, "reopening")
    reopened = done = 0
    skipped: Counter[str] = Counter()
    for partition, offsets in sorted(found.items()):
        compact = offsets.copy()
        compact.run_optimize()
        with context.client() as client:
            answer = ReopenClient(client).reopen(
                subscription,
                offsets=[OffsetSet(partition=partition, bitmap=compact.serialize())],
                request_id=f"{work.name}/{subscription}/{partition}",
            )
        reopened += answer.reopened
        skipped += _count_skipped(answer)
        done += len(offsets)
        work.progress(done, total)
    return ReopenedOffsets(total, reopened, skipped)


def _reopen_window(context: Context, work: Work) -> JobResult:
    """No filter, no Spark: the broker knows its offsets."""
    arguments = work.arguments
    # From the beginning, when no window is given: the broker wants it said.
    start = arguments.get("start_time", "1970-01-01T00:00:01Z")
    end = arguments.get("end_time")
    with context.client() as client:
        answer = ReopenClient(client).reopen(
            arguments["subscription"],
            start_time=timestamp_pb(start),
            end_time=None if end is None else timestamp_pb(end),
            request_id=f"{work.name}/window",
        )
    work.progress(answer.reopened, answer.reopened, "reopened")
    return {"reopened": answer.reopened, **_skipped_json(_count_skipped(answer))}


def _count_skipped(answer: ReopenResponse) -> Counter[str]:
    """How many messages the broker did not reopen, by reason."""
    return Counter({one.reason: one.count for one in answer.skipped_messages})


def _skipped_json(skipped: Counter[str]) -> dict[str, object]:
    reasons = [{"reason": reason, "count": count} for reason, count in skipped.items()]
    found: dict[str, object] = {"skipped": skipped.total()}
    return found | {"skipped_messages": reasons} if reasons else found


def _copy(context: Context, work: Work) -> JobResult:
    arguments = work.arguments
    # Asked before the window is read: what is published meanwhile is left out.
    places = history.places(context, arguments)
    messages = history.window(context, arguments)
    if "filter" in arguments:
        messages = history.where_matching(messages, arguments["filter"])
    with TaskProgress(context, work, phase="publishing"):
        rows = copies(in_order(messages, places), work.name)
        published = publish_once(context, work, rows, arguments["to_topic"])
    return {"published": published, "topic": arguments["to_topic"]}


def copies(messages: DataFrame, job: str) -> DataFrame:
    """Messages as they are published again, with their origin in attributes."""
    origin = F.create_map(
        F.lit(attributes.ORIGIN_TOPIC),
        F.col("topic"),
        F.lit(attributes.ORIGIN_ID),
        F.col("message_id"),
        F.lit(attributes.ORIGIN_TIME),
        F.date_format("publish_time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
        F.lit(attributes.ORIGIN_JOB),
        F.lit(job),
    )
    kept = [
        name
        for name in sorted(attributes.PUBLISHED)
        if not name.startswith((attributes.ORIGIN_PREFIX, attributes.DEDUP_PREFIX))
        and name not in attributes.PASSING
    ]
    # A name that was published before names were checked would be refused now.
    theirs = F.map_filter(
        "attributes", lambda key, _: ~key.startswith(attributes.PREFIX) | key.isin(kept)
    )
    return messages.select("data", F.map_concat(theirs, origin).alias("attributes"), "ordering_key")


def publish_once(context: Context, work: Work, rows: DataFrame, topic: str) -> int:
    """Publish rows through the sink; done again by another attempt, nothing more is published.

    Gives how many there are.
    """
    counted = Observation()
    (
        rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        .write.format("fanlog")
        .option("endpoint", context.endpoint)
        .option("topic", topic)
        .option("txnAppId", work.name)
        .option("txnVersion", "1")
        .mode("append")
        .save()
    )
    return int(counted.get["rows"])
