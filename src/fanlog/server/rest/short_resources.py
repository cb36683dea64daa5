"""Resources of the short form, as Google's API has them.

Each translation takes the body of a request, after the check that it has no unknown fields, and
returns the JSON of Google's resource. The name is left out: the reader sets it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, endpoints, names
from fanlog.model.json_value import Json, JsonObject
from fanlog.model.resources import AT_MOST_ONCE
from fanlog.server.calls import SHORT_BODY, SHORT_FORM_METADATA
from fanlog.server.rest import json_in
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.route import Asked

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
    **{
        field: f"labels.{label}"
        for field, (label, _) in (shapes.SETTINGS | shapes.TOPIC_SETTINGS).items()
    },
}
#: The window of subscriptions that are pulled from, unless another is asked for.
_WINDOW = str(limits.MAX_OUTSTANDING_MESSAGES_SHORT)
_MODE_PATHS = ("push_config", "bigquery_config", "cloud_storage_config")
_EXPORTS = _MODE_PATHS[1:]
_SHORT_ONLY = frozenset(
    {"name", "mode", "delivery_url", "dead_letter", "retention_seconds", *shapes.SETTINGS}
)


def check_known(value: Json, known: Collection[str], where: str = "") -> JsonObject:
    """A value of a body, once it is an object with none but the `known` fields."""
    if not isinstance(value, dict):
        place = where.rstrip(".") or "the body"
        raise InvalidArgument(f"{place}: must be a JSON object, not {json_in.kind(value)}")
    for key in value:
        if key not in known:
            raise InvalidArgument(
                f"{names.shown(where + key)}: no such field here; there are "
                f"{', '.join(sorted(known))}"
            )
    return value


def check_kind(name: str, value: Json, *kinds: type) -> None:
    if type(value) not in kinds:
        raise InvalidArgument(f"{name}: cannot be {json_in.kind(value)}")


def full_name(collection: str, value: Json, field: str, project: str) -> str:
    """The full name of a resource that is given by its id, or by its full name already."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field}: must be a string, not {json_in.kind(value)}")
    if value.startswith("projects/"):
        return value
    return f"projects/{project}/{collection}/{value}"


def mask_paths(body: JsonObject) -> Iterator[str]:
    """The fields of Google's resource that an update by this body changes."""
    for key, value in body.items():
        if key == "mode":
            # The new mode ends the one before, whichever it was.
            yield from _MODE_PATHS
        elif key == "dead_letter" and isinstance(value, dict):
            yield from (f"dead_letter_policy.{_DEAD_LETTER[part]}" for part in value)
        else:
            yield _PATHS.get(key, key)


def translate_new_topic(body: JsonObject, asked: Asked) -> JsonObject:
    count = body.get("partition_count")
    if count not in (None, 1) or isinstance(count, bool):
        raise InvalidArgument(
            f"partition_count: cannot be {names.shown(str(count))}; a topic has 1 partition"
        )
    return translate_topic({k: v for k, v in body.items() if k != "partition_count"}, asked)


def translate_topic_change(body: JsonObject, asked: Asked) -> JsonObject:
    _refuse_fixed("a topic", body, shapes.FIXED_TOPIC_SETTINGS)
    asked.metadata.append((SHORT_FORM_METADATA, "true"))
    return translate_topic(body, asked)


def _refuse_fixed(what: str, body: JsonObject, fixed: Collection[str]) -> None:
    for field in fixed:
        if field in body:
            raise InvalidArgument(
                f"{field}: is read when {what} is made and cannot be changed later; leave it out"
            )


def translate_topic(body: JsonObject, asked: Asked) -> JsonObject:
    own = {"name", "retention_seconds", *shapes.TOPIC_SETTINGS}
    made = {k: v for k, v in body.items() if k not in own}
    settings, labels = _setting_labels(body, shapes.TOPIC_SETTINGS)
    if settings:
        made["labels"] = labels | settings
    made |= _translate_retention(body, asked)
    schema = made.get("schema_settings")
    if isinstance(schema, dict) and schema.get("schema") is not None:
        name = full_name("schemas", schema["schema"], "schema_settings.schema", asked.project)
        made["schema_settings"] = schema | {"schema": name}
    return made


def _translate_retention(body: JsonObject, asked: Asked) -> JsonObject:
    if "retention_seconds" not in body:
        return {}
    # Errors name the field as the caller did.
    asked.renames.append((_RETENTION, "retention_seconds"))
    if _RETENTION in body:
        raise InvalidArgument(f"retention_seconds: say it, or {_RETENTION}, not both")
    seconds = body["retention_seconds"]
    if seconds is None:
        return {_RETENTION: None}
    check_kind("retention_seconds", seconds, int, float)
    assert isinstance(seconds, int | float)
    if not 0 <= seconds <= _DURATION_S_MAX:
        raise InvalidArgument(f"retention_seconds: {names.shown(str(seconds))} is out of range")
    return {_RETENTION: f"{seconds:.9f}s" if isinstance(seconds, float) else f"{seconds}s"}


def translate_snapshot(body: JsonObject, asked: Asked) -> JsonObject:
    made = {key: value for key, value in body.items() if key != "name"}
    if "subscription" in made:
        source = made["subscription"]
        made["subscription"] = full_name("subscriptions", source, "subscription", asked.project)
    return made


def translate_new_subscription(body: JsonObject, asked: Asked) -> JsonObject:
    for name in (field for field in shapes.SETTINGS if field.startswith("push_")):
        if body.get(name) is not None and body.get("mode") != "push":
            raise InvalidArgument(f"{name}: is for mode push; say so, or leave it out")
    made = _translate_subscription(
        {"ack_deadline_seconds": shapes.ACK_DEADLINE_S_DEFAULT} | body, asked
    )
    labels = made.get("labels", {})
    url = body.get("delivery_url")
    if not isinstance(labels, dict):
        return made
    if isinstance(url, str) and endpoints.is_web(url):
        made["labels"] = {attributes.LABEL_PUSH_BODY: SHORT_BODY} | labels
    elif _has_window(body, labels):
        made["labels"] = {attributes.LABEL_MAX_OUTSTANDING_MESSAGES: _WINDOW} | labels
    return made


def _has_window(body: JsonObject, labels: JsonObject) -> bool:
    """Whether it is pulled from, and its messages are outstanding until they are acknowledged."""
    is_export = any(body.get(name) is not None for name in _EXPORTS)
    is_pulled = body.get("mode") in (None, "pull") and not is_export
    return is_pulled and labels.get(attributes.LABEL_DELIVERY) != AT_MOST_ONCE


def translate_subscription_change(body: JsonObject, asked: Asked) -> JsonObject:
    _refuse_fixed("a subscription", body, shapes.FIXED_SETTINGS)
    asked.metadata.append((SHORT_FORM_METADATA, "true"))
    return _translate_subscription(body, asked)


def _translate_subscription(body: JsonObject, asked: Asked) -> JsonObject:
    made = {k: v for k, v in body.items() if k not in _SHORT_ONLY}
    made |= _translate_retention(body, asked)
    settings, labels = _setting_labels(body, shapes.SETTINGS)
    if settings:
        made["labels"] = labels | settings
    if body.get("topic") is not None:
        made["topic"] = full_name("topics", body["topic"], "topic", asked.project)
    if "ack_deadline_seconds" in body and body["ack_deadline_seconds"] is None:
        made["ack_deadline_seconds"] = shapes.ACK_DEADLINE_S_DEFAULT
    if body.get("dead_letter") is not None:
        made["dead_letter_policy"] = _translate_dead_letter(body["dead_letter"], asked)
    if "mode" in body or "delivery_url" in body:
        made["push_config"] = _translate_push(body.get("mode"), body.get("delivery_url"))
    exports = [name for name in _EXPORTS if body.get(name) is not None]
    if "mode" in body and (body["mode"] == "export") != bool(exports):
        raise InvalidArgument(
            f"mode: {names.shown(str(body['mode']))} with {exports[0]} given"
            if exports
            else f"mode: 'export' needs {' or '.join(_EXPORTS)}"
        )
    return made


def _setting_labels(
    body: JsonObject, known: Mapping[str, tuple[str, type]]
) -> tuple[JsonObject, JsonObject]:
    """The labels that fields of this form stand for, and the labels of the body."""
    found: JsonObject = {}
    given = body.get("labels") or {}
    if not isinstance(given, dict):
        raise InvalidArgument(f"labels: must be a JSON object, not {json_in.kind(given)}")
    for name, (label, kind) in known.items():
        if body.get(name) is not None:
            check_kind(name, body[name], *((float, int) if kind is float else (kind,)))
            found[label] = shapes.label_value(body[name])
            if given.get(label, found[label]) != found[label]:
                raise InvalidArgument(f"{name}: the label {label} says otherwise; give one of them")
    return found, given


def _translate_dead_letter(value: Json, asked: Asked) -> JsonObject:
    policy = check_known(value, _DEAD_LETTER, "dead_letter.")
    if not policy:
        raise InvalidArgument("dead_letter: is empty; it has topic and max_delivery_attempts")
    made = {_DEAD_LETTER[key]: value for key, value in policy.items()}
    topic = policy.get("topic")
    if topic is not None:
        made["dead_letter_topic"] = full_name("topics", topic, "dead_letter.topic", asked.project)
    return made


def _translate_push(mode: Json, delivery_url: Json) -> JsonObject:
    if mode not in (None, "pull", "push", "export"):
        raise InvalidArgument(f"mode: must be 'pull', 'push' or 'export', not {json_in.kind(mode)}")
    if mode == "push" and not delivery_url:
        raise InvalidArgument("delivery_url: needed for mode push")
    if mode != "push" and delivery_url:
        raise InvalidArgument("delivery_url: is for mode push; say so, or leave it out")
    return {"push_endpoint": delivery_url} if delivery_url else {}
