"""Decoders: the data of a message, by its schema, as values; and the columns those make.

One for each revision of a schema. Values of types that no column can hold become JSON text: a union
of several types, a type that contains itself, an object without named fields.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Protocol, cast

import fastavro
import orjson
import pyarrow as pa
from fastavro.types import Schema as AvroType
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fanlog import limits, times
from fanlog.model.json_value import Json
from fanlog.model.resources import Encoding, SchemaType
from fanlog.pipeline.export.rules.shapes import (
    JSON,
    TIMESTAMP,
    Misfit,
    Shape,
    list_shape,
    map_shape,
    scalar_shape,
    struct_shape,
)
from fanlog.schema.avro import AvroSchema
from fanlog.schema.compiled import Impossible, Mismatch
from fanlog.schema.compiler import compile_schema
from fanlog.schema.json_refs import resolve
from fanlog.schema.protobuf import ProtobufSchema
from fanlog.wire.fields import descriptor_of

#: The one column of a schema that is no record at its top.
VALUE = "value"

#: How deep a column may be: readers of tables have limits, too.
_DEPTH_MAX = 20


class Decoder(Protocol):
    """Reads messages of one revision."""

    #: Of the whole message: always a struct.
    shape: Shape

    def value(self, data: bytes, encoding: Encoding) -> object:
        """The message's fields by name, as the columns take them.

        Raises:
            Misfit: The data does not conform to the schema.
        """


def make_decoder(kind: SchemaType, definition: str) -> Decoder:
    """The decoder of a definition, which is valid."""
    match kind:
        case "AVRO":
            return AvroDecoder(definition)
        case "PROTOCOL_BUFFER":
            return ProtobufDecoder(definition)
        case "JSON":
            return JsonDecoder(definition)


class AvroDecoder:
    def __init__(self, definition: str) -> None:
        self._schema = cast(AvroSchema, compile_schema("AVRO", definition))
        self.parsed = fastavro.parse_schema(_source(definition))
        top = _AvroShapes().shape(self.parsed, 0)
        self._is_record = pa.types.is_struct(top.type)
        self.shape = top if self._is_record else struct_shape({VALUE: top})

    def record(self, data: bytes, encoding: Encoding, reader: AvroType | None = None) -> object:
        """The message as fastavro reads it, with another revision for a reader or without.

        Raises:
            Misfit: The data does not conform to the schema.
            SchemaResolutionError: The reader cannot read it.
        """
        try:
            self._schema.validate(data, encoding)
            return fastavro.schemaless_reader(
                io.BytesIO(self._schema.binary(data, encoding)), self.parsed, reader
            )
        except Mismatch as error:
            raise Misfit(error.problem, error.path) from None
        except (ValueError, OverflowError, ArithmeticError) as error:
            # A time before the first or after the last there is.
            raise Misfit(f"the value cannot be read: {error}") from None

    def value(self, data: bytes, encoding: Encoding) -> object:
        found = self.record(data, encoding)
        return self.shape.plain(found if self._is_record else {VALUE: found})


class ProtobufDecoder:
    def __init__(self, definition: str) -> None:
        self._schema = cast(ProtobufSchema, compile_schema("PROTOCOL_BUFFER", definition))
        self.shape = _proto_struct(self._schema.descriptor, (), _Room())

    def value(self, data: bytes, encoding: Encoding) -> object:
        try:
            message = self._schema.message(data, encoding)
        except (Mismatch, Impossible) as error:
            raise Misfit(str(error).removeprefix("$: ")) from None
        return self.shape.plain(_proto_fields(message))


class JsonDecoder:
    def __init__(self, definition: str) -> None:
        self._schema = compile_schema("JSON", definition)
        root = orjson.loads(definition)
        top = _json_shape(root, root, 0, _Room())
        self._is_object = pa.types.is_struct(top.type)
        self.shape = top if self._is_object else struct_shape({VALUE: top})

    def value(self, data: bytes, encoding: Encoding) -> object:
        try:
            self._schema.validate(data, "JSON")
            # Not by orjson, which makes a float of an integer of more than 64 bits.
            found = json.loads(data)
        except Mismatch as error:
            raise Misfit(error.problem, error.path) from None
        return self.shape.plain(found if self._is_object else {VALUE: found})


class _Room:
    """The columns that a table has room for: types that each use another twice make too many."""

    def __init__(self) -> None:
        self._left = limits.EXPORT_COLUMNS_MAX

    def has(self, count: int) -> bool:
        """Whether there is room for so many more; they are taken."""
        self._left -= count
        return self._left >= 0


# Avro.

_AVRO = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def _source(definition: str) -> AvroType:
    try:
        found: AvroType = orjson.loads(definition)
        return found
    except orjson.JSONDecodeError:
        # A primitive's name, without quotes.
        return definition.strip()


class _AvroShapes:
    """Shapes of one definition; named types may be spoken of before and after."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._open: list[str] = []
        self._room = _Room()

    def shape(self, schema: AvroType, depth: int) -> Shape:
        if depth > _DEPTH_MAX:
            return JSON
        if isinstance(schema, str):
            if schema in _AVRO:
                return scalar_shape(_AVRO[schema])
            return self._named_shape(schema, depth)
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            return self.shape(others[0], depth) if len(others) == 1 else JSON
        logical = _logical(schema)
        if logical is not None:
            return logical
        kind = schema["type"]
        match kind:
            case "record" | "error" | "enum" | "fixed":
                self._named[schema["name"]] = schema
                return self._named_shape(schema["name"], depth)
            case "array":
                return list_shape(self.shape(schema["items"], depth + 1))
            case "map":
                return map_shape(self.shape(schema["values"], depth + 1))
        return self.shape(kind, depth)

    def _named_shape(self, name: str, depth: int) -> Shape:
        schema = self._named.get(name)
        if schema is None or name in self._open:
            return JSON
        if not self._room.has(1 + len(schema.get("fields", ()))):
            return JSON
        match schema["type"]:
            case "enum":
                return scalar_shape(pa.string())
            case "fixed":
                return scalar_shape(pa.binary())
        self._open.append(name)
        fields = {one["name"]: self.shape(one["type"], depth + 1) for one in schema["fields"]}
        self._open.pop()
        # No file can hold a struct without fields.
        return struct_shape(fields) if fields or not depth else JSON


def _logical(schema: Mapping[str, Any]) -> Shape | None:
    match schema.get("logicalType"), schema["type"]:
        case "date", "int":
            return scalar_shape(pa.date32())
        case "timestamp-millis" | "timestamp-micros", "long":
            return TIMESTAMP
        case "decimal", "bytes" | "fixed" if schema["precision"] <= 38:
            return scalar_shape(pa.decimal128(schema["precision"], schema.get("scale", 0)))
        case "decimal", "bytes" | "fixed":
            return Shape(pa.string(), _text)
        case "uuid", "string" | "fixed":
            return Shape(pa.string(), _text)
        case "time-millis" | "time-micros", "int" | "long":
            return Shape(pa.string(), _iso)
        case "local-timestamp-millis" | "local-timestamp-micros", "long":
            return Shape(pa.string(), _iso)
    return None


def _text(value: object) -> object:
    return None if value is None else str(value)


def _iso(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime | time) else value


# Protobuf.

_CPP = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),
    4: pa.decimal128(20, 0),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),
    9: pa.string(),
}
_BYTES = 12


def _proto_struct(descriptor: Descriptor, inside: tuple[str, ...], room: _Room) -> Shape:
    inside = (*inside, descriptor.full_name)
    return struct_shape(
        {field.name: _proto_shape(field, inside, room) for field in descriptor.fields}
    )


def _proto_shape(field: FieldDescriptor, inside: tuple[str, ...], room: _Room) -> Shape:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return map_shape(_proto_item(message.fields_by_name["value"], inside, room))
    item = _proto_item(field, inside, room)
    return list_shape(item) if field.is_repeated else item


def _proto_item(field: FieldDescriptor, inside: tuple[str, ...], room: _Room) -> Shape:
    message = field.message_type
    if message is not None:
        is_too_much = message.full_name in inside or len(inside) > _DEPTH_MAX
        if is_too_much or not message.fields or not room.has(1 + len(message.fields)):
            return JSON
        return _proto_struct(message, inside, room)
    return scalar_shape(pa.binary() if field.type == _BYTES else _CPP[field.cpp_type])


def _proto_fields(message: Message) -> dict[str, object]:
    """The fields of a message; those without presence have their defaults, as protobuf says."""
    return {
        field.name: _proto_value(field, getattr(message, field.name))
        for field in descriptor_of(message).fields
        if not field.has_presence or message.HasField(field.name)
    }


def _proto_value(field: FieldDescriptor, value: Any) -> object:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        part = message.fields_by_name["value"]
        return {_proto_key(key): _proto_one(part, one) for key, one in value.items()}
    if field.is_repeated:
        return [_proto_one(field, one) for one in value]
    return _proto_one(field, value)


def _proto_key(key: object) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _proto_one(field: FieldDescriptor, value: object) -> object:
    if isinstance(value, Message):
        return _proto_fields(value)
    if field.enum_type is not None and isinstance(value, int):
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    return value


# JSON Schema.

_JSON = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def _json_shape(root: Json, schema: Json, depth: int, room: _Room) -> Shape:
    if depth > _DEPTH_MAX or not room.has(1):
        return JSON
    found = resolve(root, schema)
    kind = found.get("type")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind in _JSON:
        return scalar_shape(_JSON[kind])
    if kind == "string":
        match found.get("format"):
            case "date-time":
                return Shape(TIMESTAMP.type, _json_time)
            case "date":
                return Shape(pa.date32(), _json_date)
        return scalar_shape(pa.string())
    if kind == "array" and isinstance(found.get("items"), dict | bool):
        return list_shape(_json_shape(root, found["items"], depth + 1, room))
    properties = found.get("properties")
    if kind in ("object", None) and isinstance(properties, dict) and properties:
        return struct_shape(
            {n: _json_shape(root, one, depth + 1, room) for n, one in properties.items()}
        )
    return JSON


def _json_time(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Misfit("the column takes a time as RFC 3339 writes it")
    try:
        return times.parse(value)
    except times.NoZone:
        raise Misfit("the column takes a time with its offset from UTC") from None
    except ValueError:
        raise Misfit("the column takes a time as RFC 3339 writes it") from None


def _json_date(value: object) -> object:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise Misfit("the column takes a date such as 2026-01-31")
