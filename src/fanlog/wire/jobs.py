"""Jobs: protobuf to values and back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge
from fanlog.model.jobs import Job, JobReport, State
from fanlog.model.json_value import JsonObject
from fanlog.v1 import jobs_pb2
from fanlog.wire.fields import timestamp


def values_of(struct: Struct, field: str) -> JsonObject:
    """A Struct as plain values.

    Raises:
        TooLarge: More than a job may have.
        InvalidArgument: It has a number that JSON does not have, or is nested too deeply.
    """
    # The bytes of the Struct first: to make values of it costs far more than to refuse it.
    size = struct.ByteSize()
    if size <= limits.JOB_BYTES_MAX:
        values = _plain(struct, field)
        check_nesting(values, field)
        size = len(json.dumps(values))
    if size > limits.JOB_BYTES_MAX:
        raise TooLarge(f"{field}: {size} bytes; at most {limits.JOB_BYTES_MAX} are allowed")
    return values


def check_nesting(values: object, field: str) -> None:
    """Raises InvalidArgument: Lists and objects are within each other more often than allowed."""
    level = [values]
    for _ in range(limits.JOB_NESTING_MAX + 1):
        level = [inner for value in level for inner in _within(value)]
        if not level:
            return
    raise InvalidArgument(
        f"{field}: lists and objects are nested more than {limits.JOB_NESTING_MAX} deep"
    )


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _plain(struct: Struct, field: str) -> JsonObject:
    try:
        return json_format.MessageToDict(struct)
    except (json_format.Error, ValueError) as error:
        raise InvalidArgument(f"{field}: {error}") from error


def job_pb(job: Job) -> jobs_pb2.Job:
    shown = jobs_pb2.Job(
        name=job.name,
        kind=job.kind,
        state=job.state,
        done=job.done,
        total=job.total,
        phase=job.phase,
        error=job.error,
        worker=job.worker,
        attempt=job.attempt,
        rate=job.rate,
        remaining_seconds=job.remaining_s,
    )
    shown.arguments.update(dict(job.arguments))
    if job.result:
        shown.result.update(dict(job.result))
    for field, seconds in (
        ("create_time", job.created_s),
        ("start_time", job.started_s),
        ("update_time", job.updated_s),
        ("end_time", job.ended_s),
    ):
        if seconds:
            getattr(shown, field).CopyFrom(timestamp(seconds))
    return shown


def report_of(request: jobs_pb2.ReportJobRequest) -> JobReport:
    """Raises InvalidArgument."""
    state: State
    match jobs_pb2.Job.State.Name(request.state):
        case "RUNNING" | "DONE" | "FAILED" | "CANCELLED" as state:
            pass
        case _:
            raise InvalidArgument("state: a worker reports RUNNING, DONE, FAILED or CANCELLED")
    return JobReport(
        worker=request.worker,
        attempt=request.attempt,
        state=state,
        done=request.done,
        total=request.total,
        phase=request.phase,
        error=request.error,
        result=values_of(request.result, "result"),
    )
