"""Jobs as `fanlog job` shows them: how far they are, and their results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fanlog.cli.output import Output, resource
from fanlog.v1 import jobs_pb2

#: The order of a result's parts when it is shown, its subject first; the others follow by name.
_ORDER = (
    *("is_fine", "topic", "subscription", "partition", "day", "message_id", "publish_time"),
    *("messages", "matched", "rejected", "hits", "share", "reopened", "published", "attributes"),
)


def show_result(output: Output, result: Mapping[str, object]) -> None:
    output.fields({name: value for name, value in result.items() if not isinstance(value, list)})
    for name, rows in result.items():
        if not isinstance(rows, list) or not rows:
            continue
        output.text("")
        output.text(name.replace("_", " "))
        if isinstance(rows[0], dict):
            output.rows(list(rows[0]), rows)
        else:
            for row in rows:
                output.text(f"  {row}")


def fields_of(job: jobs_pb2.Job) -> dict[str, Any]:
    """A job's fields, its arguments and its result as they were."""
    fields = resource(job)
    of_ours = {name: _plain(fields[name]) for name in ("arguments", "result") if name in fields}
    return fields | of_ours


def _plain(value: object) -> object:
    """As it was: it travels as protobuf's JSON, which has floats only, and no order."""
    match value:
        case dict():
            return {name: _plain(value[name]) for name in sorted(value, key=_place)}
        case list():
            return [_plain(one) for one in value]
        case float() if value.is_integer():
            return int(value)
    return value


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def show_progress(job: jobs_pb2.Job) -> None:
    from fanlog.client.jobs import state_of

    parts = [state_of(job).lower(), job.phase]
    if job.total:
        parts.append(f"{job.done:,} of {job.total:,}")
    if job.rate:
        parts.append(f"{job.rate:,.0f}/s")
    if job.remaining_seconds:
        parts.append(f"about {job.remaining_seconds:,.0f} s to go")
    sys.stderr.write("\r\x1b[K" + "  ".join(part for part in parts if part))
    sys.stderr.flush()
