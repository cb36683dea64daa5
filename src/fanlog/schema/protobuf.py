"""Protobuf schemas: descriptors made from source, messages checked against them.

A field that the schema does not know is refused in both encodings. The library would keep it in the
one and refuse it in the other; and a message is to be told from one of the next revision.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.resources import Encoding, SchemaType
from fanlog.schema import proto_compat, proto_file, proto_json, proto_wire
from fanlog.schema.budget import StepBudget, budget_to_compare, budget_to_compile
from fanlog.schema.compiled import Impossible, Mismatch, Transform

#: Memory of a compiled schema, in bytes for each step that compiling it took: measured.
_BYTES_PER_STEP = 300
_BYTES_PER_BYTE = 10


class ProtobufSchema:
    """A compiled .proto; see `Compiled`."""

    short_bytes = limits.SCHEMA_SHORT_BYTES
    type: SchemaType = "PROTOCOL_BUFFER"

    def __init__(self, definition: str) -> None:
        budget = budget_to_compile(definition)
        self._descriptor = proto_file.descriptor(definition, budget)
        self._check = proto_json.compile_check(self._descriptor)
        try:
            # The library goes from type to type, as deep as they refer to each other.
            self._class = message_factory.GetMessageClass(self._descriptor)
        except RecursionError:
            raise InvalidArgument(
                "the .proto definition has messages that refer to each other through too many types"
            ) from None
        self.size_bytes = _BYTES_PER_STEP * budget.spent + _BYTES_PER_BYTE * len(definition)

    @property
    def descriptor(self) -> Descriptor:
        return self._descriptor

    def message(self, data: bytes, encoding: Encoding) -> Message:
        """Parse the data of a message; raises Mismatch or Impossible."""
        return self._parse(data, encoding)

    def is_long(self, _data: bytes) -> bool:
        """No message is: others run between any two steps."""
        return False

    def check_encoding(self, encoding: Encoding) -> None:
        """Both are protobuf's."""

    def validate(self, data: bytes, encoding: Encoding) -> int:
        if encoding == "BINARY":
            self._parse_binary(data)
            return len(data) // 64
        try:
            self._check(orjson.loads(data))
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        except RecursionError:
            raise Mismatch("nested too deeply") from None
        # A value has a byte, and mostly many more.
        return len(data) // 8

    def to_json(self, data: bytes, encoding: Encoding) -> bytes:
        if encoding == "JSON":
            return data
        try:
            return str(json_format.MessageToJson(self._parse_binary(data), indent=None)).encode()
        except RecursionError:
            raise Impossible("the message is nested too deeply") from None

    def breaks(self, writer: ProtobufSchema, budget: StepBudget | None = None) -> list[str]:
        found = proto_compat.breaks(
            self._descriptor, writer._descriptor, budget or budget_to_compare()
        )
        return [one.sentence for one in found]

    def transform_from(
        self, writer: ProtobufSchema, encoding: Encoding, *, is_patient: bool = True
    ) -> Transform:
        for one in proto_compat.breaks(self._descriptor, writer._descriptor, budget_to_compare()):
            if one.is_fatal:
                raise Impossible(one.sentence)

        def transform(data: bytes) -> bytes:
            message = self._class.FromString(
                writer._parse(data, encoding).SerializePartialToString()
            )
            message.DiscardUnknownFields()
            try:
                _check_required(message)
            except Mismatch as error:
                raise Impossible(str(error)) from None
            if encoding == "BINARY":
                return bytes(message.SerializeToString())
            return str(json_format.MessageToJson(message, indent=None)).encode()

        return transform

    def _parse(self, data: bytes, encoding: Encoding) -> Message:
        if encoding == "BINARY":
            return self._parse_binary(data)
        message = self._class()
        try:
            return json_format.Parse(data, message)
        except (json_format.ParseError, RecursionError) as error:
            raise Impossible(f"the message cannot be parsed: {error}") from None

    def _parse_binary(self, data: bytes) -> Message:
        try:
            message = self._class.FromString(data)
        except DecodeError:
            proto_wire.explain(self._descriptor, data)
            raise Mismatch(f"expected the bytes of a message {self._descriptor.name}") from None
        _check_required(message)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            proto_wire.explain(self._descriptor, data)
            raise Mismatch("there is a field that the schema does not know")
        return message


def _check_required(message: Message) -> None:
    if not message.IsInitialized():
        # The library would list all that are missing: of a million parts, a million times.
        *path, name = _find_missing(message)
        raise Mismatch(f"required and missing: {name}", tuple(path))


def _find_missing(message: Message) -> tuple[str | int, ...]:
    """Where the first required field is that a message lacks."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not message.HasField(field.name):
            return (field.name,)
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                continue
            parts: Iterable[tuple[tuple[str | int, ...], Message]] = (
                ((field.name, str(key)), one) for key, one in value.items()
            )
        elif field.is_repeated:
            parts = (((field.name, at), one) for at, one in enumerate(value))
        else:
            parts = [((field.name,), value)]
        for path, part in parts:
            if not part.IsInitialized():
                return (*path, *_find_missing(part))
    return ()
