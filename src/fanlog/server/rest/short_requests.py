"""Requests of the short form, as those of gRPC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, endpoints, names
from fanlog.server.calls import SHORT_BODY, SHORT_FORM_METADATA
from fanlog.server.rest import json_in, positions
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.publishing import publish_request
from fanlog.server.rest.route import Asked
from fanlog.wire import output_only, types

#: The longest that protobuf has words for: some 10,000 years.
_DURATION_S_MAX = 315_576_000_000
_RETENTION = "message_retention_duration"
_DEAD_LETTER = {
    "topic": "dead_letter_topic",
    "max_delivery_attempts": "max_delivery_attempts",
}
#: Fields of this form that are called otherwise in Google's.
_PATHS = {
    "mode": "push_config",
    "delivery_url": "push_config",
    "dead_letter": "dead_letter_policy",
    "retention_seconds": _RETENTION,
    **{field: f"labels.{label}" for field, (label, _) in shapes.SETTINGS.items()},
}
_MODE_PATHS = ("push_config", "bigquery_config", "cloud_storage_config")
_EXPORTS = _MODE_PATHS[1:]
_SHORT_ONLY = frozenset(
    {"name", "mode", "delivery_url", "dead_letter", "retention_seconds", *shapes.SETTINGS}
)

Body = dict[str, Any]


_NOT_A_PUBLISHERS = output_only.ignored_fields("PubsubMessage")


def fields(asked: Asked, known: Mapping[str, Any], *required: str) -> Body:
    """The body, once it is an object that has no other fields."""
    if asked.query:
        raise json_in.unknown_parameter(asked.query[0][0], ())
    _check_known(asked.body, known, "")
    for name in required:
        if asked.body.get(name) is None:
            raise InvalidArgument(f"{name}: needed here")
    found: Body = asked.body
    return found


def _check_known(value: object, known: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, dict):
        what = where.rstrip(".") or "the body"
        raise InvalidArgument(f"{what}: must be a JSON object, not {json_in.kind(value)}")
    for key in value:
        if key not in known:
            raise InvalidArgument(
                f"{names.shown(where + key)}: no such field here; there are "
                f"{', '.join(sorted(known))}"
            )


def full_name(collection: str, value: object, field: str, project: str) -> str:
    """The full name of what is given by its id, or by that already."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field}: must be a string, not {json_in.kind(value)}")
    if value.startswith("projects/"):
        return value
    return f"projects/{project}/{collection}/{value}"


def own_name(collection: str, asked: Asked, value: object = None) -> str:
    """The full name of the resource that a request is about; an id, never a full name."""
    if value is None:
        [value] = asked.variables.values()
    if not isinstance(value, str):
        raise InvalidArgument(f"name: must be a string, not {json_in.kind(value)}")
    return f"projects/{asked.project}/{collection}/{value}"


def create(
    collection: str,
    request: Any,
    known: Mapping[str, Any],
    to_google: Callable[[Body, str], Body],
    required: tuple[str, ...],
    asked: Asked,
) -> bytes:
    """Make a resource."""
    body = fields(asked, known, "name", *required)
    message = request()
    _rename(body, asked)
    json_in.fill(message, to_google(body, asked.project))
    message.name = own_name(collection, asked, body["name"])
    return bytes(message.SerializeToString())


def update(
    collection: str,
    request: Any,
    field: str,
    known: Mapping[str, Any],
    to_google: Callable[[Body, str], Body],
    asked: Asked,
) -> bytes:
    """Change the fields that a body names."""
    body = fields(asked, known)
    if not body:
        raise InvalidArgument(f"the body: names no field to change, of {', '.join(sorted(known))}")
    if collection == "subscriptions":
        asked.metadata.append((SHORT_FORM_METADATA, "true"))
    message = request()
    _rename(body, asked)
    resource = getattr(message, field)
    json_in.fill(resource, to_google(body, asked.project))
    resource.name = own_name(collection, asked)
    paths: list[str] = []
    for key, value in body.items():
        if key == "mode":
            # Whatever messages do from now on, they do not do what they did.
            paths += _MODE_PATHS
        elif key == "dead_letter" and value is not None:
            paths += [f"dead_letter_policy.{_DEAD_LETTER[part]}" for part in value]
        else:
            paths.append(_PATHS.get(key, key))
    message.update_mask.paths.extend(dict.fromkeys(paths))
    return bytes(message.SerializeToString())


def named(collection: str, request: Any, field: str, asked: Asked) -> bytes:
    """A request that has nothing but the name of what it is about."""
    fields(asked, {})
    return bytes(request(**{field: own_name(collection, asked)}).SerializeToString())


def get_position(asked: Asked) -> bytes:
    """Where a subscription stands."""
    fields(asked, {})
    return orjson.dumps({"subscription": own_name("subscriptions", asked)})


def listing(request: Any, asked: Asked) -> bytes:
    message = request(project=names.project_name(asked.project))
    return with_page(message, asked)


def list_of(request: Any, asked: Asked) -> bytes:
    return with_page(request(topic=own_name("topics", asked)), asked)


def with_page(message: Any, asked: Asked) -> bytes:
    json_in.fill_query(message, asked.query, frozenset(shapes.PAGE))
    return bytes(message.SerializeToString())


def same(body: Body, _: str) -> Body:
    return {key: value for key, value in body.items() if key != "name"}


def _rename(body: Body, asked: Asked) -> None:
    """Errors name a field as the caller did."""
    if "retention_seconds" in body:
        asked.renames.append((_RETENTION, "retention_seconds"))


def new_topic(body: Body, project: str) -> Body:
    count = body.get("partition_count")
    if count not in (None, 1) or isinstance(count, bool):
        raise InvalidArgument(
            f"partition_count: cannot be {names.shown(str(count))}; a topic has 1 partition"
        )
    return google_topic({k: v for k, v in body.items() if k != "partition_count"}, project)


def google_topic(body: Body, project: str) -> Body:
    """A topic of this form, as Google's API would have it."""
    made = {k: v for k, v in same(body, project).items() if k != "retention_seconds"}
    made |= _google_retention(body)
    settings = made.get("schema_settings")
    if isinstance(settings, dict) and settings.get("schema") is not None:
        schema = full_name("schemas", settings["schema"], "schema_settings.schema", project)
        made["schema_settings"] = settings | {"schema": schema}
    return made


def _google_retention(body: Body) -> Body:
    if "retention_seconds" not in body:
        return {}
    if _RETENTION in body:
        raise InvalidArgument(f"retention_seconds: say it, or {_RETENTION}, not both")
    seconds = body["retention_seconds"]
    if seconds is None:
        return {_RETENTION: None}
    _check_kind("retention_seconds", seconds, int, float)
    if not 0 <= seconds <= _DURATION_S_MAX:
        raise InvalidArgument(f"retention_seconds: {names.shown(str(seconds))} is out of range")
    return {_RETENTION: f"{seconds:.9f}s" if isinstance(seconds, float) else f"{seconds}s"}


def google_snapshot(body: Body, project: str) -> Body:
    fields = same(body, project)
    if "subscription" in fields:
        fields["subscription"] = full_name(
            "subscriptions", fields["subscription"], "subscription", project
        )
    return fields


def new_subscription(body: Body, project: str) -> Body:
    for name in ("push_body", "push_timeout_seconds"):
        if body.get(name) is not None and body.get("mode") != "push":
            raise InvalidArgument(f"{name}: is for mode push; say so, or leave it out")
    fields = google_subscription(
        {"ack_deadline_seconds": shapes.ACK_DEADLINE_S_DEFAULT} | body, project
    )
    url = fields.get("push_config", {}).get("push_endpoint")
    labels = fields.get("labels", {})
    if isinstance(url, str) and endpoints.is_web(url) and isinstance(labels, dict):
        fields["labels"] = {attributes.LABEL_PUSH_BODY: SHORT_BODY} | labels
    return fields


def google_subscription(body: Body, project: str) -> Body:
    """A subscription of this form, as Google's API would have it."""
    fields = {k: v for k, v in body.items() if k not in _SHORT_ONLY} | _google_retention(body)
    settings = _setting_labels(body)
    if settings:
        fields["labels"] = (body.get("labels") or {}) | settings
    if body.get("topic") is not None:
        fields["topic"] = full_name("topics", body["topic"], "topic", project)
    if "ack_deadline_seconds" in body and body["ack_deadline_seconds"] is None:
        fields["ack_deadline_seconds"] = shapes.ACK_DEADLINE_S_DEFAULT
    if body.get("dead_letter") is not None:
        fields["dead_letter_policy"] = _google_dead_letter(body["dead_letter"], project)
    if "mode" in body or "delivery_url" in body:
        fields["push_config"] = _google_push(body.get("mode"), body.get("delivery_url"))
    exports = [name for name in _EXPORTS if body.get(name) is not None]
    if "mode" in body and (body["mode"] == "export") != bool(exports):
        raise InvalidArgument(
            f"mode: {names.shown(str(body['mode']))} with {exports[0]} given"
            if exports
            else f"mode: 'export' needs {' or '.join(_EXPORTS)}"
        )
    return fields


def _setting_labels(body: Body) -> dict[str, str]:
    """The labels that fields of this form stand for."""
    found: dict[str, str] = {}
    given = body.get("labels") or {}
    if not isinstance(given, dict):
        raise InvalidArgument(f"labels: must be a JSON object, not {json_in.kind(given)}")
    for name, (label, kind) in shapes.SETTINGS.items():
        if body.get(name) is not None:
            _check_kind(name, body[name], kind)
            found[label] = str(body[name])
            if given.get(label, found[label]) != found[label]:
                raise InvalidArgument(f"{name}: the label {label} says otherwise; give one of them")
    return found


def _google_dead_letter(policy: object, project: str) -> Body:
    _check_known(policy, _DEAD_LETTER, "dead_letter.")
    assert isinstance(policy, dict)
    if not policy:
        raise InvalidArgument("dead_letter: is empty; it has topic and max_delivery_attempts")
    found = {_DEAD_LETTER[key]: value for key, value in policy.items()}
    topic = policy.get("topic")
    if topic is not None:
        found["dead_letter_topic"] = full_name("topics", topic, "dead_letter.topic", project)
    return found


def _google_push(mode: object, delivery_url: object) -> Body:
    if mode not in (None, "pull", "push", "export"):
        raise InvalidArgument(f"mode: must be 'pull', 'push' or 'export', not {json_in.kind(mode)}")
    if mode == "push" and not delivery_url:
        raise InvalidArgument("delivery_url: needed for mode push")
    if mode != "push" and delivery_url:
        raise InvalidArgument("delivery_url: is for mode push; say so, or leave it out")
    return {"push_endpoint": delivery_url} if delivery_url else {}


def publish(asked: Asked) -> bytes:
    body = fields(asked, shapes.MESSAGES, "messages")
    topic = own_name("topics", asked)
    raw = publish_request(topic, body)
    if raw is not None:
        return raw
    message = types.PublishRequest(topic=topic)
    json_in.fill(message, body)
    for index, one in enumerate(message.messages):
        # Google's form ignores these, for its clients send them; nobody sends them here.
        for field, _ in one.ListFields():
            if field.name in _NOT_A_PUBLISHERS:
                raise InvalidArgument(
                    f"messages[{index}].{field.name}: no such field here; there are "
                    f"{', '.join(sorted(shapes.MESSAGE))}"
                )
    return bytes(message.SerializeToString())


def pull_at_path(asked: Asked) -> bytes:
    """A pull that may say in the query what the other one says in its body."""
    parameters, asked.query = asked.query, []
    body = dict(fields(asked, shapes.PULL))
    message = types.PullRequest()
    for key, _ in parameters:
        if key not in shapes.PULL_QUERY:
            raise json_in.unknown_parameter(key, shapes.PULL_QUERY)
        if key == "max":
            asked.renames.append(("max_messages", "max"))
    given = [("max_messages" if key == "max" else key, text) for key, text in parameters]
    json_in.fill_query(message, given, frozenset(shapes.PULL))
    for key, _ in given:
        if key in body:
            raise InvalidArgument(f"{key}: is in the query and in the body; say it once")
        body[key] = getattr(message, key)
    asked.body = body
    return pull(asked)


def pull(asked: Asked) -> bytes:
    message = types.PullRequest(max_messages=shapes.PULL_MESSAGES_DEFAULT)
    json_in.fill(message, fields(asked, shapes.PULL))
    if not 1 <= message.max_messages <= limits.PULL_MESSAGES_MAX:
        raise InvalidArgument(
            f"max_messages: {message.max_messages} is out of range; "
            f"1 to {limits.PULL_MESSAGES_MAX} are allowed"
        )
    message.subscription = own_name("subscriptions", asked)
    return bytes(message.SerializeToString())


def settle(
    request: Any, known: Mapping[str, Any], required: tuple[str, ...], asked: Asked
) -> bytes:
    body = fields(asked, known, *required)
    message = request()
    json_in.fill(message, body)
    message.subscription = own_name("subscriptions", asked)
    return bytes(message.SerializeToString())


def nack(asked: Asked) -> bytes:
    body = dict(fields(asked, shapes.NACK, "ack_ids"))
    requeue, delay_s, reason = (body.pop(n, None) for n in ("requeue", "delay_seconds", "reason"))
    if requeue is not None:
        _check_kind("requeue", requeue, bool)
        asked.metadata.append((attributes.NACK_REQUEUE, "true" if requeue else "false"))
    if delay_s is not None:
        _check_kind("delay_seconds", delay_s, int, float)
        asked.metadata.append((attributes.NACK_DELAY, str(delay_s)))
    if reason is not None:
        _check_kind("reason", reason, str)
        asked.metadata.append((attributes.NACK_REASON, reason))
    message = types.ModifyAckDeadlineRequest(subscription=own_name("subscriptions", asked))
    json_in.fill(message, body)
    return bytes(message.SerializeToString())


def _check_kind(name: str, value: object, *kinds: type) -> None:
    if type(value) not in kinds:
        raise InvalidArgument(f"{name}: cannot be {json_in.kind(value)}")


def seek(asked: Asked) -> bytes:
    body = dict(fields(asked, shapes.SEEK))
    if body.get("snapshot") is not None:
        body["snapshot"] = full_name("snapshots", body["snapshot"], "snapshot", asked.project)
    return positions.read_seek(body, "message_id", own_name("subscriptions", asked))
