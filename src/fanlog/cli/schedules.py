"""`fanlog schedule`: create, list, describe, update, pause, resume, run-now, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import Setting, add_command, clearing, fill
from fanlog.cli.options import Remote
from fanlog.cli.output import resource
from fanlog.errors import InvalidArgument
from fanlog.model import names

if TYPE_CHECKING:
    from fanlog.v1 import schedules_pb2

app = typer.Typer(no_args_is_help=True, help="Publish messages at the ticks of cron expressions.")

ScheduleName = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="A schedule: short or full name.")
]

_CRON_HELP = (
    "When: minute, hour, day of the month, month, day of the week, such as '*/5 9-17 * * mon-fri';"
    " with six fields the first is the second; or @hourly, @daily, @weekly, @monthly, @yearly."
)
#: The numbers of the API's enum, by word.
MISSED = {"skip": 1, "latest": 2, "all": 3}

SETTINGS = (
    Setting(
        *("topic", "topic"),
        update="Publish to this topic.",
        metavar="TOPIC",
        full_name=options.topic,
    ),
    Setting("cron", "cron", update=_CRON_HELP),
    Setting("time_zone", "time_zone", "Time zone of the expression, such as Europe/Berlin; UTC."),
    Setting(
        *("data", "data", "The message."),
        read=lambda text, _: text.encode("utf-8", "surrogateescape"),
    ),
    Setting(
        *("attr", "attributes"),
        create="An attribute of the message; may be given many times.",
        update="All attributes that the message is to have; repeatable.",
        metavar="KEY=VALUE",
        kind=list[str] | None,
        read=options.pairs,
    ),
    clearing("no_attrs", "attributes", "Take all attributes away.", "attr"),
    Setting("key", "ordering_key", "The ordering key of the message."),
    Setting(
        *("missed", "missed"),
        "Of ticks that passed while the server did not run: skip them, publish the latest, or all"
        " (the last 100).",
        metavar="skip|latest|all",
        read=lambda word, option: options.one_of(word, MISSED, option),
    ),
)


@add_command(app, table=SETTINGS)
def create(
    schedule: ScheduleName,
    topic: options.TopicName,
    cron: Annotated[str, typer.Argument(metavar="CRON", help=_CRON_HELP)],
    remote: Remote,
    **given: Any,
) -> None:
    """Create a schedule: its first tick is the first from now on."""
    from fanlog.client.schedules import ScheduleClient
    from fanlog.v1 import schedules_pb2

    wanted = schedules_pb2.Schedule(
        name=_full(schedule, remote), topic=remote.topic(topic), cron=cron
    )
    fill(wanted, "create", SETTINGS, given, remote)
    with remote.connect() as client:
        made = ScheduleClient(client).create(wanted)
    remote.output.done(f"created schedule {made.name}, {_next(made)}", fields_of(made))


@add_command(app, table=SETTINGS)
def update(schedule: ScheduleName, remote: Remote, **given: Any) -> None:
    """Change a schedule. One that ticks at other times begins anew from now."""
    from fanlog.client.schedules import ScheduleClient
    from fanlog.v1 import schedules_pb2

    wanted = schedules_pb2.Schedule(name=_full(schedule, remote))
    paths: Sequence[str] = fill(wanted, "update", SETTINGS, given, remote)
    if not paths:
        raise InvalidArgument("nothing to change: give at least one option")
    with remote.connect() as client:
        changed = ScheduleClient(client).update(wanted, paths)
    remote.output.done(f"updated schedule {changed.name}, {_next(changed)}", fields_of(changed))


@add_command(app, "list")
def list_(remote: Remote) -> None:
    """List the schedules of a project."""
    from fanlog.client.schedules import ScheduleClient

    with remote.connect() as client:
        found = map(fields_of, ScheduleClient(client).list_schedules(remote.parent))
        columns = ["name", "topic", "cron", "time_zone", "paused", "next_tick_time", "last_error"]
        remote.output.rows(columns, found)


@add_command(app)
def describe(schedule: ScheduleName, remote: Remote) -> None:
    """Show a schedule: when it ticks, what it publishes, how far it is."""
    from fanlog.client.schedules import ScheduleClient

    with remote.connect() as client:
        found = ScheduleClient(client).get(_full(schedule, remote))
    remote.output.fields(fields_of(found))


@add_command(app)
def pause(schedule: ScheduleName, remote: Remote) -> None:
    """Have a schedule publish at no tick until it is resumed."""
    from fanlog.client.schedules import ScheduleClient

    with remote.connect() as client:
        found = ScheduleClient(client).pause(_full(schedule, remote))
    remote.output.done(f"paused schedule {found.name}", fields_of(found))


@add_command(app)
def resume(schedule: ScheduleName, remote: Remote) -> None:
    """Have a paused schedule tick again, from now on."""
    from fanlog.client.schedules import ScheduleClient

    with remote.connect() as client:
        found = ScheduleClient(client).resume(_full(schedule, remote))
    remote.output.done(f"resumed schedule {found.name}, {_next(found)}", fields_of(found))


@add_command(app, "run-now")
def run_now(schedule: ScheduleName, remote: Remote) -> None:
    """Publish the message of a schedule now, besides its ticks; a paused one's, too."""
    from fanlog.client.schedules import ScheduleClient

    name = _full(schedule, remote)
    with remote.connect() as client:
        message_id = ScheduleClient(client).run(name)
    remote.output.done(message_id, {"name": name, "message_id": message_id})


@add_command(app)
def delete(schedule: ScheduleName, remote: Remote) -> None:
    """Delete a schedule; what it published stays."""
    from fanlog.client.schedules import ScheduleClient

    name = _full(schedule, remote)
    with remote.connect() as client:
        ScheduleClient(client).delete(name)
    remote.report_deleted("schedule", name)


def fields_of(schedule: schedules_pb2.Schedule) -> dict[str, Any]:
    """A schedule as plain values; data that is no text comes as `data_base64`."""
    fields = resource(schedule)
    data = fields.pop("data", "")
    if data:
        try:
            fields["data"] = schedule.data.decode("utf-8")
        except UnicodeDecodeError:
            fields["data_base64"] = data
    return fields


def _full(schedule: str, remote: Remote) -> str:
    full = schedule if "/" in schedule else names.schedule_name(remote.project, schedule)
    return names.parse_schedule(full, field="SCHEDULE")


def _next(schedule: schedules_pb2.Schedule) -> str:
    if not schedule.HasField("next_tick_time"):
        return "paused" if schedule.paused else "which has no next tick"
    return f"next tick {schedule.next_tick_time.ToJsonString()}"
