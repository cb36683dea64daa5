"""Requests of the short form, as those of gRPC: the reader of all, and the verbs that differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, names
from fanlog.model import term_attributes as terms
from fanlog.model.attributes import COMPATIBILITY
from fanlog.model.json_value import Json, JsonObject
from fanlog.server.rest import json_in, positions
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.binding import HttpBinding, MessageType
from fanlog.server.rest.route import Asked, parse_template
from fanlog.server.rest.short_resources import check_kind, check_known, full_name, mask_paths
from fanlog.wire import output_only, types

_NOT_A_PUBLISHERS = output_only.ignored_fields("PubsubMessage")


class ShortReader:
    """Makes the verb's request of a binding: from the body, then the query, then the path.

    A variable of the path is an id, and goes as a full name into the field that it is called by. A
    POST to a collection has the id in the body's `name`. A request about a whole project is about
    the server's own.
    """

    def __init__(self, binding: HttpBinding) -> None:
        self._binding = binding
        self._request: MessageType = binding.messages[0]
        takes: Mapping[str, Any] = binding.takes or {}
        self._known: Collection[str] = takes.get("properties", ())
        self._needed: Collection[str] = takes.get("required", ())
        fields = self._request.DESCRIPTOR.fields_by_name
        self._parents = [field for field in ("project", "parent") if field in fields]
        self._is_named_by_body = "name" in self._needed and "name" in fields
        self._variable = next(iter(parse_template(binding.path)[2]), "")
        #: Such as `topics`.
        self._collection = binding.path.split("/")[2]

    def __call__(self, asked: Asked) -> bytes:
        binding = self._binding
        body = self._checked(asked)
        message = self._request()
        translated = binding.translate(body, asked) if binding.translate else body
        if binding.body:
            part = message if binding.body == "*" else getattr(message, binding.body)
            json_in.fill(part, translated)
        if binding.query:
            json_in.fill_query(message, asked.query, frozenset(binding.query))
        self._set_names(message, asked)
        if binding.http == "PATCH":
            message.update_mask.paths.extend(dict.fromkeys(mask_paths(body)))
        if binding.finish:
            binding.finish(message, asked)
        return bytes(message.SerializeToString())

    def name(self, asked: Asked) -> str:
        """The full name of the resource that the path of a request names."""
        return f"projects/{asked.project}/{self._collection}/{asked.variables[self._variable]}"

    def _checked(self, asked: Asked) -> JsonObject:
        """The body, once it has no other fields than the binding's, and those that it needs."""
        if asked.query and not self._binding.query:
            raise json_in.unknown_parameter(asked.query[0][0], ())
        body = check_known(asked.body, self._known)
        for name in self._needed:
            if body.get(name) is None:
                raise InvalidArgument(f"{name}: needed here")
        if self._binding.http == "PATCH" and not body:
            known = ", ".join(sorted(self._known))
            raise InvalidArgument(f"the body: names no field to change, of {known}")
        return body

    def _set_names(self, message: Any, asked: Asked) -> None:
        for field in self._parents:
            setattr(message, field, names.project_name(asked.project))
        if self._is_named_by_body:
            assert isinstance(asked.body, dict)
            name = own_id(asked.body)
            message.name = f"projects/{asked.project}/{self._collection}/{name}"
        elif self._variable:
            *outer, last = self._variable.split(".")
            for part in outer:
                message = getattr(message, part)
            setattr(message, last, self.name(asked))


def own_id(body: Mapping[str, Json]) -> str:
    """The id of the resource that a body is about."""
    name = body["name"]
    if not isinstance(name, str):
        raise InvalidArgument(f"name: must be a string, not {json_in.kind(name)}")
    return name


def translate_publish(body: JsonObject, _: Asked) -> JsonObject:
    """Make attributes of the fields by which messages ask for something."""
    messages = body["messages"]
    if not isinstance(messages, list) or not any(
        isinstance(one, dict) and not shapes.ASKING.keys().isdisjoint(one) for one in messages
    ):
        return body
    return body | {"messages": [_asking(index, one) for index, one in enumerate(messages)]}


def _asking(index: int, message: Json) -> Json:
    if not isinstance(message, dict):
        return message
    rest = {key: value for key, value in message.items() if key not in shapes.ASKING}
    given = rest.get("attributes")
    added: dict[str, Json] = {}
    for field, name in shapes.ASKING.items():
        value: Json = message.get(field)
        if value is None:
            continue
        where = f"messages[{index}].{field}"
        if field in ("deliver_at", "tenant"):
            check_kind(where, value, str)
        elif field == "depends_on":
            value = _joined(where, value)
        elif field in shapes.WHOLE:
            check_kind(where, value, int)
        elif field == "publisher":
            check_kind(where, value, str)
        else:
            check_kind(where, value, int, float)
        if isinstance(given, dict) and name in given:
            raise InvalidArgument(f"{where}: the attribute {name} says so, too; give one of them")
        added[name] = terms.seconds_text(value) if isinstance(value, int | float) else value
    if not added:
        return rest
    if given is not None and not isinstance(given, dict):
        # Refused where all fields are read.
        return rest
    return rest | {"attributes": {**(given or {}), **added}}


def _joined(where: str, value: Json) -> str:
    check_kind(where, value, list)
    assert isinstance(value, list)
    for index, one in enumerate(value):
        check_kind(f"{where}[{index}]", one, str)
        if isinstance(one, str) and "," in one:
            raise InvalidArgument(f"{where}[{index}]: {names.shown(one)} is not a message id")
    return ",".join(map(str, value))


def refuse_output_only(message: Any, _: Asked) -> None:
    """Refuse fields of messages that only the service sets.

    Google's form ignores them because its clients send them; no client of this form does.
    """
    for index, one in enumerate(message.messages):
        for field, _value in one.ListFields():
            if field.name in _NOT_A_PUBLISHERS:
                raise InvalidArgument(
                    f"messages[{index}].{field.name}: no such field here; there are "
                    f"{', '.join(sorted(shapes.MESSAGE))}"
                )


def translate_pull(body: JsonObject, asked: Asked) -> JsonObject:
    """Take the query parameters into the body, and give it a number of messages."""
    message = types.PullRequest()
    for key, _ in asked.query:
        if key not in shapes.PULL_QUERY:
            raise json_in.unknown_parameter(key, shapes.PULL_QUERY)
        if key == "max":
            asked.renames.append(("max_messages", "max"))
    given = [("max_messages" if key == "max" else key, text) for key, text in asked.query]
    asked.query = []
    json_in.fill_query(message, given, frozenset(shapes.PULL))
    for key, _ in given:
        if key in body:
            raise InvalidArgument(f"{key}: is in the query and in the body; say it once")
        body = body | {key: getattr(message, key)}
    if body.get("max_messages") is None:
        body = body | {"max_messages": shapes.PULL_MESSAGES_DEFAULT}
    return body


def check_count(message: Any, _: Asked) -> None:
    if not 1 <= message.max_messages <= limits.PULL_MESSAGES_MAX:
        raise InvalidArgument(
            f"max_messages: {message.max_messages} is out of range; "
            f"1 to {limits.PULL_MESSAGES_MAX} are allowed"
        )


#: Fields of a nack: the word that each is elsewhere, and the types of its value in JSON.
_NACK_FIELDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "requeue": (attributes.NACK_REQUEUE, (bool,)),
    "counted": (attributes.NACK_COUNTED, (bool,)),
    "delay_seconds": (attributes.NACK_DELAY, (int, float)),
    "reason": (attributes.NACK_REASON, (str,)),
}


def translate_nack(body: JsonObject, asked: Asked) -> JsonObject:
    rest = dict(body)
    for field, (word, kinds) in _NACK_FIELDS.items():
        value = rest.pop(field, None)
        asked.renames.append((word, field))
        if value is not None:
            check_kind(field, value, *kinds)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            asked.metadata.append((word, text))
    return rest


def translate_seek(body: JsonObject, asked: Asked) -> Mapping[str, Json]:
    snapshot = body.get("snapshot")
    if snapshot is not None:
        snapshot = full_name("snapshots", snapshot, "snapshot", asked.project)
        body = body | {"snapshot": snapshot}
    return positions.seek_target(body, "message_id")


def translate_letters(body: JsonObject, asked: Asked) -> JsonObject:
    source = body.get("source_subscription")
    if not isinstance(source, str):
        return body
    return body | {"source_subscription": _full_source(source, asked)}


def name_source(message: Any, asked: Asked) -> None:
    message.source_subscription = _full_source(message.source_subscription, asked)


def name_message(message: Any, asked: Asked) -> None:
    message.message_id = asked.variables["message_id"]
    message.subscription = _full_source(message.subscription, asked)


def _full_source(name: str, asked: Asked) -> str:
    return name if "/" in name or not name else names.subscription_name(asked.project, name)


def translate_new_schema(body: JsonObject, asked: Asked) -> JsonObject:
    rest = translate_revision(body, asked)
    own_id(rest)
    asked.renames.append(("schema_id", "name"))
    return {key: value for key, value in rest.items() if key != "name"}


def name_new_schema(message: Any, asked: Asked) -> None:
    assert isinstance(asked.body, dict)
    message.schema_id = asked.body["name"]


def translate_revision(body: JsonObject, asked: Asked) -> JsonObject:
    """A body without the compatibility, which the verb takes as metadata."""
    rest = dict(body)
    level = rest.pop("compatibility", None)
    if level is not None:
        if not isinstance(level, str):
            raise InvalidArgument(f"compatibility: must be a string, not {json_in.kind(level)}")
        asked.renames.append((COMPATIBILITY, "compatibility"))
        asked.metadata = [pair for pair in asked.metadata if pair[0] != COMPATIBILITY]
        asked.metadata.append((COMPATIBILITY, level))
    return rest


def set_type(message: Any, asked: Asked) -> None:
    """Give a revision the type of its schema, where the body has none: a schema has one type."""
    assert isinstance(asked.body, dict)
    if asked.body.get("type") is None and asked.facts is not None:
        message.schema.type_ = asked.facts.schema_type(message.name)


def translate_rollback(body: JsonObject, asked: Asked) -> JsonObject:
    revision = translate_revision(body, asked)["revision"]
    if not isinstance(revision, str | int) or isinstance(revision, bool):
        raise InvalidArgument(f"revision: must be a number or an id, not {json_in.kind(revision)}")
    asked.renames.append(("revision_id", "revision"))
    return {"revision_id": str(revision)}


def choose_deletion(message: Any, asked: Asked) -> None:
    """Delete the revision that a schema's name ends in; both requests have the name alone."""
    if "@" in message.name:
        asked.verb = "SchemaService.DeleteSchemaRevision"


def name_revision(message: Any, asked: Asked) -> None:
    message.name += f"@{asked.variables['revision']}"


def translate_validation(body: JsonObject, asked: Asked) -> JsonObject:
    rest = dict(body)
    defined = {name: rest.pop(name) for name in shapes.DEFINITION if name in rest}
    if bool(defined) == (rest.get("name") is not None):
        raise InvalidArgument("name: give the name of a schema, or type and definition of one")
    if rest.get("name") is None:
        return rest | {"schema": defined}
    return rest | {"name": full_name("schemas", rest["name"], "name", asked.project)}
