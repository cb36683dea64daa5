"""Schemas and a topic's schema settings: protobuf to values and back."""

from __future__ import annotations

from typing import get_args

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import (
    DELETED_SCHEMA,
    Compatibility,
    Encoding,
    Schema,
    SchemaRevision,
    SchemaSettings,
    SchemaType,
)
from fanlog.wire import output_only, types
from fanlog.wire.fields import timestamp

#: JSON Schema is ours. Its number is far from those that Google gives, and every client can write a
#: number where it does not know the name.
JSON_TYPE = 100
_TYPES: dict[int, SchemaType] = {1: "PROTOCOL_BUFFER", 2: "AVRO", JSON_TYPE: "JSON"}
_TYPE_NUMBERS = {kind: number for number, kind in _TYPES.items()}
_ENCODINGS: dict[int, Encoding] = {1: "JSON", 2: "BINARY"}
_ENCODING_NUMBERS = {encoding: number for number, encoding in _ENCODINGS.items()}
_LEVELS: dict[str, Compatibility] = {level: level for level in get_args(Compatibility)}
#: Fields of a Schema that mean something here, and those that are ours to say.
HONOURED = frozenset({"name", "type_", "definition"}) | output_only.ignored_fields("Schema")
#: SchemaView.BASIC and FULL.
BASIC, FULL = 1, 2


def type_of(schema: types.Schema) -> SchemaType:
    """Raises InvalidArgument for a type that is not set, or none of ours."""
    kind = _TYPES.get(schema.type_)
    if kind is None:
        raise InvalidArgument(
            f"schema.type: {schema.type_} is not a type of schema; PROTOCOL_BUFFER (1), AVRO (2) "
            f"and JSON ({JSON_TYPE}) are"
        )
    return kind


def type_number(kind: SchemaType) -> int:
    return _TYPE_NUMBERS[kind]


def encoding_of(number: int, field: str) -> Encoding:
    """Raises InvalidArgument."""
    encoding = _ENCODINGS.get(number)
    if encoding is None:
        raise InvalidArgument(f"{field}: {number} is not an encoding; JSON (1) and BINARY (2) are")
    return encoding


def compatibility_of(text: str, field: str) -> Compatibility:
    """Read a level of compatibility, in capitals or not; raises InvalidArgument."""
    level = _LEVELS.get(text.upper().replace("-", "_"))
    if level is None:
        raise InvalidArgument(f"{field}: {names.shown(text)} is not one of {', '.join(_LEVELS)}")
    return level


def settings(topic: types.Topic) -> SchemaSettings | None:
    """Read a topic's schema settings; None if it has none.

    Raises:
        InvalidArgument: No encoding.
    """
    if not topic.HasField("schema_settings"):
        return None
    found = topic.schema_settings
    return SchemaSettings(
        schema=_schema_name(found.schema),
        encoding=encoding_of(found.encoding, "schema_settings.encoding"),
        first_revision_id=found.first_revision_id,
        last_revision_id=found.last_revision_id,
    )


def updated_settings(topic: types.Topic) -> SchemaSettings | None:
    """Read the schema settings of an update, where empty ones clear them; raises as `settings`."""
    return settings(topic) if topic.schema_settings.ListFields() else None


def settings_part(found: types.SchemaSettings, part: str) -> str:
    """Read one field of a topic's schema settings; raises InvalidArgument."""
    match part:
        case "schema":
            return _schema_name(found.schema)
        case "encoding":
            return encoding_of(found.encoding, "schema_settings.encoding")
        case "first_revision_id":
            return found.first_revision_id
        case _:
            assert part == "last_revision_id"
            return found.last_revision_id


def _schema_name(name: str) -> str:
    if name == DELETED_SCHEMA:
        raise InvalidArgument(
            f"schema_settings.schema: {names.shown(name)} stands for a schema that was deleted; "
            "name one that exists, or clear schema_settings"
        )
    return name


def settings_pb(found: SchemaSettings) -> types.SchemaSettings:
    """Make the SchemaSettings that answers show."""
    return types.SchemaSettings(
        schema=found.schema_shown,
        encoding=_ENCODING_NUMBERS[found.encoding],
        first_revision_id=found.first_revision_id,
        last_revision_id=found.last_revision_id,
    )


def schema_pb(schema: Schema, revision: SchemaRevision, *, view: int = FULL) -> types.Schema:
    """Make the Schema that answers show: a schema at one revision."""
    return types.Schema(
        name=schema.name,
        type_=_TYPE_NUMBERS[schema.type],
        definition=revision.definition if view != BASIC else "",
        revision_id=revision.id,
        revision_create_time=timestamp(revision.created_s),
    )
