"""`fanlog problems`, `status`, `topic search`, `sub search|delivery|estimate`: at a glance."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.options import Remote, TopicName
from fanlog.cli.output import note, printable, resource
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.client.inspection import ActPlace

Fragment = Annotated[
    str, typer.Argument(metavar="FRAGMENT", help="Only names with this in them, in any case.")
]
Most = Annotated[int, typer.Option("--max", min=1, help="Show so many at most.")]

_TOPIC_COLUMNS = ("name", "subscriptions", "messages", "published_total", "published", "schema")
_SUBSCRIPTION_COLUMNS = (
    *("name", "topic", "mode", "backlog", "outstanding", "oldest_unacked_age", "consumers"),
    *("acknowledged", "trouble"),
)
_COUNTS = ("backlog", "outstanding", "consumers", "messages", "published_total", "subscriptions")


def problems(
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Of all projects, and not only of this one.")
    ] = False,
    remote: Remote,
) -> None:
    """Show what is wrong now, the worst first. Exits with 1 if there is an error among it."""
    from fanlog.client.overview import OverviewClient

    with remote.connect() as client:
        found = OverviewClient(client).problems("" if every else remote.parent)
    output = remote.output
    for one in found.problems:
        if output.is_json:
            output.line(resource(one))
        else:
            output.text(f"{one.severity:7}", printable(one.sentence))
    if found.left_off:
        note(f"{found.left_off} more are left off")
    if not found.problems:
        note("nothing is wrong")
    if any(one.severity == "ERROR" for one in found.problems):
        raise typer.Exit(1)


def status(remote: Remote) -> None:
    """Show the server: its version and settings, and its numbers now."""
    from fanlog.client.overview import OverviewClient

    with remote.connect() as client:
        overview = OverviewClient(client)
        fields = resource(overview.server())
        sample = next(iter(overview.watch()))
    server = sample.server
    fields |= {
        "topics": server.topics,
        "subscriptions": server.subscriptions,
        "backlog_messages": server.backlog.messages,
        "oldest_unacked_age": server.backlog.oldest_unacked_age.ToJsonString(),
        "disk_used_bytes": server.disk.used_bytes,
        "disk_room_bytes": server.disk.room_bytes,
        "memory_bytes": server.node.memory_bytes,
        "problems": sample.problem_count,
    }
    remote.output.fields(fields)


def search_topics(
    *,
    contains: Fragment = "",
    order_by: Annotated[str, typer.Option(help="name, messages, total or rate.")] = "name",
    most: Most = 50,
    remote: Remote,
) -> None:
    """List topics with their numbers, by a fragment of their names."""
    from fanlog.client.overview import OverviewClient

    with remote.connect() as client:
        found = OverviewClient(client).topics(remote.parent, contains=contains, order_by=order_by)
        rows = [_row(one) for one in islice(found, most)]
    remote.output.rows(_TOPIC_COLUMNS, rows)


def search_subscriptions(
    *,
    contains: Fragment = "",
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only those that read this topic.")
    ] = None,
    order_by: Annotated[
        str,
        typer.Option(
            help="name, backlog, age, outstanding, consumers, pressure, published, delivered, "
            "rate or failed."
        ),
    ] = "name",
    most: Most = 50,
    remote: Remote,
) -> None:
    """List subscriptions with their numbers, by a fragment of their names."""
    from fanlog.client.overview import OverviewClient

    read = "" if topic is None else options.topic_or_pattern(topic, remote.project)
    with remote.connect() as client:
        found = OverviewClient(client).subscriptions(
            remote.parent, contains=contains, topic=read, order_by=order_by
        )
        rows = [_row(one) for one in islice(found, most)]
    remote.output.rows(_SUBSCRIPTION_COLUMNS, rows)


def delivery(*, subscription: options.SubscriptionName, remote: Remote) -> None:
    """Show how a subscription delivers: its consumers, the health of its endpoint, counts."""
    from fanlog.client.inspection import InspectionClient

    with remote.connect() as client:
        found = InspectionClient(client).delivery(remote.subscription(subscription))
    fields, output = resource(found), remote.output
    if output.is_json:
        output.line(fields)
        return
    consumers, push = fields.pop("consumers", []), fields.pop("push", {})
    counts = fields.pop("counts", {})
    output.fields(fields | counts)
    if consumers:
        head = ("client_id", "address", "principal", "connected_at", "outstanding")
        output.rows(head, consumers)
    failures = push.pop("failures", [])
    if push:
        output.fields(push)
    for one in failures:
        output.text(one["time"], f"{one['messages']} messages", printable(one["reason"]))


def estimate(
    *,
    subscription: options.SubscriptionName,
    act: Annotated[
        str, typer.Argument(metavar="ACT", help="seek, purge, detach, delete or snapshot.")
    ],
    time: Annotated[
        str | None, typer.Option(help="Of a seek or a purge: 2025-01-31T12:00:00Z, or 10m ago.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="Of a seek: short or full name.")] = None,
    position: Annotated[
        str | None, typer.Option(help="Of a seek: message ids, earliest or now.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--message-id", metavar="ID", help="Of a seek or a purge.")
    ] = None,
    remote: Remote,
) -> None:
    """Say what an act would do to how many messages; nothing is done."""
    given = [time, snapshot, position, message_id]
    if sum(one is not None for one in given) > 1:
        raise InvalidArgument("give one of --time, --snapshot, --position and --message-id")
    place: ActPlace = {}
    if time is not None:
        place = {"time": options.moment(time, "--time")}
    elif snapshot is not None:
        place = {"snapshot": options.snapshot(snapshot, remote.project)}
    elif position is not None:
        place = {"position": position}
    elif message_id is not None:
        place = {"message_id": message_id}
    _estimate(remote, act, remote.subscription(subscription), place)


def estimate_topic(*, topic: TopicName, remote: Remote) -> None:
    """Say what the deletion of a topic would do; nothing is done."""
    _estimate(remote, "delete", remote.topic(topic), {})


def _estimate(remote: Remote, act: str, name: str, place: ActPlace) -> None:
    from fanlog.client.inspection import InspectionClient

    with remote.connect() as client:
        found = InspectionClient(client).estimate(act, name, **place)
    remote.output.done(found.sentence, resource(found))


def _row(one: Any) -> dict[str, Any]:
    """A row of a table as plain values; counts as numbers."""
    fields = resource(one)
    return fields | {name: getattr(one, name) for name in _COUNTS if hasattr(one, name)}
