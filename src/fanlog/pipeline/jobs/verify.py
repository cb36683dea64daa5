"""Verify: the lake against the log, partition by partition.

Between a partition's start and its archived offset the lake must have every offset once; and where
the hot log still has the same offsets, both must have the same bytes. Files are read to their
last byte; one that is damaged is named, and the others are looked at all the same.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from fanlog.client.log import LogClient
from fanlog.lake.api import RowRun
from fanlog.lake.index import FileIndex, LakeFile
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.lake.verification import Checked, check_file, spread
from fanlog.model import names
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.times import timestamp_pb
from fanlog.pipeline.jobs.work import ArrowTask, JobResult, Work
from fanlog.spark.cold import ColdSpans, list_files, read_file
from fanlog.spark.plan import Span
from fanlog.spark.schemas import arrow_schema
from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("fanlog.pipeline")

#: Partitions with something wrong, and damaged files, that the result names; the pipeline's log
#: names all of the latter.
NAMED_MAX = 100
FILES_NAMED_MAX = 500


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """The offsets of a partition that are checked: in the lake, and in the log as well."""

    topic: str
    partition: int
    start: int
    #: Where log and lake begin to overlap.
    warm: int
    end: int


def verify(context: Context, work: Work) -> JobResult:
    """Do the job."""
    parts = _parts(context, work)
    index = FileIndex(open_table(context.location, MESSAGES))
    files = _files(index, parts)
    found = check_files(context, work, files)
    damaged = [one for one in found if one.damage]
    for one in damaged:
        log.error("action=file_damaged job=%s reason=%s", work.name, one.damage)
    with TaskProgress(context, work, phase="comparing with the log"):
        hot, cold = _compare(context, parts, {one.path for one in damaged})
    runs: defaultdict[int, list[RowRun]] = defaultdict(list)
    for one in found:
        for run in one.runs:
            runs[run.partition].append(run)
    wrong: list[dict[str, object]] = []
    totals = {"messages": 0, "missing": 0, "duplicates": 0, "different": 0}
    for part in parts:
        count, distinct = spread(runs[part.partition], part.start, part.end)
        missing = part.end - part.start - distinct
        faults = {"missing": missing, "duplicates": count - distinct, "different": 0}
        if not missing and not faults["duplicates"]:
            mine, theirs = hot.get(part.partition), cold.get(part.partition)
            faults["different"] = int(mine != theirs)
        totals["messages"] += count
        for name, number in faults.items():
            totals[name] += number
        if any(faults.values()):
            wrong.append({"topic": part.topic, "partition": part.partition, **faults})
    return {
        "is_fine": not wrong and not damaged,
        "partitions": len(parts),
        "files": len(files),
        "damaged": len(damaged),
        "compared": sum(count for count, _ in hot.values()),
        **totals,
        "wrong": wrong[:NAMED_MAX],
        "damaged_files": [
            {"file": f"{MESSAGES.name}/{one.path}", "reason": one.damage}
            for one in damaged[:FILES_NAMED_MAX]
        ],
    }


def _parts(context: Context, work: Work) -> list[CheckedPartition]:
    """The partitions and offsets of the job, as far as they are archived."""
    arguments = work.arguments
    if "topics" in arguments:
        selection = log_pb2.TopicSelection(topics=arguments["topics"])
    else:
        pattern = arguments.get("pattern") or names.topic_name(work.project, "#")
        selection = log_pb2.TopicSelection(pattern=pattern)
    with context.client() as client:
        log_client = LogClient(client)
        answer = log_client.get_offsets(selection)
        bounds: dict[str, dict[int, int]] = {}
        for name in ("start_time", "end_time"):
            if name in arguments:
                time_us = timestamp_pb(arguments[name]).ToMicroseconds()
                bounds[name] = log_client.find_offsets(selection, time_us)
    parts = []
    for one in answer.partitions:
        start = max(one.start, bounds.get("start_time", {}).get(one.partition, one.start))
        end = min(one.archived, bounds.get("end_time", {}).get(one.partition, one.archived))
        if start < end:
            warm = min(max(start, one.hot_start), end)
            parts.append(CheckedPartition(one.topic, one.partition, start, warm, end))
    return parts


def _files(index: FileIndex, parts: Sequence[CheckedPartition]) -> list[LakeFile]:
    """The files that may have some of it."""
    found = {file.path: file for part in parts for file in index.with_partition(part.partition)}
    return [file for file in index.files if file.path in found]


def check_files(context: Context, work: Work, files: Sequence[LakeFile]) -> list[Checked]:
    """Read files on Spark, each whole."""
    total = sum(file.count for file in files)
    work.progress(0, total, "reading the lake")
    if not files:
        return []
    given = context.spark.createDataFrame(
        [(json.dumps(asdict(file)),) for file in files], "file string"
    )
    tasks = given.repartition(len(files)).mapInArrow(
        _checking_task(context.location), "checked string"
    )
    done = []
    for row in tasks.toLocalIterator(prefetchPartitions=True):
        done.append(Checked.from_json(row.checked))
        work.progress(work.done + sum(run.rows for run in done[-1].runs))
    return done


def _checking_task(location: Location) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("file").to_pylist():
                checked = check_file(location.filesystem(), LakeFile(**json.loads(text)))
                yield pa.RecordBatch.from_pydict({"checked": pa.array([checked.to_json()])})

    return run


#: By partition, how many messages, and a checksum of them.
_Sums = dict[int, tuple[int, Decimal]]
_COLUMNS = {
    "partition": "long",
    "offset": "long",
    "publish_time": "timestamp",
    "ordering_key": "string",
    "attributes": "map<string,string>",
    "data": "binary",
}


def _compare(
    context: Context, parts: Sequence[CheckedPartition], damaged: Set[str]
) -> tuple[_Sums, _Sums]:
    """The sums of the offsets that log and lake both have: of the log, and of the lake."""
    warm = [part for part in parts if part.warm < part.end]
    if not warm:
        return {}, {}
    # Messages that the log cannot read are missing, and so the sums differ.
    hot = (
        context.spark.read.format("fanlog")
        .option("endpoint", context.endpoint)
        .option("topics", ",".join(sorted({part.topic for part in warm})))
        .option("startingOffsets", _offsets(warm, "warm"))
        .option("endingOffsets", _offsets(warm, "end"))
        .option("failOnDataLoss", "false")
        .load()
        .select(*_COLUMNS)
    )
    return _sums(hot), _sums(_cold(context, warm, damaged))


def _cold(context: Context, warm: Sequence[CheckedPartition], damaged: Set[str]) -> DataFrame:
    """The rows of the lake at these offsets, without files that are damaged."""
    spans = tuple(Span(part.topic, part.partition, part.warm, part.end) for part in warm)
    wanted, location = ColdSpans(spans), context.location
    names = {f"{MESSAGES.name}/{path}" for path in damaged}
    files = [file for file in list_files(location, wanted) if file.path not in names]
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    if not files:
        return context.spark.createDataFrame([], columns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(with_sequence=False)
        for batch in batches:
            for number in batch.column("number").to_pylist():
                for rows in read_file(location, files[number], wanted, schema):
                    yield rows.select(list(_COLUMNS))

    given = context.spark.createDataFrame([(n,) for n in range(len(files))], "number int")
    return given.repartition(len(files)).mapInArrow(run, columns)


def _offsets(parts: Sequence[CheckedPartition], which: str) -> str:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for part in parts:
        found[part.topic][str(part.partition)] = getattr(part, which)
    return json.dumps(found)


def _sums(rows: DataFrame) -> _Sums:
    """A checksum of each partition's rows, for which their order does not matter."""
    attributes = F.sort_array(F.map_entries("attributes"))
    digest = F.xxhash64(
        "offset", "publish_time", "ordering_key", F.to_json(attributes), F.col("data")
    )
    # Sums of 64 bits run over; decimals do not.
    found = rows.groupBy("partition").agg(
        F.count(F.lit(1)).alias("messages"), F.sum(digest.cast("decimal(20,0)")).alias("sum")
    )
    return {row.partition: (row.messages, row.sum) for row in found.collect()}
