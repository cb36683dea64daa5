"""Compact and expire: jobs that rewrite files of the lake."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import pyarrow as pa

from fanlog import times
from fanlog.client.log import LogClient
from fanlog.lake import rewrites, upkeep
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.files import DataFile
from fanlog.lake.index import FileIndex
from fanlog.lake.location import LakeError, Location
from fanlog.lake.rewrites import FileUnreadable, Rewrite
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs.verify import check_files
from fanlog.pipeline.jobs.work import ArrowTask, JobResult, Work
from fanlog.v1 import log_pb2

log = logging.getLogger("fanlog.pipeline")

_MADE = "rewrite string, file string, gone long, damaged array<string>"
#: Damaged files that the result names; the pipeline's log names all.
NAMED_MAX = 100


def compact(context: Context, work: Work) -> JobResult:
    """Merge small files; then delete those that no reader has needed for a day."""
    arguments = work.arguments
    target = int(arguments.get("target_bytes", 0)) or rewrites.TARGET_BYTES
    wanted = arguments.get("table")
    if wanted is not None and wanted != MESSAGES.name:
        table = upkeep.find_table(context.location, wanted)
        return {"tables": _tend(context, work, [table], target, is_told=True)}
    done = _compact(context, work, target, is_mending=bool(arguments.get("drop_damaged")))
    if wanted is None:
        others = upkeep.tables_of(context.location)
        done["tables"] = _tend(context, work, others, target, is_told=False)
    return done


def expire(context: Context, work: Work) -> JobResult:
    """Leave out rows below where the broker says that partitions start: retention let them go.

    Of another table than `messages`, rows before a time, and only when the caller says so.
    """
    if "table" in work.arguments:
        table = upkeep.find_table(context.location, work.arguments["table"])
        work.progress(0, 0, "deleting")
        before = times.parse(work.arguments["before"])
        return {"table": table, "rows": upkeep.delete_before(context.location, table, before)}
    with context.client() as client:
        answer = LogClient(client).get_offsets(log_pb2.TopicSelection())
    starts = {part.partition: part.start for part in answer.partitions if part.start}
    _, files = rewrites.files_of(context.location)
    planned = rewrites.plan_expiry(files, starts)
    done = _rewrite(context, work, planned, is_change=True)
    return {"messages": done.gone, "files": done.replaced} | done.faults()


@dataclass
class _Done:
    """The result of some rewrites."""

    replaced: int = 0
    made: int = 0
    #: Rows that were left out.
    gone: int = 0
    #: By path, why each cannot be read.
    damaged: dict[str, str] = field(default_factory=dict)

    def faults(self) -> dict[str, object]:
        """The damaged files, if there are any."""
        if not self.damaged:
            return {}
        return {"is_fine": False, "damaged_files": list(self.damaged.values())[:NAMED_MAX]}


def _compact(context: Context, work: Work, target: int, *, is_mending: bool) -> dict[str, object]:
    dropped = {"dropped_messages": _mend(context, work)} if is_mending else {}
    _, files = rewrites.files_of(context.location)
    planned = rewrites.plan_merges(files, target_bytes=target)
    done = _rewrite(context, work, planned, is_change=False)
    deleted = rewrites.vacuum(context.location)
    counts = {"files_before": len(files), "merged": done.replaced, "into": done.made}
    return counts | {"deleted": deleted} | dropped | done.faults()


def _tend(
    context: Context, work: Work, tables: Sequence[str], target: int, *, is_told: bool
) -> list[dict[str, object]]:
    """Compact tables one by one; the failure of one does not stop the others."""
    found: list[dict[str, object]] = []
    for table in tables:
        work.progress(phase=f"compacting {table}")
        try:
            found.append(asdict(upkeep.compact(context.location, table, target_bytes=target)))
        except (CommitLost, LakeError) as error:
            if is_told:
                raise
            log.warning("action=not_compacted table=%s error=%s", table, error)
            found.append({"table": table, "error": error.message})
    return found


def _rewrite(context: Context, work: Work, planned: Sequence[Rewrite], *, is_change: bool) -> _Done:
    """Do rewrites on Spark, commit each as it comes."""
    total = sum(one.size_bytes for one in planned)
    work.progress(0, total, "rewrites")
    done = _Done()
    if not planned:
        return done
    spark = context.spark
    given = spark.createDataFrame([(one.to_json(),) for one in planned], "rewrite string")
    made = given.repartition(len(planned)).mapInArrow(_rewriting_task(context.location), _MADE)
    for row in made.toLocalIterator(prefetchPartitions=True):
        what = Rewrite.from_json(row.rewrite)
        work.progress(work.done + what.size_bytes)
        for path, reason in zip(row.damaged[::2], row.damaged[1::2], strict=True):
            log.error("action=file_damaged job=%s reason=%s", work.name, reason)
            done.damaged[path] = reason
        if row.gone < 0:
            continue
        file = None if row.file is None else DataFile.from_json(row.file)
        try:
            rewrites.replace_files(context.location, what, file, is_change=is_change)
        except CommitLost:
            # Another job did it. The file that was written is vacuumed one day.
            continue
        done.replaced += len(what.paths)
        done.made += file is not None
        done.gone += row.gone
    return done


def _mend(context: Context, work: Work) -> int:
    """Put the readable rows of damaged files in their place; how many messages are gone then."""
    location = context.location
    index = FileIndex(open_table(location, MESSAGES))
    damaged = {one.path for one in check_files(context, work, index.files) if one.damage}
    _, files = rewrites.files_of(location)
    gone = 0
    for file in files:
        if file.path in damaged:
            work.progress(phase=f"mending {file.path}")
            what = Rewrite(date=file.date, paths=(file.path,), size_bytes=file.size_bytes)
            made = rewrites.mend(location, what)
            rewrites.replace_files(location, what, made, is_change=True)
            gone += file.count - (made.count if made is not None else 0)
            log.warning("action=file_dropped job=%s file=%s", work.name, file.path)
    return gone


def _rewriting_task(location: Location) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("rewrite").to_pylist():
                what, made, gone, damaged = _attempt(location, Rewrite.from_json(text))
                yield pa.RecordBatch.from_pydict(
                    {
                        "rewrite": pa.array([what.to_json()]),
                        "file": pa.array([made and made.to_json()], pa.string()),
                        "gone": pa.array([gone], pa.int64()),
                        "damaged": pa.array([damaged], pa.list_(pa.string())),
                    }
                )

    return run


def _attempt(location: Location, what: Rewrite) -> tuple[Rewrite, DataFile | None, int, list[str]]:
    """Do a rewrite, without files that are damaged; paths and reasons of those, in turn."""
    damaged: list[str] = []
    least = len(what.paths) if what.starts else 2
    while len(what.paths) >= least:
        try:
            made, gone = rewrites.rewrite(location, what)
        except FileUnreadable as error:
            damaged += (error.path, error.reason)
            left = tuple(path for path in what.paths if path != error.path)
            what = replace(what, paths=left)
        else:
            return what, made, gone, damaged
    return what, None, -1, damaged
