"""Protobuf schemas: descriptors made from source, messages checked against them.

A field that the schema does not know is refused in both encodings. The library would keep it in the
one and refuse it in the other; and a message is to be told from one of the next revision.
"""

from __future__ import annotations

from typing import Any

import orjson
from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from fanlog.model import Encoding, SchemaType
from fanlog.schema import proto_compat, proto_file, proto_json, proto_wire
from fanlog.schema.compiled import Impossible, Mismatch, Transform


class ProtobufSchema:
    """A compiled .proto; see `Compiled`."""

    type: SchemaType = "PROTOCOL_BUFFER"

    def __init__(self, definition: str) -> None:
        self._descriptor = proto_file.descriptor(definition)
        self._check = proto_json.compile_check(self._descriptor)
        self._class: Any = message_factory.GetMessageClass(self._descriptor)

    @property
    def descriptor(self) -> Any:
        return self._descriptor

    def message(self, data: bytes, encoding: Encoding) -> Any:
        """Parse the data of a message; raises Mismatch or Impossible."""
        return self._parsed(data, encoding)

    def check_encoding(self, encoding: Encoding) -> None:
        """Both are protobuf's."""

    def validate(self, data: bytes, encoding: Encoding) -> None:
        if encoding == "BINARY":
            self._parsed_binary(data)
            return
        try:
            self._check(orjson.loads(data))
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        except RecursionError:
            raise Mismatch("nested too deeply") from None

    def breaks(self, writer: ProtobufSchema) -> list[str]:
        found = proto_compat.breaks(self._descriptor, writer._descriptor)
        return [one.sentence for one in found]

    def transform_from(self, writer: ProtobufSchema, encoding: Encoding) -> Transform:
        for one in proto_compat.breaks(self._descriptor, writer._descriptor):
            if one.is_fatal:
                raise Impossible(one.sentence)

        def transform(data: bytes) -> bytes:
            message = self._class.FromString(
                writer._parsed(data, encoding).SerializePartialToString()
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

    def _parsed(self, data: bytes, encoding: Encoding) -> Any:
        if encoding == "BINARY":
            return self._parsed_binary(data)
        message = self._class()
        try:
            return json_format.Parse(data, message)
        except (json_format.ParseError, RecursionError) as error:
            raise Impossible(f"the message cannot be parsed: {error}") from None

    def _parsed_binary(self, data: bytes) -> Any:
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


def _check_required(message: Any) -> None:
    if not message.IsInitialized():
        missing = message.FindInitializationErrors()
        raise Mismatch(f"required and missing: {', '.join(missing[:5])}")
