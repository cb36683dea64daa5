"""Avro schemas: both encodings checked, revisions resolved as Avro's specification says."""

from __future__ import annotations

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.resources import Encoding, SchemaType
from fanlog.schema import avro_codec, avro_resolve, avro_tree
from fanlog.schema.avro_binary import compile_skip, overspent, steps_max
from fanlog.schema.avro_defaults import Defaults
from fanlog.schema.avro_json import compile_check
from fanlog.schema.budget import (
    StepBudget,
    budget_to_compare,
    budget_to_compile,
    budget_to_transform,
)
from fanlog.schema.compiled import Impossible, Mismatch, Transform, json_text

_TOO_DEEP = "nested too deeply"
#: Memory of a compiled schema, in bytes for each step that compiling it took: measured.
_BYTES_PER_STEP = 150
_BYTES_PER_BYTE = 10


class AvroSchema:
    """A compiled Avro schema; see `Compiled`."""

    short_bytes = limits.SCHEMA_SHORT_BYTES
    type: SchemaType = "AVRO"

    def __init__(self, definition: str) -> None:
        budget = budget_to_compile(definition)
        try:
            self._root = avro_tree.parse(definition, budget)
            self._check = compile_check(self._root, budget)
            self._skip, self._steps = compile_skip(self._root, budget)
            self._defaults = Defaults(self._root, budget)
        except RecursionError as error:
            raise InvalidArgument(f"the Avro definition is {_TOO_DEEP}") from error
        self.size_bytes = _BYTES_PER_STEP * budget.spent + _BYTES_PER_BYTE * len(definition)

    def is_long(self, _data: bytes) -> bool:
        """No message is: others run between any two steps."""
        return False

    def check_encoding(self, encoding: Encoding) -> None:
        """Both are Avro's."""

    def validate(self, data: bytes, encoding: Encoding) -> int:
        try:
            if encoding == "JSON":
                self._check(orjson.loads(data))
                # A value has a byte, and mostly many more.
                return len(data) // 8
            most = steps_max(data)
            left = [most - self._steps]
            if left[0] < 0:
                raise overspent(data)
            end = self._skip(data, 0, left)
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        except RecursionError:
            raise Mismatch(_TOO_DEEP) from None
        if end != len(data):
            raise Mismatch(f"the message is complete after {end} of {len(data)} bytes")
        return most - left[0]

    def binary(self, data: bytes, encoding: Encoding) -> bytes:
        """The data of a message, which is valid, in Avro's binary encoding."""
        if encoding == "BINARY":
            return data
        return avro_codec.encode(self._root, orjson.loads(data))

    def to_json(self, data: bytes, encoding: Encoding) -> bytes:
        if encoding == "JSON":
            return data
        try:
            value, _ = avro_codec.decode(self._root, data)
        except RecursionError:
            raise Impossible(f"the message is {_TOO_DEEP}") from None
        return json_text(value)

    def breaks(self, writer: AvroSchema, budget: StepBudget | None = None) -> list[str]:
        try:
            return avro_resolve.breaks(self._root, writer._root, budget or budget_to_compare())
        except RecursionError:
            raise InvalidArgument("the definitions are nested too deeply to be compared") from None

    def transform_from(
        self, writer: AvroSchema, encoding: Encoding, *, is_patient: bool = True
    ) -> Transform:
        reader_root, writer_root = self._root, writer._root
        resolver = avro_resolve.Resolver(reader_root, writer_root, self._defaults)

        def transform(data: bytes) -> bytes:
            try:
                value: object
                if encoding == "BINARY":
                    value, _ = avro_codec.decode(writer_root, data)
                    made = resolver.resolve(value, budget_to_transform())
                    return avro_codec.encode(reader_root, made)
                value = orjson.loads(data)
                return json_text(resolver.resolve(value, budget_to_transform()))
            except RecursionError:
                raise Impossible(f"the message is {_TOO_DEEP}") from None

        return transform
