"""`fanlog job`: ask the pipeline for replay, backtest and the rest; see how far they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fanlog import times
from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.job_results import fields_of, show_progress, show_result
from fanlog.cli.options import Remote
from fanlog.cli.output import note, resource
from fanlog.errors import JobFailed
from fanlog.model import names
from fanlog.model.json_value import Json

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(no_args_is_help=True, help="Ask the pipeline for work, and see how far it is.")

JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job: short or full name.")]
FilterText = Annotated[
    str | None, typer.Option("--filter", help="Only what this filter matches; see the guide.")
]
TopicNames = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic; may be given many times."),
]
TopicPattern = Annotated[str | None, typer.Option(help="Topics by a pattern, such as orders.#")]

#: Arguments of a job, as the pipeline takes them.
Arguments = dict[str, Json]


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The options of jobs that read a window of history."""

    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Published from then on; 2h is two hours ago."),
    ] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Published before then.")
    ] = None

    def arguments(self) -> Arguments:
        return {
            "start_time": self.start and times.of_datetime(options.moment(self.start, "--from")),
            "end_time": self.end and times.of_datetime(options.moment(self.end, "--to")),
        }


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of every command that asks for a job."""

    job_id: Annotated[
        str,
        typer.Option("--id", metavar="ID", help="Its name; asking twice is then asking once."),
    ] = ""
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for its end, showing how far it is.")
    ] = True


@add_command(app)
def replay(
    *,
    subscription: Annotated[str, typer.Argument(metavar="SUB")],
    window: WindowOptions,
    filter_: FilterText = None,
    to_topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Publish copies there instead of delivering again."),
    ] = None,
    how: JobOptions,
    remote: Remote,
) -> None:
    """Deliver a window of history again to a subscription."""
    arguments = {"subscription": subscription, "filter": filter_, "to_topic": to_topic}
    _ask("replay", arguments | window.arguments(), how, remote)


@add_command(app)
def redrive(
    *,
    subscription: Annotated[
        str, typer.Argument(metavar="SUB", help="A dead letter subscription: short or full name.")
    ],
    window: WindowOptions,
    reason: Annotated[
        str | None, typer.Option(help="Only letters whose reason has this in it.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="SUB", help="Only what failed on this one.")
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="Only letters that this filter matches."),
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
    how: JobOptions,
    remote: Remote,
) -> None:
    """Bring dead letters back to the subscription they failed on."""
    arguments = {
        "subscription": subscription,
        "reason": reason,
        "source": source,
        "filter": filter_,
        "message_ids": message_id,
        "copies": copies or None,
    }
    _ask("redrive", arguments | window.arguments(), how, remote)


@add_command(app)
def backtest(
    *,
    filter_: FilterText = None,
    schema: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="A schema instead of a filter.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Of the schema; the latest if not.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="JSON or BINARY; the topic's if not given.")
    ] = None,
    topic: TopicNames = None,
    pattern: TopicPattern = None,
    window: WindowOptions,
    samples: Annotated[int, typer.Option(help="How many messages to show.")] = 10,
    how: JobOptions,
    remote: Remote,
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
    _ask("backtest", arguments | window.arguments(), how, remote)


@add_command(app, "fan-out")
def fan_out(
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    window: WindowOptions,
    message_id: Annotated[str | None, typer.Option(help="Who would have got this one.")] = None,
    reopen: Annotated[
        bool, typer.Option("--reopen", help="Deliver it again, to every one that it matches.")
    ] = False,
    how: JobOptions,
    remote: Remote,
) -> None:
    """Match every subscription of a topic against a window of its history."""
    arguments = {"topic": topic, "message_id": message_id, "reopen": reopen or None}
    _ask("fan-out", arguments | window.arguments(), how, remote)


@add_command(app)
def compact(
    *,
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
    how: JobOptions,
    remote: Remote,
) -> None:
    """Merge the small files of the lake's tables, and delete those nobody has needed for a day."""
    arguments = {"table": table, "drop_damaged": drop_damaged or None}
    _ask("compact", arguments, how, remote)


@add_command(app)
def expire(
    *,
    table: Annotated[
        str | None,
        typer.Option(help="Rows of this table instead, such as that of an export; with --before."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Older than this: RFC 3339, or 90d for 90 days ago."),
    ] = None,
    how: JobOptions,
    remote: Remote,
) -> None:
    """Let go of messages older than their topic's retention; or of old rows of another table."""
    time = before and times.of_datetime(options.moment(before, "--before"))
    _ask("expire", {"table": table, "before": time}, how, remote)


@add_command(app, "import")
def import_(
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Below an import root of the pipeline, as it sees it."),
    ],
    format_: Annotated[str, typer.Option("--format", help="parquet, json or csv.")],
    data: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    attributes: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    ordering_key: Annotated[str | None, typer.Option(metavar="COLUMN")] = None,
    how: JobOptions,
    remote: Remote,
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
    _ask("import", arguments, how, remote)


@add_command(app)
def verify(
    *,
    topic: TopicNames = None,
    pattern: TopicPattern = None,
    window: WindowOptions,
    how: JobOptions,
    remote: Remote,
) -> None:
    """Compare lake and log: counts, gaps, duplicates, checksums.

    Exits with 1 when something is wrong; every damaged file is named.
    """
    arguments = {"topics": topic, "pattern": pattern} | window.arguments()
    _ask("verify", arguments, how, remote)


@add_command(app, "list")
def list_(remote: Remote) -> None:
    """List the jobs of a project."""
    from fanlog.client.jobs import JobClient

    with remote.connect() as client:
        found = (resource(one) for one in JobClient(client).list_jobs(remote.parent))
        remote.output.rows(["name", "kind", "state", "done", "total", "error"], found)


@add_command(app)
def describe(job: JobName, remote: Remote) -> None:
    """Show a job: what it is to do, how far it is, what came of it."""
    from fanlog.client.jobs import JobClient

    with remote.connect() as client:
        found = fields_of(JobClient(client).get(_full(job, remote)))
    output = remote.output
    if remote.json:
        output.line(found)
        return
    result = found.pop("result", {})
    output.fields(found)
    if result:
        output.text("")
        show_result(output, result)


@add_command(app)
def wait(job: JobName, remote: Remote) -> None:
    """Wait for a job's end, and show what came of it."""
    with remote.connect() as client:
        _wait(client, _full(job, remote), remote)


@add_command(app)
def cancel(job: JobName, remote: Remote) -> None:
    """Ask a job to stop."""
    from fanlog.client.jobs import JobClient, state_of

    with remote.connect() as client:
        found = JobClient(client).cancel(_full(job, remote))
    remote.output.done(f"job {found.name} is {state_of(found)}", resource(found))


@add_command(app)
def delete(job: JobName, remote: Remote) -> None:
    """Forget a job that has ended."""
    from fanlog.client.jobs import JobClient

    name = _full(job, remote)
    with remote.connect() as client:
        JobClient(client).delete(name)
    remote.report_deleted("job", name)


def _full(job: str, remote: Remote) -> str:
    full = job if "/" in job else names.job_name(remote.project, job)
    return names.parse_job(full, field="JOB")


def _ask(kind: str, arguments: Mapping[str, Json], how: JobOptions, remote: Remote) -> None:
    from fanlog.client.jobs import JobClient

    given = {name: value for name, value in arguments.items() if value is not None}
    with remote.connect() as client:
        job = JobClient(client).create(remote.parent, kind, given, job_id=how.job_id)
        if how.wait:
            _wait(client, job.name, remote)
        else:
            remote.output.done(f"asked for job {job.name}", resource(job))


def _wait(client: Client, name: str, remote: Remote) -> None:
    from fanlog.client.jobs import JobClient, state_of

    is_shown = not remote.json and sys.stderr.isatty()
    try:
        job = JobClient(client).wait(
            name, on_progress=show_progress if is_shown else lambda _: None
        )
    except KeyboardInterrupt:
        note(f"\njob {name} goes on; `fanlog job wait {name}` waits for it again")
        raise typer.Exit(130) from None
    finally:
        if is_shown:
            sys.stderr.write("\n")
    output = remote.output
    fields = fields_of(job)
    result = fields.get("result") or {}
    if remote.json:
        output.line(fields)
    else:
        output.text(f"{job.kind} {state_of(job).lower()}: {job.name}")
        show_result(output, result)
    if result.get("is_fine") is False:
        # It has done its work; and yet all is not well.
        raise JobFailed(f"{job.kind} found problems: {job.name}")
