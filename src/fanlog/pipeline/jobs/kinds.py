"""The kinds of jobs, and the code of each."""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from fanlog.errors import FanlogError
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs.backtest import backtest
from fanlog.pipeline.jobs.fan_out import fan_out
from fanlog.pipeline.jobs.imports import import_files
from fanlog.pipeline.jobs.redrive import redrive
from fanlog.pipeline.jobs.replay import replay
from fanlog.pipeline.jobs.upkeep import compact, expire
from fanlog.pipeline.jobs.verify import verify
from fanlog.pipeline.jobs.work import JobResult, Stopped, Work
from fanlog.pipeline.spark_errors import cause_of, is_crash
from fanlog.pipeline.worker import JobRunner

log = logging.getLogger("fanlog.pipeline")

#: How often a job is tried when its processes die: one that is too large for this machine kills
#: them each time.
TRIES = 3


class JobCode(Protocol):
    """A job's code."""

    def __call__(self, context: Context, work: Work) -> JobResult:
        """Do the job; done twice, it has its effects once, by its name. Gives the result."""


_KINDS: dict[str, JobCode] = {
    "replay": replay,
    "redrive": redrive,
    "backtest": backtest,
    "fan-out": fan_out,
    "compact": compact,
    "expire": expire,
    "import": import_files,
    "verify": verify,
}


def runners(context: Context) -> dict[str, JobRunner]:
    """The kinds of jobs that a worker can do."""
    return {kind: partial(_run, context, do) for kind, do in _KINDS.items()}


def _run(context: Context, do: JobCode, work: Work) -> JobResult:
    for left in reversed(range(TRIES)):
        try:
            with context.driver.stoppable(work):
                return do(context, work)
        except FanlogError:
            raise
        except Exception as error:
            # Spark raises errors of many kinds, also when it was told to stop: no failure then.
            work.progress()
            if not context.driver.is_alive():
                # It is not the job's fault: another worker is to try.
                raise Stopped(f"job {work.name} has lost its Spark") from error
            if not left or not is_crash(error):
                raise
            log.warning("action=job_again job=%s error=%s", work.name, cause_of(error))
    raise AssertionError("the last try returns, or raises")
