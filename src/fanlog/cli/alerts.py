"""`fanlog alert`: create, update, list, describe, delete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import Setting, add_command, fill
from fanlog.cli.options import Remote
from fanlog.cli.output import resource
from fanlog.errors import InvalidArgument
from fanlog.model import names

app = typer.Typer(
    no_args_is_help=True, help="Have messages published when something is wrong, and when it ends."
)

AlertName = Annotated[str, typer.Argument(metavar="ALERT", help="An alert: short or full name.")]

#: The numbers of the API's enum, by word.
CONDITIONS = {
    "dead-letters": 1,
    "backlog-messages": 2,
    "backlog-age": 3,
    "endpoint-failing": 4,
    "consumer-gone": 5,
    "publishes-refused": 6,
    "disk-low": 7,
    "lake-alarm": 8,
    "archive-lag": 9,
}
_CONDITION_HELP = f"One of {', '.join(CONDITIONS)}."

SETTINGS = (
    Setting(
        *("subscription", "subscription"),
        create="The subscription that it is about; for the first five conditions.",
        metavar="SUB",
        full_name=options.subscription,
    ),
    Setting(
        *("limit", "limit"),
        both="Begins when this is passed: messages, seconds, or bytes that are left.",
        kind=int | None,
        read=lambda number, option: _in_range(number, option),
    ),
    Setting(
        *("clear", "clear"),
        both="Ends when it is back here; a fifth within the limit.",
        kind=int | None,
        read=lambda number, option: _in_range(number, option),
    ),
    Setting(
        *("minimum_time", "minimum_time"),
        both="How long it lasts before it begins, and is over before it ends, such as 5m; 60s.",
        metavar="TIME",
        read=options.duration,
    ),
)


@add_command(app, table=SETTINGS)
def create(
    alert: AlertName,
    condition: Annotated[str, typer.Argument(metavar="CONDITION", help=_CONDITION_HELP)],
    remote: Remote,
    **given: Any,
) -> None:
    """Create an alert: its messages go to the topic fanlog.alerts, which is made with it."""
    from fanlog.client.alerts import AlertClient
    from fanlog.v1 import alerts_pb2

    number = options.one_of(condition, CONDITIONS, "CONDITION")
    wanted = alerts_pb2.Alert(
        name=_full(alert, remote), condition=alerts_pb2.Alert.Condition.Name(number)
    )
    fill(wanted, "create", SETTINGS, given, remote)
    with remote.connect() as client:
        made = AlertClient(client).create(wanted)
    remote.output.done(f"created alert {made.name}", resource(made))


@add_command(app, table=SETTINGS)
def update(alert: AlertName, remote: Remote, **given: Any) -> None:
    """Change the numbers of an alert; whether it holds is judged with them from then on."""
    from fanlog.client.alerts import AlertClient
    from fanlog.v1 import alerts_pb2

    wanted = alerts_pb2.Alert(name=_full(alert, remote))
    paths = fill(wanted, "update", SETTINGS, given, remote)
    if not paths:
        raise InvalidArgument("nothing to change: give at least one option")
    with remote.connect() as client:
        changed = AlertClient(client).update(wanted, paths)
    remote.output.done(f"updated alert {changed.name}", resource(changed))


@add_command(app, "list")
def list_(remote: Remote) -> None:
    """List the alerts of a project, and which of them hold."""
    from fanlog.client.alerts import AlertClient

    with remote.connect() as client:
        found = map(resource, AlertClient(client).list_alerts(remote.parent))
        columns = ["name", "condition", "subscription", "limit", "holding", "since_time"]
        remote.output.rows(columns, found)


@add_command(app)
def describe(alert: AlertName, remote: Remote) -> None:
    """Show an alert: its rule, whether it holds, its last message."""
    from fanlog.client.alerts import AlertClient

    with remote.connect() as client:
        found = AlertClient(client).get(_full(alert, remote))
    remote.output.fields(resource(found))


@add_command(app)
def delete(alert: AlertName, remote: Remote) -> None:
    """Delete an alert; what it published stays, and no message tells of its end."""
    from fanlog.client.alerts import AlertClient

    name = _full(alert, remote)
    with remote.connect() as client:
        AlertClient(client).delete(name)
    remote.report_deleted("alert", name)


def _full(alert: str, remote: Remote) -> str:
    full = alert if "/" in alert else names.alert_name(remote.project, alert)
    return names.parse_alert(full, field="ALERT")


def _in_range(number: int, option: str) -> int:
    """A number that fits its field; the server says which of them are allowed."""
    if not -(2**63) <= number < 2**63:
        raise InvalidArgument(f"{option}: {number} is out of range")
    return number
