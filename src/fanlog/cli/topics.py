"""`fanlog topic`: create, update, list, describe, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import Setting, add_command, clearing, fill
from fanlog.cli.options import LABEL_HELP, Remote, TopicName
from fanlog.cli.output import resource, with_created
from fanlog.errors import InvalidArgument
from fanlog.model import durations
from fanlog.model.attributes import (
    LABEL_ORDERING,
    LABEL_PUBLISH_BURST,
    LABEL_PUBLISH_BYTES_BURST,
    LABEL_PUBLISH_BYTES_RATE,
    LABEL_PUBLISH_RATE,
)
from fanlog.model.resources import TOPIC_ORDERINGS

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(no_args_is_help=True, help="Create, change, list, describe and delete topics.")

ENCODINGS = {"json": 1, "binary": 2}

#: How long a topic keeps messages, by the setting that decides it.
_RETENTION = {
    "topic": "{} (its own)",
    "server": "{} (the server's default)",
    "lake": "for good, in the lake",
    "nobody": "none: messages are kept for as long as subscriptions need them",
}

_RATES = (
    (
        *("publish_rate", LABEL_PUBLISH_RATE),
        "Messages a second that may be published; no limit by default.",
    ),
    (
        *("publish_burst", LABEL_PUBLISH_BURST),
        "Messages that may be published at once; those of two seconds by default.",
    ),
    (
        *("publish_bytes_rate", LABEL_PUBLISH_BYTES_RATE),
        "Bytes a second that may be published; no limit by default.",
    ),
    (
        *("publish_bytes_burst", LABEL_PUBLISH_BYTES_BURST),
        "Bytes that may be published at once; those of two seconds by default.",
    ),
)

SETTINGS = (
    Setting(
        *("retention", "message_retention_duration"),
        "Keep messages this long, acknowledged or not: 10m to 31d; to 36500d where the broker has"
        " a lake.",
        read=options.duration,
    ),
    clearing(
        *("no_retention", "message_retention_duration"),
        *("Keep messages for as long as the server does by default.", "retention"),
    ),
    Setting(
        *("schema", "schema_settings.schema"),
        create="Messages must conform to this schema.",
        full_name=options.schema,
    ),
    Setting(
        *("ordering", f"labels.{LABEL_ORDERING}"),
        create="Order of its messages: by their ordering keys (default), by publisher, all of them,"
        " or none. For good.",
        metavar="|".join(TOPIC_ORDERINGS),
    ),
    *(
        row
        for name, label, text in _RATES
        for row in (
            Setting(name, f"labels.{label}", text, kind=int | None, read=lambda n, _: str(n)),
            clearing(f"no_{name}", f"labels.{label}", f"Without --{name.replace('_', '-')}.", name),
        )
    ),
    Setting("encoding", create="How they conform to it: json or binary.", kind=str, default="json"),
    Setting(
        *("storage_region", "message_storage_policy"),
        "Region that messages may be stored in; the server's own must be one; repeatable.",
        metavar="REGION",
        kind=list[str] | None,
        field="message_storage_policy.allowed_persistence_regions",
    ),
    clearing(
        *("no_storage_regions", "message_storage_policy"),
        *("Let messages be stored wherever the server is.", "storage_region"),
    ),
    Setting(
        *("label", "labels"),
        create=LABEL_HELP,
        update="All labels it is to have; repeatable.",
        metavar="KEY=VALUE",
        kind=list[str] | None,
        read=options.pairs,
    ),
    clearing("no_labels", "labels", "Take all labels away.", "label"),
)


@add_command(app, table=SETTINGS)
def create(topic: TopicName, remote: Remote, **given: Any) -> None:
    """Create a topic."""
    from fanlog.client import types

    request = types.Topic(name=remote.topic(topic))
    fill(request, "create", SETTINGS, given, remote)
    # The labels were put in last, over those of the options.
    for name, label, *_ in (("ordering", LABEL_ORDERING), *_RATES):
        if given[name] is not None and request.labels[label] != str(given[name]):
            raise InvalidArgument(f"--label {label} says otherwise; give one of them")
    if given["schema"] is not None:
        encoding = options.one_of(given["encoding"], ENCODINGS, "--encoding")
        request.schema_settings.encoding = encoding
    with remote.connect() as client:
        created = client.create_topic(request)
        fields = _described(client, [created])[0]
    remote.output.done(f"created topic {created.name}", fields)


@add_command(app, table=SETTINGS)
def update(topic: TopicName, remote: Remote, **given: Any) -> None:
    """Change a topic; what is not named stays as it is."""
    from fanlog.client import types

    changed = types.Topic(name=remote.topic(topic))
    paths = fill(changed, "update", SETTINGS, given, remote)
    if not paths:
        raise InvalidArgument("say what to change, such as --retention; see --help")
    with remote.connect() as client:
        updated = client.update_topic(changed, paths)
        fields = _described(client, [updated])[0]
    remote.output.done(f"updated topic {updated.name}", fields)


@add_command(app, "list")
def list_(remote: Remote) -> None:
    """List the topics of a project."""
    with remote.connect() as client:
        topics = _described(client, list(client.list_topics(remote.parent)))
        head = ["name", "message_retention_duration", "labels", "created_at"]
        remote.output.rows(head, topics)


@add_command(app)
def describe(topic: TopicName, remote: Remote) -> None:
    """Show a topic and its subscriptions."""
    name = remote.topic(topic)
    with remote.connect() as client:
        [fields] = _described(client, [client.get_topic(name)])
        subscriptions = list(client.list_topic_subscriptions(name))
    kept = None if remote.json else fields.pop("effective_retention", None)
    if kept is not None:
        fields.pop("message_retention_duration", None)
        words = durations.words(float(kept.get("duration", "0s")[:-1]))
        fields["retention"] = _RETENTION[kept["by"]].format(words)
    fields["subscriptions"] = subscriptions if remote.json else " ".join(subscriptions)
    remote.output.fields(fields)


@add_command(app)
def delete(topic: TopicName, remote: Remote) -> None:
    """Delete a topic. Its subscriptions go on serving what they have."""
    name = remote.topic(topic)
    with remote.connect() as client:
        client.delete_topic(name)
    remote.report_deleted("topic", name)


def _described(client: Client, topics: Sequence[Any]) -> list[dict[str, Any]]:
    """Topics as plain values, with the facts that the server adds to them, if it does."""
    from fanlog.client.catalog import CatalogClient

    told = CatalogClient(client).describe_topics([topic.name for topic in topics])
    found: list[dict[str, Any]] = []
    for topic in topics:
        one = told.get(topic.name)
        fields = with_created(resource(topic), one)
        if one is not None and one.retention_by:
            has_time = one.HasField("effective_retention")
            time = {"duration": one.effective_retention.ToJsonString()} if has_time else {}
            fields["effective_retention"] = time | {"by": one.retention_by}
        found.append(fields)
    return found
