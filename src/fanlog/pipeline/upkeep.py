"""Compact and expire: jobs that rewrite files of the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fanlog.errors import InvalidArgument
from fanlog.lake import rewriting
from fanlog.lake.files import DataFile
from fanlog.lake.location import Location
from fanlog.lake.rewriting import Rewrite
from fanlog.lake.tables import MESSAGES
from fanlog.lake.turns import CommitLost
from fanlog.pipeline.context import Context
from fanlog.pipeline.work import Work
from fanlog.v1 import log_pb2

_MADE = "rewrite string, file string, gone long"


def compact(context: Context, work: Work) -> Mapping[str, Any]:
    """Merge small files; then delete those that nobody has needed for a day."""
    table = work.arguments.get("table", MESSAGES.name)
    if table != MESSAGES.name:
        raise InvalidArgument(f"arguments.table: {table!r}; only {MESSAGES.name} is compacted")
    target = int(work.arguments.get("target_bytes", 0)) or rewriting.TARGET_BYTES
    _, files = rewriting.files_of(context.location)
    planned = rewriting.plan_merges(files, target_bytes=target)
    replaced, made, _ = _rewritten(context, work, planned, is_change=False)
    deleted = rewriting.vacuum(context.location)
    return {"files_before": len(files), "merged": replaced, "into": made, "deleted": deleted}


def expire(context: Context, work: Work) -> Mapping[str, Any]:
    """Leave out rows below where the broker says that partitions start: retention let them go."""
    with context.client() as client:
        request = log_pb2.GetOffsetsRequest()
        answer = client.call("fanlog.v1.Log/GetOffsets", request, log_pb2.GetOffsetsResponse)
    starts = {part.partition: part.start for part in answer.partitions if part.start}
    _, files = rewriting.files_of(context.location)
    planned = rewriting.plan_expiry(files, starts)
    replaced, _, gone = _rewritten(context, work, planned, is_change=True)
    return {"messages": gone, "files": replaced}


def _rewritten(
    context: Context, work: Work, planned: Sequence[Rewrite], *, is_change: bool
) -> tuple[int, int, int]:
    """Do rewrites on Spark, commit each as it comes; files replaced, files made, rows gone."""
    total = sum(one.size_bytes for one in planned)
    work.progress(0, total, "rewriting")
    if not planned:
        return 0, 0, 0
    spark = context.spark
    given = spark.createDataFrame([(one.to_json(),) for one in planned], "rewrite string")
    made = given.repartition(len(planned)).mapInArrow(_task(context.location), _MADE)
    replaced = files = gone = 0
    for row in made.toLocalIterator(prefetchPartitions=True):
        what = Rewrite.from_json(row.rewrite)
        work.progress(work.done + what.size_bytes)
        if row.gone < 0:
            continue
        file = None if row.file is None else DataFile.from_json(row.file)
        try:
            rewriting.replace_files(context.location, what, file, is_change=is_change)
        except CommitLost:
            # Somebody else did it. What was written is vacuumed one day.
            continue
        replaced += len(what.paths)
        files += file is not None
        gone += row.gone
    return replaced, files, gone


def _task(location: Location) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("rewrite").to_pylist():
                made, gone = rewriting.rewrite(location, Rewrite.from_json(text))
                yield pa.RecordBatch.from_pydict(
                    {
                        "rewrite": pa.array([text]),
                        "file": pa.array([made and made.to_json()], pa.string()),
                        "gone": pa.array([gone], pa.int64()),
                    }
                )

    return run
