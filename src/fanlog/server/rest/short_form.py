"""The short form: resources by id in the server's own project, snake_case, plain names.

A resource is what Google's API has, with its fields in snake_case, but for `name` and `topic`,
which are ids (a topic of another project is given in full); `mode` and `delivery_url` stand for
`push_config`, `dead_letter` for `dead_letter_policy`, and `retry`, `push_body` and
`push_timeout_seconds` for labels. PATCH changes the fields that it names, and
`null` takes one back to its default. The verbs behind it are those of gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fanlog.server.rest import positions, short_replay, short_schemas
from fanlog.server.rest import short_answers as answers
from fanlog.server.rest import short_requests as requests
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.json_schema import STRING, Schema, record
from fanlog.server.rest.route import Asked, Route
from fanlog.wire import types

#: What the fields are called here that verbs complain of; longer names first.
RENAMES = (
    ("dead_letter_policy.dead_letter_topic", "dead_letter.topic"),
    ("dead_letter_policy.max_delivery_attempts", "dead_letter.max_delivery_attempts"),
    ("dead_letter_policy", "dead_letter"),
    ("push_config.push_endpoint", "delivery_url"),
    ("push_config", "mode"),
    *((f"label {label}", field) for field, (label, _) in shapes.SETTINGS.items()),
)

Read = Callable[[Asked], bytes]
Write = Callable[[bytes, Asked], Any]

_SHOWN: dict[str, tuple[Write, Schema]] = {
    "topics": (
        partial(answers.resource, types.Topic, answers.short_resource),
        record(shapes.TOPIC_SHOWN),
    ),
    "subscriptions": (
        partial(answers.resource, types.Subscription, answers.short_subscription),
        record(shapes.SUBSCRIPTION_SHOWN),
    ),
    "snapshots": (
        partial(answers.resource, types.Snapshot, answers.short_resource),
        record(shapes.SNAPSHOT),
    ),
}


def routes() -> list[Route]:
    """All routes of the short form."""
    found = [*_topics(), *_subscriptions(), *_messages(), *_snapshots()]
    found += [*short_replay.routes(), *short_schemas.routes()]
    return [replace(route, renames=RENAMES) for route in found]


def _topics() -> list[Route]:
    new = partial(requests.create, "topics", types.Topic, shapes.NEW_TOPIC, requests.new_topic, ())
    change = partial(
        requests.update,
        "topics",
        types.UpdateTopicRequest,
        "topic",
        shapes.TOPIC,
        requests.google_topic,
    )
    show_page = partial(answers.page, types.ListTopicsResponse, "topics", answers.short_resource)
    return [
        _making("topics", "Publisher.CreateTopic", new, shapes.NEW_TOPIC, "name"),
        _listing(
            "/v1/topics", "Publisher.ListTopics", types.ListTopicsRequest, show_page, "topics"
        ),
        *_existing("topics", "topic", "Publisher", "Topic", change, shapes.TOPIC),
        _listing_of("subscriptions", types.ListTopicSubscriptionsRequest),
        _listing_of("snapshots", types.ListTopicSnapshotsRequest),
    ]


def _subscriptions() -> list[Route]:
    new = partial(
        requests.create,
        "subscriptions",
        types.Subscription,
        shapes.SUBSCRIPTION,
        requests.new_subscription,
        ("topic",),
    )
    change = partial(
        requests.update,
        "subscriptions",
        types.UpdateSubscriptionRequest,
        "subscription",
        shapes.SUBSCRIPTION,
        requests.google_subscription,
    )
    show_page = partial(
        answers.page,
        types.ListSubscriptionsResponse,
        "subscriptions",
        answers.short_subscription,
    )
    return [
        _making(
            "subscriptions",
            "Subscriber.CreateSubscription",
            new,
            shapes.SUBSCRIPTION,
            "name",
            "topic",
        ),
        _listing(
            "/v1/subscriptions",
            "Subscriber.ListSubscriptions",
            types.ListSubscriptionsRequest,
            show_page,
            "subscriptions",
        ),
        *_existing(
            "subscriptions",
            "subscription",
            "Subscriber",
            "Subscription",
            change,
            shapes.SUBSCRIPTION,
        ),
    ]


def _messages() -> list[Route]:
    detach = partial(
        requests.named, "subscriptions", types.DetachSubscriptionRequest, "subscription"
    )
    ack = partial(requests.settle, types.AcknowledgeRequest, shapes.ACK_IDS, ("ack_ids",))
    modify = partial(
        requests.settle,
        types.ModifyAckDeadlineRequest,
        shapes.MODIFY,
        ("ack_ids", "ack_deadline_seconds"),
    )
    publish = Route(
        http="POST",
        path="/v1/topics/{topic=*}:publish",
        method="Publisher.Publish",
        read=requests.publish,
        write=answers.published,
        takes=record(shapes.MESSAGES, "messages"),
        gives=shapes.PUBLISHED,
    )
    pull = Route(
        http="POST",
        path="/v1/subscriptions/{subscription=*}:pull",
        method="Subscriber.Pull",
        read=requests.pull,
        write=answers.pulled,
        waits=True,
        takes=record(shapes.PULL),
        gives=shapes.PULLED,
    )
    pull_at_path = replace(
        pull,
        path="/v1/subscriptions/{subscription=*}/pull",
        read=requests.pull_at_path,
        parameters=shapes.PULL_QUERY,
    )
    return [
        publish,
        replace(publish, path="/v1/topics/{topic=*}/publish"),
        pull,
        pull_at_path,
        replace(pull_at_path, http="GET", takes=None),
        Route(
            http="GET",
            path="/v1/subscriptions/{subscription=*}/snapshot",
            method=positions.GET_POSITION,
            read=requests.get_position,
            write=answers.position,
            gives=shapes.POSITION,
        ),
        _settling("ack", "Subscriber.Acknowledge", ack, record(shapes.ACK_IDS, "ack_ids")),
        _settling(
            "nack",
            "Subscriber.ModifyAckDeadline",
            requests.nack,
            record(shapes.NACK, "ack_ids"),
        ),
        _settling(
            "modify_ack_deadline",
            "Subscriber.ModifyAckDeadline",
            modify,
            record(shapes.MODIFY, "ack_ids", "ack_deadline_seconds"),
        ),
        Route(
            http="POST",
            path="/v1/subscriptions/{subscription=*}:seek",
            method=positions.SEEK,
            read=requests.seek,
            write=partial(positions.moved, {}),
            takes=record(shapes.SEEK),
            gives=shapes.MOVED,
        ),
        _settling("detach", "Publisher.DetachSubscription", detach, None),
    ]


def _snapshots() -> list[Route]:
    new = partial(
        requests.create,
        "snapshots",
        types.CreateSnapshotRequest,
        shapes.NEW_SNAPSHOT,
        requests.google_snapshot,
        ("subscription",),
    )
    change = partial(
        requests.update,
        "snapshots",
        types.UpdateSnapshotRequest,
        "snapshot",
        shapes.SNAPSHOT,
        requests.same,
    )
    show_page = partial(
        answers.page, types.ListSnapshotsResponse, "snapshots", answers.short_resource
    )
    return [
        _making(
            "snapshots",
            "Subscriber.CreateSnapshot",
            new,
            shapes.NEW_SNAPSHOT,
            "name",
            "subscription",
        ),
        _listing(
            "/v1/snapshots",
            "Subscriber.ListSnapshots",
            types.ListSnapshotsRequest,
            show_page,
            "snapshots",
        ),
        *_existing("snapshots", "snapshot", "Subscriber", "Snapshot", change, shapes.SNAPSHOT),
    ]


def _making(
    collection: str, method: str, read: Read, fields: dict[str, Schema], *required: str
) -> Route:
    write, shown = _SHOWN[collection]
    return Route(
        http="POST",
        path=f"/v1/{collection}",
        method=method,
        read=read,
        write=write,
        status=201,
        takes=record(fields, *required),
        gives=shown,
    )


def _existing(
    collection: str,
    field: str,
    service: str,
    noun: str,
    change: Read,
    fields: dict[str, Schema],
) -> list[Route]:
    """GET, PATCH and DELETE of one resource."""
    path = f"/v1/{collection}/{{{field}=*}}"
    write, shown = _SHOWN[collection]
    get, delete = getattr(types, f"Get{noun}Request"), getattr(types, f"Delete{noun}Request")
    return [
        Route(
            http="GET",
            path=path,
            method=f"{service}.Get{noun}",
            read=partial(requests.named, collection, get, field),
            write=write,
            gives=shown,
        ),
        Route(
            http="PATCH",
            path=path,
            method=f"{service}.Update{noun}",
            read=change,
            write=write,
            takes=record(fields),
            gives=shown,
        ),
        Route(
            http="DELETE",
            path=path,
            method=f"{service}.Delete{noun}",
            read=partial(requests.named, collection, delete, field),
            write=answers.nothing,
            status=204,
        ),
    ]


def _listing(path: str, method: str, request: Any, write: Write, collection: str) -> Route:
    return Route(
        http="GET",
        path=path,
        method=method,
        read=partial(requests.listing, request),
        write=write,
        parameters=shapes.PAGE,
        gives=shapes.page_of(collection, _SHOWN[collection][1]),
    )


def _listing_of(collection: str, request: Any) -> Route:
    """Names of what belongs to a topic."""
    noun = collection.capitalize()
    answer = getattr(types, f"ListTopic{noun}Response")
    return Route(
        http="GET",
        path=f"/v1/topics/{{topic=*}}/{collection}",
        method=f"Publisher.ListTopic{noun}",
        read=partial(requests.list_of, request),
        write=partial(answers.page, answer, collection, answers.short_name),
        parameters=shapes.PAGE,
        gives=shapes.page_of(collection, STRING),
    )


def _settling(verb: str, method: str, read: Read, takes: Schema | None) -> Route:
    return Route(
        http="POST",
        path=f"/v1/subscriptions/{{subscription=*}}:{verb}",
        method=method,
        read=read,
        write=answers.nothing,
        status=204,
        takes=takes,
    )
