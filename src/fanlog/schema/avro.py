"""Avro schemas: both encodings checked, revisions resolved as Avro's specification says."""

from __future__ import annotations

from typing import Any

import orjson

from fanlog.model import Encoding, SchemaType
from fanlog.schema import avro_codec, avro_resolve, avro_tree
from fanlog.schema.avro_binary import compile_skip
from fanlog.schema.avro_json import compile_check
from fanlog.schema.compiled import Impossible, Mismatch, Transform, json_text

_TOO_DEEP = "nested too deeply"


class AvroSchema:
    """A compiled Avro schema; see `Compiled`."""

    type: SchemaType = "AVRO"

    def __init__(self, definition: str) -> None:
        self._root = avro_tree.parse(definition)
        self._check = compile_check(self._root)
        self._skip = compile_skip(self._root)

    def check_encoding(self, encoding: Encoding) -> None:
        """Both are Avro's."""

    def validate(self, data: bytes, encoding: Encoding) -> None:
        try:
            if encoding == "JSON":
                self._check(orjson.loads(data))
                return
            end = self._skip(data, 0)
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        except RecursionError:
            raise Mismatch(_TOO_DEEP) from None
        if end != len(data):
            raise Mismatch(f"the message is complete after {end} of {len(data)} bytes")

    def binary(self, data: bytes, encoding: Encoding) -> bytes:
        """The data of a message, which is valid, in Avro's binary encoding."""
        if encoding == "BINARY":
            return data
        return avro_codec.encode(self._root, orjson.loads(data))

    def breaks(self, writer: AvroSchema) -> list[str]:
        return avro_resolve.breaks(self._root, writer._root)

    def transform_from(self, writer: AvroSchema, encoding: Encoding) -> Transform:
        reader_root, writer_root = self._root, writer._root

        def transform(data: bytes) -> bytes:
            try:
                value: Any
                if encoding == "BINARY":
                    value, _ = avro_codec.decode(writer_root, data)
                    made = avro_resolve.resolve(reader_root, writer_root, value)
                    return avro_codec.encode(reader_root, made)
                value = orjson.loads(data)
                return json_text(avro_resolve.resolve(reader_root, writer_root, value))
            except RecursionError:
                raise Impossible(f"the message is {_TOO_DEEP}") from None

        return transform
