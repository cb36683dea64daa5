"""`fanlog sub`: create, list, describe, update, delete; other verbs have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog import times
from fanlog.cli import options
from fanlog.cli.backlog_options import BACKLOG_SETTINGS
from fanlog.cli.exports import ExportOptions
from fanlog.cli.groups import FLAG, Row, Setting, add_command, clearing, fill, flag
from fanlog.cli.options import LABEL_HELP, Remote, SubscriptionName
from fanlog.cli.output import ranges, resource, with_created
from fanlog.errors import InvalidArgument
from fanlog.model.attributes import (
    LABEL_ASSIGNMENT,
    LABEL_DEAD_LETTER,
    LABEL_DELIVERY,
    LABEL_DEPENDENCY_POLICY,
    LABEL_DEPENDENCY_TIMEOUT,
    LABEL_EXPIRED,
    LABEL_FAIRNESS,
    LABEL_KEY_SLOTS,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_ORDERING,
    LABEL_PUSH_BODY,
    LABEL_PUSH_BREAKER_FAILURES,
    LABEL_PUSH_BREAKER_MAX_WAIT,
    LABEL_PUSH_BREAKER_WAIT,
    LABEL_PUSH_RATE,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_SCHEMA_REVISION,
    LABEL_START,
    LABEL_TTL,
)
from fanlog.model.backlog_policy import BACKLOG_LABELS

if TYPE_CHECKING:
    from fanlog.client import Client

app = typer.Typer(
    no_args_is_help=True,
    help="Create, list, describe, update, delete, seek, reopen and nack on subscriptions.",
)

_PUSH_HELP = "Send messages to an endpoint: http, https, grpc or grpcs://host:port, or topic:NAME."
_EXPORTS = ("bigquery_config", "cloud_storage_config")
_MODES = ("push_config", *_EXPORTS)
#: Labels that have an option of their own; the two must not differ.
_OPTION_LABELS = (
    LABEL_FAIRNESS,
    *(LABEL_DELIVERY, LABEL_RETRY, LABEL_PUSH_BODY, LABEL_PUSH_TIMEOUT, LABEL_TTL, LABEL_EXPIRED),
    *(LABEL_DEPENDENCY_TIMEOUT, LABEL_DEPENDENCY_POLICY, LABEL_ASSIGNMENT, LABEL_KEY_SLOTS),
    *(LABEL_ORDERING, LABEL_DEAD_LETTER, LABEL_START, LABEL_SCHEMA_REVISION),
    *(LABEL_MAX_OUTSTANDING_MESSAGES, LABEL_MAX_OUTSTANDING_BYTES),
    *(LABEL_PUSH_RATE, LABEL_PUSH_BREAKER_FAILURES),
    *(LABEL_PUSH_BREAKER_WAIT, LABEL_PUSH_BREAKER_MAX_WAIT),
    *sorted(BACKLOG_LABELS),
)
#: Options that say how is pushed.
_PUSH_OPTIONS = (
    *("push_body", "push_timeout", "push_rate", "push_breaker_failures"),
    *("push_breaker_wait", "push_breaker_max_wait"),
)


def _read_timeout(text: str, option: str) -> str:
    return str(options.whole_s(text, option))


def _read_whole_s(text: str, option: str) -> str:
    seconds = options.duration_s(text, option)
    if not seconds.is_integer():
        raise InvalidArgument(f"{option} {text!r} must be whole seconds")
    return str(int(seconds))


def _read_expiration(text: str, option: str) -> object:
    from fanlog.client import types

    # A policy without a time to live says never; no policy at all says the default.
    policy = types.ExpirationPolicy()
    if text != "never":
        policy.ttl.CopyFrom(options.duration(text, option))
    return policy


def _read_endpoint(url: str, _: str) -> str:
    if not url:
        raise InvalidArgument("--push '' is no endpoint; --no-push lets messages be pulled")
    return url


def _read_start(text: str, option: str) -> str:
    if text in ("earliest", "now"):
        return text
    return times.of_datetime(options.moment(text, option))


SETTINGS: tuple[Row, ...] = (
    Setting(
        *("filter_", "filter"),
        create="Only messages that match, such as 'event=order.* AND region=us-*'.",
        update="Of what is published from now on, only what matches.",
        metavar="EXPR",
    ),
    clearing("no_filter", "filter", "Everything that is published from now on.", "filter_"),
    Setting(
        *("ack_deadline", "ack_deadline_seconds"),
        "Time to acknowledge a message: 10s to 600s.",
        read=options.whole_s,
    ),
    Setting(
        *("retention", "message_retention_duration"),
        "Keep unacknowledged messages this long: 10m to 31d.",
        read=options.duration,
    ),
    Setting(
        *("retain_acked", "retain_acked_messages"),
        create="Keep acknowledged messages too, to seek back.",
        update="Keep acknowledged messages too, to seek back, or not.",
        kind=FLAG,
    ),
    Setting(
        *("ordering", "enable_message_ordering"),
        create="Deliver messages of one ordering key in order.",
        kind=FLAG,
    ),
    Setting(
        *("strict_order", f"labels.{LABEL_ORDERING}"),
        create="In order, and one message of a key at a time.",
        kind=FLAG,
        read=lambda *_: "strict",
    ),
    Setting(
        *("sticky", f"labels.{LABEL_ASSIGNMENT}"),
        create="Give each stream keys of its own: messages of a key go to one stream.",
        kind=FLAG,
        read=lambda *_: "sticky",
    ),
    Setting(
        *("slots", f"labels.{LABEL_KEY_SLOTS}"),
        create="With --sticky, how many slots keys are put in: 1 to 256; 64 by default.",
        kind=int | None,
        read=lambda count, _: str(count),
    ),
    Setting(
        *("fairness", f"labels.{LABEL_FAIRNESS}"),
        create="Serve tenants in turn, by the attribute fanlog-tenant of messages.",
        metavar="tenant",
    ),
    Setting(
        *("exactly_once", "enable_exactly_once_delivery"),
        create="Confirmed acks, no second delivery.",
        update="Confirmed acks, no second delivery, or at least once.",
        kind=FLAG,
    ),
    Setting(
        *("delivery", f"labels.{LABEL_DELIVERY}"),
        "At most once: acknowledged when they are sent, and lost in a crash after that; or at"
        " least once, the default.",
        metavar="at-most-once|at-least-once",
    ),
    Setting(
        *("dead_letter", "dead_letter_policy.dead_letter_topic"),
        create="Where messages go that failed too often; auto makes a topic and subscription.",
        metavar="TOPIC|auto",
        full_name=lambda name, project: None if name == "auto" else options.topic(name, project),
    ),
    Setting(
        *("dead_letter", "dead_letter_policy.dead_letter_topic"),
        update="Where messages go that failed too often.",
        metavar="TOPIC",
        full_name=options.topic,
    ),
    Setting(
        *("no_dead_letter", f"labels.{LABEL_DEAD_LETTER}"),
        create="None, also where they are the server's default.",
        kind=FLAG,
        read=lambda *_: "none",
        excludes=("dead_letter",),
    ),
    clearing(
        *("no_dead_letter", "dead_letter_policy", "Deliver messages however often they failed."),
        *("dead_letter", "max_attempts"),
    ),
    Setting(
        *("max_attempts", "dead_letter_policy.max_delivery_attempts"),
        "Deliveries before a message is dead-lettered: 1 to 100.",
        kind=int | None,
    ),
    Setting(
        *("min_backoff", "retry_policy.minimum_backoff"),
        "Wait before the first redelivery: 0s to 600s.",
        read=options.duration,
    ),
    Setting(
        *("max_backoff", "retry_policy.maximum_backoff"),
        "Longest wait before a redelivery: 0s to 600s.",
        read=options.duration,
    ),
    clearing(
        *("no_backoff", "retry_policy"),
        "Redeliver without a policy: at once; where messages are pushed, as"
        " --retry first-immediate.",
        *("min_backoff", "max_backoff"),
    ),
    Setting(
        *("retry", f"labels.{LABEL_RETRY}"),
        create="Redeliver at once the first time, then after 1s, doubling to 10m; the rule of"
        " push without a back-off.",
        metavar="first-immediate",
    ),
    Setting(
        *("retry", f"labels.{LABEL_RETRY}"),
        update="Redeliver at once the first time, then after 1s, doubling to 10m; or as by"
        " default.",
        metavar="first-immediate|default",
        read=lambda text, _: None if text == "default" else text,
    ),
    Setting(
        *("expiration", "expiration_policy"),
        "Delete the subscription when idle this long: 1d or more.",
        metavar="TIME|never",
        read=_read_expiration,
    ),
    Setting(
        *("push", "push_config"),
        create=_PUSH_HELP,
        update=f"{_PUSH_HELP} Also turns push on that an endpoint turned off.",
        metavar="URL",
        read=_read_endpoint,
        field="push_config.push_endpoint",
    ),
    clearing("no_push", "push_config", "Let messages be pulled, and push none.", "push"),
    Setting(
        *("push_body", f"labels.{LABEL_PUSH_BODY}"),
        "What push requests have in their bodies; wrapped, as Google's, by default.",
        metavar="wrapped|plain|cloudevents|event",
    ),
    Setting(
        *("push_timeout", f"labels.{LABEL_PUSH_TIMEOUT}"),
        "Time an endpoint has to answer: 1s to 600s; 10s by default.",
        read=_read_timeout,
    ),
    Setting(
        *("push_rate", f"labels.{LABEL_PUSH_RATE}"),
        "Messages a second that an endpoint gets at most; no limit by default.",
        kind=int | None,
        read=lambda count, _: str(count),
    ),
    clearing(*("no_push_rate", f"labels.{LABEL_PUSH_RATE}"), "As many as it takes.", "push_rate"),
    Setting(
        *("push_breaker_failures", f"labels.{LABEL_PUSH_BREAKER_FAILURES}"),
        "Failures without a success after which an endpoint is left alone; 5 by default.",
        kind=int | None,
        read=lambda count, _: str(count),
    ),
    Setting(
        *("push_breaker_wait", f"labels.{LABEL_PUSH_BREAKER_WAIT}"),
        "For how long at first: 1s to 1h; 1s by default.",
        read=_read_whole_s,
    ),
    Setting(
        *("push_breaker_max_wait", f"labels.{LABEL_PUSH_BREAKER_MAX_WAIT}"),
        "For how long at most: 1s to 1h; 30s by default.",
        read=_read_whole_s,
    ),
    Setting(
        *("message_ttl", f"labels.{LABEL_TTL}"),
        "Do not deliver messages that were deliverable for so long, unless they have a time-to-live"
        " of their own: 1s to 31d.",
        read=_read_whole_s,
    ),
    clearing(
        *("no_message_ttl", f"labels.{LABEL_TTL}"),
        "Deliver messages without a time-to-live however old they are.",
        "message_ttl",
    ),
    Setting(
        *("expired", f"labels.{LABEL_EXPIRED}"),
        "What becomes of messages whose time-to-live is over; drop by default.",
        metavar="drop|dead-letter",
    ),
    Setting(
        *("dependency_timeout", f"labels.{LABEL_DEPENDENCY_TIMEOUT}"),
        "How long a message waits at most for those that it depends on: 1s to 31d; 5m by default.",
        read=_read_whole_s,
    ),
    Setting(
        *("dependency_policy", f"labels.{LABEL_DEPENDENCY_POLICY}"),
        "What becomes of messages that have waited so long; deliver by default.",
        metavar="deliver|dead-letter",
    ),
    *(
        Setting(
            *(f"max_outstanding_{unit}", f"labels.{label}"),
            f"How many {unit} all consumers together may hold; 0 for any number, the default.",
            kind=int | None,
            read=lambda count, _: str(count),
        )
        for unit, label in (
            ("messages", LABEL_MAX_OUTSTANDING_MESSAGES),
            ("bytes", LABEL_MAX_OUTSTANDING_BYTES),
        )
    ),
    *BACKLOG_SETTINGS,
    ExportOptions,
    clearing("no_export", "", "Let messages be pulled, and export none."),
    Setting(
        *("start", f"labels.{LABEL_START}"),
        create="First message: all there are, those to come (default), or from a time"
        " (2025-01-31T12:00:00Z, or 10m for ten minutes ago).",
        metavar="earliest|now|TIME",
        read=_read_start,
    ),
    Setting(
        *("schema_revision", f"labels.{LABEL_SCHEMA_REVISION}"),
        create="Revision of the topic's schema that messages are wanted in, by number or id.",
        metavar="REVISION",
    ),
    Setting("label", create=LABEL_HELP, metavar="KEY=VALUE", kind=list[str] | None),
)


@add_command(app, table=SETTINGS)
def create(
    subscription: SubscriptionName,
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC|PATTERN",
            help="The topic to subscribe to, short or full name; or all that match a pattern,"
            " such as 'orders.*.created' or 'orders.#'.",
        ),
    ],
    export: ExportOptions,
    remote: Remote,
    **given: Any,
) -> None:
    """Create a subscription on a topic, or on all topics that match a pattern."""
    from fanlog.client import types

    request = types.Subscription(
        name=remote.subscription(subscription),
        topic=options.topic_or_pattern(topic, remote.project),
        labels=(labels := options.pairs(given["label"], "--label")),
    )
    dead_letter = given["dead_letter"]
    if given["max_attempts"] is not None and dead_letter is None:
        raise InvalidArgument("--max-attempts needs --dead-letter, to say where messages go")
    how = [flag(name) for name in _PUSH_OPTIONS if given[name] is not None]
    if given["push"] is None and how:
        raise InvalidArgument(f"{' and '.join(how)} need --push, to say where to")
    fill(request, "create", SETTINGS, given, remote)
    if dead_letter == "auto":
        request.labels[LABEL_DEAD_LETTER] = "auto"
    if given["strict_order"]:
        request.enable_message_ordering = True
    for label in _OPTION_LABELS:
        if labels.get(label, request.labels.get(label)) != request.labels.get(label):
            raise InvalidArgument(f"--label {label} says otherwise; give one of them")
    export.fill(request)

    with remote.connect() as client:
        created = client.create_subscription(request)
    text = f"created subscription {created.name} on {created.topic}"
    if created.HasField("dead_letter_policy") and dead_letter in (None, "auto"):
        # The caller did not name the topic: the server made it.
        text += f"; dead letters go to {created.dead_letter_policy.dead_letter_topic}"
    remote.output.done(text, resource(created))


@add_command(app, "list")
def list_(
    *,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only the subscriptions of this topic.")
    ] = None,
    remote: Remote,
) -> None:
    """List the subscriptions of a project, or of one topic."""
    output = remote.output
    with remote.connect() as client:
        if topic is not None:
            found = client.list_topic_subscriptions(remote.topic(topic))
            output.rows(["name"], ({"name": name} for name in found))
        else:
            listed = _described(client, list(client.list_subscriptions(remote.parent)))
            head = ["name", "topic", "filter", "ack_deadline_seconds", "labels", "created_at"]
            output.rows(head, listed)


@add_command(app)
def describe(subscription: SubscriptionName, remote: Remote) -> None:
    """Show everything about a subscription."""
    with remote.connect() as client:
        found = client.get_subscription(remote.subscription(subscription))
        [fields] = _described(client, [found])
    if not remote.json and fields.get("expiration_policy") == {}:
        fields["expiration_policy"] = "never"
    remote.output.fields(fields)


@add_command(app)
def consumers(subscription: SubscriptionName, remote: Remote) -> None:
    """Show which stream of a subscription has which key slots."""
    from fanlog.client.catalog import CatalogClient

    with remote.connect() as client:
        found = CatalogClient(client).describe_consumers(remote.subscription(subscription))
    rows = [resource(one) for one in found.consumers]
    if found.left_slots:
        rows.append({"client_id": "(left)", "moving_slots": list(found.left_slots)})
    if not remote.json:
        for row in rows:
            for name in ("slots", "moving_slots"):
                row[name] = ranges(row.get(name, []))
    head = ["client_id", "address", "principal", "connected_at", "slots", "moving_slots"]
    remote.output.rows([*head, "outstanding"], rows)


@add_command(app, table=SETTINGS)
def update(
    subscription: SubscriptionName, export: ExportOptions, remote: Remote, **given: Any
) -> None:
    """Change a subscription; what is not named stays as it is."""
    from fanlog.client import types

    changed = types.Subscription(name=remote.subscription(subscription))
    paths = fill(changed, "update", SETTINGS, given, remote)
    export.fill(changed)
    if given["no_export"] and export.is_given:
        raise InvalidArgument("--no-export leaves nothing for --table, --bucket")
    if given["push"] is not None or export.is_given:
        # The new mode ends the one before, whichever it was.
        paths += [path for path in _MODES if path not in paths]
    elif given["no_export"]:
        paths += _EXPORTS
    if not paths:
        raise InvalidArgument("say what to change, such as --filter; see --help")
    with remote.connect() as client:
        updated = client.update_subscription(changed, paths)
    remote.output.done(f"updated subscription {updated.name}", resource(updated))


@add_command(app)
def delete(subscription: SubscriptionName, remote: Remote) -> None:
    """Delete a subscription and its backlog."""
    name = remote.subscription(subscription)
    with remote.connect() as client:
        client.delete_subscription(name)
    remote.report_deleted("subscription", name)


def _described(client: Client, subscriptions: Sequence[Any]) -> list[dict[str, Any]]:
    """Subscriptions as plain values, with when they were made where the server knows it."""
    from fanlog.client.catalog import CatalogClient

    told = CatalogClient(client).describe_subscriptions([one.name for one in subscriptions])
    return [with_created(resource(one), told.get(one.name)) for one in subscriptions]
