"""`fanlog sub`: create, list, describe, update, delete, seek; `reopen` is in its own module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog import limits, times
from fanlog.cli import exports, options
from fanlog.cli.output import Output, resource, with_created
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import (
    LABEL_DEAD_LETTER,
    LABEL_ORDERING,
    LABEL_PUSH_BODY,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_SCHEMA_REVISION,
    LABEL_START,
)

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(
    no_args_is_help=True,
    help="Create, list, describe, update, delete, seek and reopen subscriptions.",
)

Subscription = Annotated[
    str, typer.Argument(metavar="SUB", help="A subscription: short or full name.")
]
AckDeadline = Annotated[
    str | None, typer.Option(help="Time to acknowledge a message: 10s to 600s.")
]
Retention = Annotated[
    str | None, typer.Option(help="Keep unacknowledged messages this long: 10m to 31d.")
]
MaxAttempts = Annotated[
    int | None, typer.Option(help="Deliveries before a message is dead-lettered: 1 to 100.")
]
MinBackoff = Annotated[
    str | None, typer.Option(help="Wait before the first redelivery: 0s to 600s.")
]
MaxBackoff = Annotated[
    str | None, typer.Option(help="Longest wait before a redelivery: 0s to 600s.")
]
Expiration = Annotated[
    str | None,
    typer.Option(
        metavar="TIME|never", help="Delete the subscription when idle this long: 1d or more."
    ),
]

PushTimeout = Annotated[
    str | None, typer.Option(help="Time an endpoint has to answer: 1s to 600s; 10s by default.")
]
PushBody = Annotated[
    str | None,
    typer.Option(
        metavar="wrapped|plain|cloudevents|event",
        help="What push requests have in their bodies; wrapped, as Google's, by default.",
    ),
]

PUSH_HELP = "Send messages to an endpoint: http, https, grpc or grpcs://host:port, or topic:NAME."


@app.command()
def create(
    subscription: Subscription,
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC|PATTERN",
            help="The topic to subscribe to, short or full name; or all that match a pattern,"
            " such as 'orders.*.created' or 'orders.#'.",
        ),
    ],
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Only messages that match, such as 'event=order.* AND region=us-*'.",
        ),
    ] = None,
    ack_deadline: AckDeadline = None,
    retention: Retention = None,
    retain_acked: Annotated[
        bool, typer.Option("--retain-acked", help="Keep acknowledged messages too, to seek back.")
    ] = False,
    ordering: Annotated[
        bool, typer.Option("--ordering", help="Deliver messages of one ordering key in order.")
    ] = False,
    strict_order: Annotated[
        bool,
        typer.Option("--strict-order", help="In order, and one message of a key at a time."),
    ] = False,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Confirmed acks, no second delivery.")
    ] = False,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC|auto",
            help="Where messages go that failed too often; auto makes a topic and subscription.",
        ),
    ] = None,
    no_dead_letter: Annotated[
        bool,
        typer.Option("--no-dead-letter", help="None, also where they are the server's default."),
    ] = False,
    max_attempts: MaxAttempts = None,
    min_backoff: MinBackoff = None,
    max_backoff: MaxBackoff = None,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="first-immediate",
            help="Redeliver at once the first time, then after 1s, doubling to 10m; the rule of"
            " push without a back-off.",
        ),
    ] = None,
    expiration: Expiration = None,
    push: Annotated[str | None, typer.Option(metavar="URL", help=PUSH_HELP)] = None,
    push_body: PushBody = None,
    push_timeout: PushTimeout = None,
    table: exports.Table = None,
    bucket: exports.Bucket = None,
    topic_schema: exports.TopicSchema = False,
    metadata: exports.Metadata = False,
    drop_unknown: exports.DropUnknown = False,
    format_: exports.Format = None,
    prefix: exports.Prefix = None,
    suffix: exports.Suffix = None,
    datetime_format: exports.DatetimeFormat = None,
    max_duration: exports.MaxDuration = None,
    max_bytes: exports.MaxBytes = None,
    max_messages: exports.MaxMessages = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="earliest|now|TIME",
            help="First message: all there are, those to come (default), or from a time"
            " (2025-01-31T12:00:00Z, or 10m for ten minutes ago).",
        ),
    ] = None,
    schema_revision: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Revision of the topic's schema that messages are wanted in, by number or id.",
        ),
    ] = None,
    label: options.Labels = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Create a subscription on a topic, or on all topics that match a pattern."""
    from fanlog.client import types

    request = types.Subscription(
        name=options.subscription(subscription, project),
        topic=options.topic_or_pattern(topic, project),
        filter=filter_,
        retain_acked_messages=retain_acked,
        enable_message_ordering=ordering or strict_order,
        enable_exactly_once_delivery=exactly_once,
        labels=options.pairs(label, "--label"),
    )
    if ack_deadline is not None:
        request.ack_deadline_seconds = _whole_s(ack_deadline, "--ack-deadline")
    if retention is not None:
        _set(request.message_retention_duration, retention, "--retention")
    if strict_order:
        request.labels[LABEL_ORDERING] = "strict"
    if start is not None:
        request.labels[LABEL_START] = _start(start)
    if schema_revision is not None:
        request.labels[LABEL_SCHEMA_REVISION] = schema_revision
    if push is None and (push_body is not None or push_timeout is not None):
        raise InvalidArgument("--push-body and --push-timeout need --push, to say where to")
    _set_labels(request, retry, push_body, push_timeout)
    if min_backoff is not None:
        _set(request.retry_policy.minimum_backoff, min_backoff, "--min-backoff")
    if max_backoff is not None:
        _set(request.retry_policy.maximum_backoff, max_backoff, "--max-backoff")
    if expiration is not None:
        _set_expiration(request, expiration)
    if no_dead_letter:
        if dead_letter is not None:
            raise InvalidArgument("give --dead-letter or --no-dead-letter, not both")
        request.labels[LABEL_DEAD_LETTER] = "none"
    _set_dead_letter(request, dead_letter, max_attempts, project)
    if push is not None:
        request.push_config.push_endpoint = _endpoint(push)
    export = exports.Export(
        table=table,
        bucket=bucket,
        topic_schema=topic_schema,
        metadata=metadata,
        drop_unknown=drop_unknown,
        format=format_,
        prefix=prefix,
        suffix=suffix,
        datetime_format=datetime_format,
        max_duration=max_duration,
        max_bytes=max_bytes,
        max_messages=max_messages,
    )
    export.fill(request)

    with options.connect(endpoint) as client:
        created = client.create_subscription(request)
    text = f"created subscription {created.name} on {created.topic}"
    if created.HasField("dead_letter_policy") and dead_letter in (None, "auto"):
        # Not named by the caller: say what was made.
        text += f"; dead letters go to {created.dead_letter_policy.dead_letter_topic}"
    Output(is_json=json).done(text, resource(created))


@app.command("list")
def list_(
    topic: Annotated[str | None, typer.Option(help="Only the subscriptions of this topic.")] = None,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List the subscriptions of a project, or of one topic."""
    output = Output(is_json=json)
    with options.connect(endpoint) as client:
        if topic is not None:
            found = client.list_topic_subscriptions(options.topic(topic, project))
            output.rows(["name"], ({"name": name} for name in found))
        else:
            listed = _described(
                client, list(client.list_subscriptions(names.project_name(project)))
            )
            head = ["name", "topic", "filter", "ack_deadline_seconds", "labels", "created_at"]
            output.rows(head, listed)


@app.command()
def describe(
    subscription: Subscription,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Show everything about a subscription."""
    with options.connect(endpoint) as client:
        found = client.get_subscription(options.subscription(subscription, project))
        [fields] = _described(client, [found])
    if not json and fields.get("expiration_policy") == {}:
        fields["expiration_policy"] = "never"
    Output(is_json=json).fields(fields)


@app.command()
def update(
    subscription: Subscription,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="EXPR", help="Of what is published from now on, only what matches."
        ),
    ] = None,
    no_filter: Annotated[
        bool, typer.Option("--no-filter", help="Everything that is published from now on.")
    ] = False,
    ack_deadline: AckDeadline = None,
    retention: Retention = None,
    retain_acked: Annotated[
        bool | None,
        typer.Option(
            "--retain-acked/--no-retain-acked",
            help="Keep acknowledged messages too, to seek back, or not.",
        ),
    ] = None,
    exactly_once: Annotated[
        bool | None,
        typer.Option(
            "--exactly-once/--no-exactly-once",
            help="Confirmed acks, no second delivery, or at least once.",
        ),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Where messages go that failed too often."),
    ] = None,
    no_dead_letter: Annotated[
        bool, typer.Option("--no-dead-letter", help="Deliver messages however often they failed.")
    ] = False,
    max_attempts: MaxAttempts = None,
    min_backoff: MinBackoff = None,
    max_backoff: MaxBackoff = None,
    no_backoff: Annotated[
        bool,
        typer.Option(
            "--no-backoff",
            help="Redeliver without a policy: at once; where messages are pushed, as"
            " --retry first-immediate.",
        ),
    ] = False,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="first-immediate|default",
            help="Redeliver at once the first time, then after 1s, doubling to 10m; or as by"
            " default.",
        ),
    ] = None,
    expiration: Expiration = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help=f"{PUSH_HELP} Also turns push on that an endpoint turned off."
        ),
    ] = None,
    no_push: Annotated[
        bool, typer.Option("--no-push", help="Let messages be pulled, and push none.")
    ] = False,
    push_body: PushBody = None,
    push_timeout: PushTimeout = None,
    table: exports.Table = None,
    bucket: exports.Bucket = None,
    topic_schema: exports.TopicSchema = False,
    metadata: exports.Metadata = False,
    drop_unknown: exports.DropUnknown = False,
    format_: exports.Format = None,
    prefix: exports.Prefix = None,
    suffix: exports.Suffix = None,
    datetime_format: exports.DatetimeFormat = None,
    max_duration: exports.MaxDuration = None,
    max_bytes: exports.MaxBytes = None,
    max_messages: exports.MaxMessages = None,
    no_export: Annotated[
        bool, typer.Option("--no-export", help="Let messages be pulled, and export none.")
    ] = False,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Change a subscription; what is not named stays as it is."""
    from fanlog.client import types

    if filter_ is not None and no_filter:
        raise InvalidArgument("give --filter or --no-filter, not both")
    if no_dead_letter and (dead_letter is not None or max_attempts is not None):
        raise InvalidArgument("--no-dead-letter leaves nothing for --dead-letter, --max-attempts")
    if no_backoff and (min_backoff is not None or max_backoff is not None):
        raise InvalidArgument("--no-backoff leaves nothing for --min-backoff, --max-backoff")
    if push is not None and no_push:
        raise InvalidArgument("give --push or --no-push, not both")
    changed = types.Subscription(
        name=options.subscription(subscription, project),
        filter=filter_,
        retain_acked_messages=retain_acked,
        enable_exactly_once_delivery=exactly_once,
    )
    if ack_deadline is not None:
        changed.ack_deadline_seconds = _whole_s(ack_deadline, "--ack-deadline")
    if retention is not None:
        _set(changed.message_retention_duration, retention, "--retention")
    if dead_letter is not None:
        changed.dead_letter_policy.dead_letter_topic = options.topic(dead_letter, project)
    if max_attempts is not None:
        changed.dead_letter_policy.max_delivery_attempts = max_attempts
    if min_backoff is not None:
        _set(changed.retry_policy.minimum_backoff, min_backoff, "--min-backoff")
    if max_backoff is not None:
        _set(changed.retry_policy.maximum_backoff, max_backoff, "--max-backoff")
    if expiration is not None:
        _set_expiration(changed, expiration)
    _set_labels(changed, retry if retry != "default" else None, push_body, push_timeout)
    if push is not None:
        changed.push_config.push_endpoint = _endpoint(push)
    export = exports.Export(
        table=table,
        bucket=bucket,
        topic_schema=topic_schema,
        metadata=metadata,
        drop_unknown=drop_unknown,
        format=format_,
        prefix=prefix,
        suffix=suffix,
        datetime_format=datetime_format,
        max_duration=max_duration,
        max_bytes=max_bytes,
        max_messages=max_messages,
    )
    export.fill(changed)
    if no_export and export.is_given:
        raise InvalidArgument("--no-export leaves nothing for --table, --bucket")
    is_switched = push is not None or export.is_given
    is_named = {
        "filter": filter_ is not None or no_filter,
        "ack_deadline_seconds": ack_deadline is not None,
        "message_retention_duration": retention is not None,
        "retain_acked_messages": retain_acked is not None,
        "enable_exactly_once_delivery": exactly_once is not None,
        "dead_letter_policy": no_dead_letter,
        # The topic first: attempts alone need a policy that is there.
        "dead_letter_policy.dead_letter_topic": dead_letter is not None,
        "dead_letter_policy.max_delivery_attempts": max_attempts is not None,
        "retry_policy": no_backoff,
        "retry_policy.minimum_backoff": min_backoff is not None,
        "retry_policy.maximum_backoff": max_backoff is not None,
        f"labels.{LABEL_RETRY}": retry is not None,
        f"labels.{LABEL_PUSH_BODY}": push_body is not None,
        f"labels.{LABEL_PUSH_TIMEOUT}": push_timeout is not None,
        "expiration_policy": expiration is not None,
        # Whatever messages do from now on, they do not do what they did.
        "push_config": is_switched or no_push,
        "bigquery_config": is_switched or no_export,
        "cloud_storage_config": is_switched or no_export,
    }
    paths = [path for path, is_path_named in is_named.items() if is_path_named]
    if not paths:
        raise InvalidArgument("say what to change, such as --filter; see --help")
    with options.connect(endpoint) as client:
        updated = client.update_subscription(changed, paths)
    Output(is_json=json).done(f"updated subscription {updated.name}", resource(updated))


@app.command()
def delete(
    subscription: Subscription,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Delete a subscription and its backlog."""
    name = options.subscription(subscription, project)
    with options.connect(endpoint) as client:
        client.delete_subscription(name)
    Output(is_json=json).done(f"deleted subscription {name}", {"name": name, "deleted": True})


def _set(duration: Any, text: str, option: str) -> None:
    duration.FromMicroseconds(round(options.duration_s(text, option) * 1e6))


def _set_labels(
    request: Any, retry: str | None, push_body: str | None, push_timeout: str | None
) -> None:
    given = {
        LABEL_RETRY: retry,
        LABEL_PUSH_BODY: push_body,
        LABEL_PUSH_TIMEOUT: None
        if push_timeout is None
        else str(_whole_s(push_timeout, "--push-timeout")),
    }
    for label, value in given.items():
        if value is None:
            continue
        if request.labels.get(label, value) != value:
            raise InvalidArgument(f"--label {label} says otherwise; give one of them")
        request.labels[label] = value


def _whole_s(text: str, option: str) -> int:
    seconds = options.duration_s(text, option)
    if not seconds.is_integer():
        raise InvalidArgument(f"{option} {text!r} must be whole seconds")
    if seconds > limits.ACK_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"{option} {text!r} is longer than the {limits.ACK_DEADLINE_S_MAX} seconds allowed"
        )
    return int(seconds)


def _set_expiration(request: Any, text: str) -> None:
    # A policy without a time to live says never; no policy at all says the default.
    request.expiration_policy.SetInParent()
    if text != "never":
        _set(request.expiration_policy.ttl, text, "--expiration")


def _endpoint(url: str) -> str:
    if not url:
        raise InvalidArgument("--push '' is no endpoint; --no-push lets messages be pulled")
    return url


def _start(text: str) -> str:
    if text in ("earliest", "now"):
        return text
    return times.of_datetime(options.moment(text, "--start"))


def _set_dead_letter(
    request: Any, dead_letter: str | None, max_attempts: int | None, project: str
) -> None:
    if dead_letter is None:
        if max_attempts is not None:
            raise InvalidArgument("--max-attempts needs --dead-letter, to say where messages go")
        return
    if dead_letter == "auto":
        request.labels[LABEL_DEAD_LETTER] = "auto"
    else:
        request.dead_letter_policy.dead_letter_topic = options.topic(dead_letter, project)
    if max_attempts is not None:
        request.dead_letter_policy.max_delivery_attempts = max_attempts


def _described(client: Client, subscriptions: Sequence[Any]) -> list[dict[str, Any]]:
    """Subscriptions as plain values, with when they were made where the server knows it."""
    from fanlog.client.catalog import CatalogClient

    told = CatalogClient(client).describe_subscriptions([one.name for one in subscriptions])
    return [with_created(resource(one), told.get(one.name)) for one in subscriptions]
