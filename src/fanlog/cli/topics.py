"""`fanlog topic`: create, update, list, describe, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.output import Output, resource, with_created
from fanlog.errors import InvalidArgument
from fanlog.model import durations, names

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(no_args_is_help=True, help="Create, change, list, describe and delete topics.")

ENCODINGS = {"json": 1, "binary": 2}

RETENTION_HELP = (
    "Keep messages this long, acknowledged or not: 10m to 31d; to 36500d where the broker has a "
    "lake."
)

StorageRegions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGION",
        help="Region that messages may be stored in; the server's own must be one; repeatable.",
    ),
]
#: How long a topic keeps messages, by who says so.
_RETENTION = {
    "topic": "{} (its own)",
    "server": "{} (the server's default)",
    "lake": "for good, in the lake",
    "nobody": "none: messages are kept for as long as subscriptions need them",
}

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="A topic: short or full name.")]


@app.command()
def create(
    topic: Topic,
    retention: Annotated[
        str | None,
        typer.Option(help=RETENTION_HELP),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help="Messages must conform to this schema.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="How they conform to it: json or binary.")] = "json",
    storage_region: StorageRegions = None,
    label: options.Labels = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Create a topic."""
    from fanlog.client import types

    request = types.Topic(
        name=options.topic(topic, project), labels=options.pairs(label, "--label")
    )
    if retention is not None:
        seconds = options.duration_s(retention, "--retention")
        request.message_retention_duration.FromMicroseconds(round(seconds * 1e6))
    if schema is not None:
        request.schema_settings.schema = options.schema(schema, project)
        request.schema_settings.encoding = options.one_of(encoding, ENCODINGS, "--encoding")
    if storage_region:
        request.message_storage_policy.allowed_persistence_regions.extend(storage_region)
    with options.connect(endpoint) as client:
        created = client.create_topic(request)
        fields = _described(client, [created])[0]
    Output(is_json=json).done(f"created topic {created.name}", fields)


@app.command()
def update(
    topic: Topic,
    retention: Annotated[str | None, typer.Option(help=RETENTION_HELP)] = None,
    no_retention: Annotated[
        bool,
        typer.Option(
            "--no-retention", help="Keep messages for as long as the server does by default."
        ),
    ] = False,
    storage_region: StorageRegions = None,
    no_storage_regions: Annotated[
        bool,
        typer.Option("--no-storage-regions", help="Let messages be stored wherever the server is."),
    ] = False,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="All labels it is to have; repeatable."),
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Take all labels away.")] = False,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Change a topic; what is not named stays as it is."""
    from fanlog.client import types

    if retention is not None and no_retention:
        raise InvalidArgument("give --retention or --no-retention, not both")
    if storage_region and no_storage_regions:
        raise InvalidArgument("give --storage-region or --no-storage-regions, not both")
    if label and no_labels:
        raise InvalidArgument("give --label or --no-labels, not both")
    changed = types.Topic(
        name=options.topic(topic, project), labels=options.pairs(label, "--label")
    )
    if retention is not None:
        seconds = options.duration_s(retention, "--retention")
        changed.message_retention_duration.FromMicroseconds(round(seconds * 1e6))
    if storage_region:
        changed.message_storage_policy.allowed_persistence_regions.extend(storage_region)
    is_named = {
        "message_retention_duration": retention is not None or no_retention,
        "message_storage_policy": bool(storage_region) or no_storage_regions,
        "labels": bool(label) or no_labels,
    }
    paths = [path for path, is_path_named in is_named.items() if is_path_named]
    if not paths:
        raise InvalidArgument("say what to change, such as --retention; see --help")
    with options.connect(endpoint) as client:
        updated = client.update_topic(changed, paths)
        fields = _described(client, [updated])[0]
    Output(is_json=json).done(f"updated topic {updated.name}", fields)


@app.command("list")
def list_(
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List the topics of a project."""
    with options.connect(endpoint) as client:
        topics = _described(client, list(client.list_topics(names.project_name(project))))
        head = ["name", "message_retention_duration", "labels", "created_at"]
        Output(is_json=json).rows(head, topics)


@app.command()
def describe(
    topic: Topic,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Show a topic and its subscriptions."""
    name = options.topic(topic, project)
    with options.connect(endpoint) as client:
        [fields] = _described(client, [client.get_topic(name)])
        subscriptions = list(client.list_topic_subscriptions(name))
    output = Output(is_json=json)
    kept = None if json else fields.pop("effective_retention", None)
    if kept is not None:
        fields.pop("message_retention_duration", None)
        words = durations.words(float(kept.get("duration", "0s")[:-1]))
        fields["retention"] = _RETENTION[kept["by"]].format(words)
    output.fields(fields | {"subscriptions": subscriptions if json else " ".join(subscriptions)})


@app.command()
def delete(
    topic: Topic,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Delete a topic. Its subscriptions go on serving what they have."""
    name = options.topic(topic, project)
    with options.connect(endpoint) as client:
        client.delete_topic(name)
    Output(is_json=json).done(f"deleted topic {name}", {"name": name, "deleted": True})


def _described(client: Client, topics: Sequence[Any]) -> list[dict[str, Any]]:
    """Topics as plain values, with what else the server tells of them, if it does."""
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
