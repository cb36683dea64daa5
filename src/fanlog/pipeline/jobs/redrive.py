"""Redrive: dead letters found in history, and given back to the subscription they failed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from fanlog.client.reopening import ReopenClient
from fanlog.model import attributes
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import history
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.work import Arguments, JobResult, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Letters of one request.
LETTERS = 1_000


def redrive(context: Context, work: Work) -> JobResult:
    """Do the job. Letters that come while it runs are left to another."""
    ids = work.arguments.get("message_ids") or _find(context, work)
    return _give_back(context, work, ids)


def letters(messages: DataFrame, arguments: Arguments) -> DataFrame:
    """Candidates for the dead letters of a job; the broker decides which of them are letters."""
    said = F.col("attributes")
    chosen = messages.where(said[attributes.LETTER_SUBSCRIPTION].isNotNull())
    if "reason" in arguments:
        chosen = chosen.where(said[attributes.LETTER_REASON].contains(arguments["reason"]))
    if "source" in arguments:
        _, project, _, name = arguments["source"].split("/")
        chosen = chosen.where(
            (said[attributes.LETTER_SUBSCRIPTION] == name)
            & (said[attributes.LETTER_PROJECT] == project)
        )
    if "filter" in arguments:
        chosen = history.where_matching(chosen, arguments["filter"])
    return chosen


def _find(context: Context, work: Work) -> list[str]:
    with TaskProgress(context, work, phase="finding"):
        found = letters(history.window(context, work.arguments), work.arguments)
        rows = found.select("message_id").orderBy("partition", "offset").collect()
    return [row.message_id for row in rows]


def _give_back(context: Context, work: Work, ids: Sequence[str]) -> JobResult:
    reopened = copied = skipped = 0
    work.progress(0, len(ids), "redriving")
    with context.client() as client:
        for number, some in enumerate(_chunks(ids)):
            answer = ReopenClient(client).redrive(
                work.arguments["subscription"],
                some,
                request_id=f"{work.name}/{number}",
                copies=work.arguments.get("copies", False),
            )
            reopened += answer.reopened
            copied += answer.copied
            skipped += answer.skipped
            work.progress(work.done + len(some))
    return {"letters": len(ids), "reopened": reopened, "copied": copied, "skipped": skipped}


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), LETTERS):
        yield ids[start : start + LETTERS]
