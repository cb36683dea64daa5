"""Pipelines: protobuf to values and back."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.pipelines import FlowReport, PipelineReport, PipelineView
from fanlog.v1 import pipelines_pb2 as pb
from fanlog.wire.fields import duration, time_ns_of, timestamp


def report_of(given: pb.Pipeline) -> PipelineReport:
    """Read a report.

    Raises:
        InvalidArgument: Names the field, its value and what it may be.
    """
    if not given.name:
        raise InvalidArgument("pipeline.name: is required")
    if given.HasField("silent") or given.missed:
        raise InvalidArgument("pipeline.silent, missed: are set by the server; leave them unset")
    texts = (given.name, given.version, given.spark_version, given.master, given.job)
    if any(len(text) > limits.NAME_LENGTH_MAX for text in texts):
        raise InvalidArgument(
            f"pipeline: a text has more than {limits.NAME_LENGTH_MAX} characters; name, version, "
            "spark_version, master and job have that many at most"
        )
    if len(given.flows) > limits.PIPELINE_FLOWS_MAX:
        raise InvalidArgument(
            f"pipeline.flows: {len(given.flows)} flows; at most {limits.PIPELINE_FLOWS_MAX} are "
            "allowed"
        )
    return PipelineReport(
        name=given.name,
        version=given.version,
        spark_version=given.spark_version,
        master=given.master,
        parallelism=given.parallelism,
        started_s=_time_s(given, "start_time"),
        flows=tuple(map(_flow, given.flows)),
        job=given.job,
    )


def report_pb(report: PipelineReport) -> pb.Pipeline:
    """A report, as a pipeline sends it."""
    return pb.Pipeline(
        name=report.name,
        version=report.version,
        spark_version=report.spark_version,
        master=report.master,
        parallelism=report.parallelism,
        start_time=_time(report.started_s),
        flows=map(_flow_pb, report.flows),
        job=report.job,
    )


def pipeline_pb(view: PipelineView) -> pb.Pipeline:
    """A pipeline, as the server shows it."""
    found = report_pb(view.report)
    found.silent.CopyFrom(duration(round(view.silent_s, 3)))
    found.missed = view.is_missed
    return found


def _flow(given: pb.PipelineFlow) -> FlowReport:
    if not 0 < len(given.name) <= limits.NAME_LENGTH_MAX:
        raise InvalidArgument(
            f"pipeline.flows.name: has {len(given.name)} characters; 1 to "
            f"{limits.NAME_LENGTH_MAX} are allowed"
        )
    if given.state not in (pb.PipelineFlow.RUNNING, pb.PipelineFlow.RESTING):
        raise InvalidArgument(f"pipeline.flows.state: {given.state} is not RUNNING or RESTING")
    return FlowReport(
        name=given.name,
        state="RESTING" if given.state == pb.PipelineFlow.RESTING else "RUNNING",
        started_s=_time_s(given, "start_time"),
        batch=given.batch if given.HasField("batch") else None,
        batch_s=_time_s(given, "batch_time"),
        failures=given.failures,
        failed_s=_time_s(given, "failure_time"),
        error=given.error[: limits.PIPELINE_ERROR_LENGTH_MAX],
    )


def _flow_pb(flow: FlowReport) -> pb.PipelineFlow:
    return pb.PipelineFlow(
        name=flow.name,
        state=flow.state,
        start_time=_time(flow.started_s),
        batch=flow.batch,
        batch_time=_time(flow.batch_s),
        failures=flow.failures,
        failure_time=_time(flow.failed_s),
        error=flow.error,
    )


def _time(time_s: float | None) -> Timestamp | None:
    return None if time_s is None else timestamp(time_s)


def _time_s(given: pb.Pipeline | pb.PipelineFlow, field: str) -> float | None:
    if not given.HasField(field):
        return None
    return time_ns_of(getattr(given, field), field) / 1e9
