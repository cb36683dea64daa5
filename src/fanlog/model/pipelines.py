"""Pipelines as they tell a server of themselves: their Spark, and how their flows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FlowState = Literal["RUNNING", "RESTING"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """One flow."""

    name: str
    #: RESTING after a failure, until it begins again.
    state: FlowState
    #: When it began to run, for the last time.
    started_s: float | None = None
    #: The number of the last batch, and its time; None for a flow that does not count them.
    batch: int | None = None
    batch_s: float | None = None
    #: Since the pipeline started; the time of the last one, and its reason.
    failures: int = 0
    failed_s: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """One pipeline."""

    #: The name of its worker.
    name: str
    version: str
    spark_version: str
    master: str
    parallelism: int
    started_s: float | None
    flows: tuple[FlowReport, ...]
    #: Full name of the job under way; empty for none.
    job: str = ""


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline as the server sees it."""

    report: PipelineReport
    #: Since it was heard of.
    silent_s: float
    #: It should have been heard of since.
    is_missed: bool
