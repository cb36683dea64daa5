"""`fanlog job`: ask the pipeline for replay, backtest and the rest; see how far they are."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from fanlog import times
from fanlog.cli import options
from fanlog.cli.output import Output, note, resource
from fanlog.errors import JobFailed
from fanlog.model import names

app = typer.Typer(no_args_is_help=True, help="Ask the pipeline for work, and see how far it is.")

Name = Annotated[str, typer.Argument(metavar="JOB", help="A job: short or full name.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Published from then on; 2h is two hours ago."),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Published before then.")]
Filter = Annotated[
    str | None, typer.Option("--filter", help="Only what this filter matches; see the guide.")
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for its end, showing how far it is.")
]
Id = Annotated[
    str, typer.Option("--id", metavar="ID", help="Its name; asking twice is then asking once.")
]
TopicNames = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic; may be given many times."),
]
Pattern = Annotated[str | None, typer.Option(help="Topics by a pattern, such as orders.#")]

#: How parts of a result are shown, what it is about first; the others follow by name.
_ORDER = (
    *("is_fine", "topic", "subscription", "partition", "day", "message_id", "publish_time"),
    *("messages", "matched", "rejected", "hits", "share", "reopened", "published", "attributes"),
)


@app.command()
def replay(
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION")],
    start: From = None,
    end: To = None,
    filter_: Filter = None,
    to_topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Publish copies there instead of delivering again."),
    ] = None,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Deliver a window of history again to a subscription."""
    arguments = {"subscription": subscription, "filter": filter_, "to_topic": to_topic}
    _ask("replay", arguments | _window(start, end), job_id, wait, project, endpoint, json)


@app.command()
def redrive(
    subscription: Annotated[str, typer.Argument(metavar="DEAD_LETTER_SUBSCRIPTION")],
    start: From = None,
    end: To = None,
    reason: Annotated[
        str | None, typer.Option(help="Only letters whose reason has this in it.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="SUBSCRIPTION", help="Only what failed on this one.")
    ] = None,
    message_id: Annotated[
        list[str] | None, typer.Option(help="Only this letter; may be given many times.")
    ] = None,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies",
            help="Where the original is gone, publish a copy for the subscription that failed.",
        ),
    ] = False,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Bring dead letters back to the subscription they failed on."""
    arguments = {
        "subscription": subscription,
        "reason": reason,
        "source": source,
        "message_ids": message_id,
        "copies": copies or None,
    }
    _ask("redrive", arguments | _window(start, end), job_id, wait, project, endpoint, json)


@app.command()
def backtest(
    filter_: Filter = None,
    schema: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="A schema instead of a filter.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Of the schema; the latest if not.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="JSON or BINARY; the topic's if not given.")
    ] = None,
    topic: TopicNames = None,
    pattern: Pattern = None,
    start: From = None,
    end: To = None,
    samples: Annotated[int, typer.Option(help="How many messages to show.")] = 10,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Say what a filter would have matched, or a schema refused, in history."""
    arguments = {
        "filter": filter_,
        "schema": schema,
        "revision": revision,
        "encoding": encoding,
        "topics": topic,
        "pattern": pattern,
        "samples": samples,
    }
    _ask("backtest", arguments | _window(start, end), job_id, wait, project, endpoint, json)


@app.command("fan-out")
def fan_out(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: From = None,
    end: To = None,
    message_id: Annotated[str | None, typer.Option(help="Who would have got this one.")] = None,
    reopen: Annotated[
        bool, typer.Option("--reopen", help="Deliver it again, to every one that it matches.")
    ] = False,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Match every subscription of a topic against a window of its history."""
    arguments = {"topic": topic, "message_id": message_id, "reopen": reopen or None}
    _ask("fan-out", arguments | _window(start, end), job_id, wait, project, endpoint, json)


@app.command()
def compact(
    table: Annotated[
        str | None,
        typer.Option(help="Only this table of the lake: `messages`, one of an export, ..."),
    ] = None,
    drop_damaged: Annotated[
        bool,
        typer.Option(
            "--drop-damaged",
            help="Of damaged files of `messages`, keep what can be read and give up the rest.",
        ),
    ] = False,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Merge the small files of the lake's tables, and delete those nobody has needed for a day."""
    arguments = {"table": table, "drop_damaged": drop_damaged or None}
    _ask("compact", arguments, job_id, wait, project, endpoint, json)


@app.command()
def expire(
    table: Annotated[
        str | None,
        typer.Option(help="Rows of this table instead, such as that of an export; with --before."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Older than this: RFC 3339, or 90d for 90 days ago."),
    ] = None,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Let go of messages older than their topic's retention; or of old rows of another table."""
    time = before and times.of_datetime(options.moment(before, "--before"))
    _ask("expire", {"table": table, "before": time}, job_id, wait, project, endpoint, json)


@app.command("import")
def import_(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Below an import root of the pipeline, as it sees it."),
    ],
    format_: Annotated[str, typer.Option("--format", help="parquet, json or csv.")],
    data: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    attributes: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    ordering_key: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Publish the rows of files; without --data, a row is published as a JSON object."""
    arguments = {
        "topic": topic,
        # A short path is meant from here, and the pipeline has a folder of its own.
        "path": path if ":" in path else os.path.abspath(path),
        "format": format_,
        "data": data,
        "attributes": attributes,
        "ordering_key": ordering_key,
    }
    _ask("import", arguments, job_id, wait, project, endpoint, json)


@app.command()
def verify(
    topic: TopicNames = None,
    pattern: Pattern = None,
    start: From = None,
    end: To = None,
    job_id: Id = "",
    wait: Wait = True,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Compare lake and log: counts, gaps, duplicates, checksums.

    Exits with 1 when something is wrong; every damaged file is named.
    """
    arguments = {"topics": topic, "pattern": pattern} | _window(start, end)
    _ask("verify", arguments, job_id, wait, project, endpoint, json)


@app.command("list")
def list_(
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List the jobs of a project."""
    from fanlog.client.jobs import JobClient

    with options.connect(endpoint) as client:
        found = (resource(one) for one in JobClient(client).list_jobs(names.project_name(project)))
        Output(is_json=json).rows(["name", "kind", "state", "done", "total", "error"], found)


@app.command()
def describe(
    job: Name,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Show a job: what it is to do, how far it is, what came of it."""
    from fanlog.client.jobs import JobClient

    with options.connect(endpoint) as client:
        found = _fields(JobClient(client).get(_full(job, project)))
    output = Output(is_json=json)
    if json:
        output.line(found)
        return
    result = found.pop("result", {})
    output.fields(found)
    if result:
        output.text("")
        _show(output, result)


@app.command()
def wait(
    job: Name,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Wait for a job's end, and show what came of it."""
    with options.connect(endpoint) as client:
        _wait(client, _full(job, project), json)


@app.command()
def cancel(
    job: Name,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Ask a job to stop."""
    from fanlog.client.jobs import JobClient, state_of

    with options.connect(endpoint) as client:
        found = JobClient(client).cancel(_full(job, project))
    Output(is_json=json).done(f"job {found.name} is {state_of(found)}", resource(found))


@app.command()
def delete(
    job: Name,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Forget a job that has ended."""
    from fanlog.client.jobs import JobClient

    name = _full(job, project)
    with options.connect(endpoint) as client:
        JobClient(client).delete(name)
    Output(is_json=json).done(f"deleted job {name}", {"name": name, "deleted": True})


def _window(start: str | None, end: str | None) -> dict[str, Any]:
    return {
        "start_time": start and times.of_datetime(options.moment(start, "--from")),
        "end_time": end and times.of_datetime(options.moment(end, "--to")),
    }


def _full(job: str, project: str) -> str:
    return names.parse_job(job if "/" in job else names.job_name(project, job), field="JOB")


def _ask(
    kind: str,
    arguments: dict[str, Any],
    job_id: str,
    wait: bool,
    project: str,
    endpoint: str | None,
    json: bool,
) -> None:
    from fanlog.client.jobs import JobClient

    given = {name: value for name, value in arguments.items() if value is not None}
    parent = names.project_name(project)
    with options.connect(endpoint) as client:
        job = JobClient(client).create(parent, kind, given, job_id=job_id)
        if wait:
            _wait(client, job.name, json)
        else:
            Output(is_json=json).done(f"asked for job {job.name}", resource(job))


def _wait(client: Any, name: str, json: bool) -> None:
    from fanlog.client.jobs import JobClient, state_of

    is_shown = not json and sys.stderr.isatty()
    try:
        job = JobClient(client).wait(name, on_progress=_progress if is_shown else lambda _: None)
    except KeyboardInterrupt:
        note(f"\njob {name} goes on; `fanlog job wait {name}` waits for it again")
        raise typer.Exit(130) from None
    finally:
        if is_shown:
            sys.stderr.write("\n")
    output = Output(is_json=json)
    fields = _fields(job)
    result = fields.get("result") or {}
    if json:
        output.line(fields)
    else:
        output.text(f"{job.kind} {state_of(job).lower()}: {job.name}")
        _show(output, result)
    if result.get("is_fine") is False:
        # It has done its work; and yet all is not well.
        raise JobFailed(f"{job.kind} found problems: {job.name}")


def _show(output: Output, result: Any) -> None:
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


def _fields(job: Any) -> dict[str, Any]:
    """A job's fields, its arguments and its result as they were."""
    fields = resource(job)
    of_ours = {name: _plain(fields[name]) for name in ("arguments", "result") if name in fields}
    return fields | of_ours


def _plain(value: Any) -> Any:
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


def _progress(job: Any) -> None:
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
