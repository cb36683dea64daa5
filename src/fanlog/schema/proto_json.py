"""Protobuf's JSON encoding, checked: one closure for each type, made once.

The protobuf library parses every value that passes here. The library is not asked, since it is far
slower, and does not say where in an array something is wrong. It also takes an empty array for a
message and `true` for a number, against the encoding's specification.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from fanlog.model.names import shown
from fanlog.schema.compiled import Mismatch, found
from fanlog.schema.proto_parse import SCALARS

Check = Callable[[object], None]

_INTEGERS = {
    "int32": (-(2**31), 2**31), "sint32": (-(2**31), 2**31), "sfixed32": (-(2**31), 2**31),
    "uint32": (0, 2**32), "fixed32": (0, 2**32),
    "int64": (-(2**63), 2**63), "sint64": (-(2**63), 2**63), "sfixed64": (-(2**63), 2**63),
    "uint64": (0, 2**64), "fixed64": (0, 2**64),
}  # fmt: skip
_NAMES = {number: name for name, number in SCALARS.items()}
_ENUM, _MESSAGE = 14, 11
_FLOAT_MAX = 3.4028234663852886e38
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})
_DECIMAL = re.compile(r"-?\d+", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def compile_check(descriptor: Descriptor) -> Check:
    """Give a function that raises Mismatch for a JSON value that the message type refuses."""
    compiler = _Compiler()
    check = compiler.message(descriptor)
    compiler.finish()
    return check


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[str, Check] = {}
        #: Message types whose fields are still to be compiled: a chain of them may be long.
        self._left: list[Callable[[], None]] = []

    def finish(self) -> None:
        while self._left:
            self._left.pop()()

    def message(self, descriptor: Descriptor) -> Check:
        known = self._made.get(descriptor.full_name)
        if known is not None:
            return known
        #: Either name of a field, to its number, its check, and the oneof it is of.
        fields: dict[str, tuple[int, Check, str | None]] = {}
        required: list[tuple[int, str]] = []
        name = descriptor.name

        def message(value: object) -> None:
            if type(value) is not dict:
                raise Mismatch(f"expected an object (message {name}), found {found(value)}")
            present: set[int | str] = set()
            key = ""
            try:
                for key, content in value.items():
                    number, check, oneof = fields[key]
                    if content is None:
                        continue
                    check(content)
                    if number in present:
                        raise Mismatch("the field is there under both of its names")
                    present.add(number)
                    if oneof is not None:
                        if oneof in present:
                            raise Mismatch(f"another field of the oneof {shown(oneof)} is set too")
                        present.add(oneof)
            except KeyError:
                raise Mismatch(f"{shown(key)} is no field of message {name}") from None
            except Mismatch as error:
                raise error.below(key) from None
            for number, field_name in required:
                if number not in present:
                    raise Mismatch(f"the required field {shown(field_name)} is missing")

        def complete() -> None:
            for field in descriptor.fields:
                oneof = field.containing_oneof
                is_real = oneof is not None and len(oneof.fields) > 1
                entry = field.number, self._field(field), oneof.name if is_real else None
                fields[field.name] = fields[field.json_name] = entry
                if field.is_required:
                    required.append((field.number, field.name))

        # Before its fields: they may contain it.
        self._made[descriptor.full_name] = message
        self._left.append(complete)
        return message

    def _field(self, field: FieldDescriptor) -> Check:
        if not field.is_repeated:
            return self._single(field)
        if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
            return self._map(field.message_type)
        check = self._single(field)

        def repeated(value: object) -> None:
            if type(value) is not list:
                raise Mismatch(f"expected an array, found {found(value)}")
            at = 0
            try:
                for at, item in enumerate(value):  # noqa: B007
                    check(item)
            except Mismatch as error:
                raise error.below(at) from None

        return repeated

    def _map(self, entry: Descriptor) -> Check:
        key_kind = _NAMES[entry.fields_by_name["key"].type]
        check = self._single(entry.fields_by_name["value"])
        check_key = _KEYS.get(key_kind) or _integer_key(key_kind)

        def mapping(value: object) -> None:
            if type(value) is not dict:
                raise Mismatch(f"expected an object (map), found {found(value)}")
            key = ""
            try:
                for key, item in value.items():
                    check_key(key)
                    check(item)
            except Mismatch as error:
                raise error.below(key) from None

        return mapping

    def _single(self, field: FieldDescriptor) -> Check:
        if field.type == _MESSAGE:
            return self.message(field.message_type)
        if field.type == _ENUM:
            return _enum(field.enum_type)
        kind = _NAMES[field.type]
        return _SIMPLE.get(kind) or _integer(kind)


def _integer(kind: str) -> Check:
    low, high = _INTEGERS[kind]

    def integer(value: object) -> None:
        if type(value) is int and low <= value < high:
            return
        if type(value) is float and value.is_integer() and low <= value < high:
            return
        is_text = type(value) is str and len(value) <= 20 and _DECIMAL.fullmatch(value)
        if is_text and low <= int(str(value)) < high:
            return
        raise Mismatch(f"expected {kind}, {low} to {high - 1}, found {found(value)}")

    return integer


def _integer_key(kind: str) -> Check:
    check = _integer(kind)

    def key(value: object) -> None:
        if type(value) is not str or not _DECIMAL.fullmatch(value):
            raise Mismatch(f"expected {kind} as the key, found {found(value)}")
        check(value)

    return key


def _string(value: object) -> None:
    if type(value) is not str:
        raise Mismatch(f"expected a string, found {found(value)}")


def _bool(value: object) -> None:
    if type(value) is not bool:
        raise Mismatch(f"expected true or false, found {found(value)}")


def _bool_key(value: object) -> None:
    if value not in ("true", "false"):
        raise Mismatch(f"expected 'true' or 'false' as the key, found {found(value)}")


def _bytes(value: object) -> None:
    if type(value) is not str:
        raise Mismatch(f"expected bytes in base64, found {found(value)}")
    padded = value.replace("-", "+").replace("_", "/")
    padded += "=" * (-len(padded) % 4)
    try:
        binascii.a2b_base64(padded.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Mismatch(f"expected bytes in base64, found {found(value)}") from None


def _double(value: object) -> None:
    if type(value) is float or type(value) is int:
        return
    if type(value) is not str or not (value in _WORDS or _NUMBER.fullmatch(value)):
        raise Mismatch(f"expected a number, found {found(value)}")


def _float(value: object) -> None:
    if type(value) is float or type(value) is int:
        is_small = abs(value) <= _FLOAT_MAX
    else:
        _double(value)
        is_small = value in _WORDS or abs(float(str(value))) <= _FLOAT_MAX
    if not is_small:
        raise Mismatch(f"expected a 32-bit float, found {found(value)}")


def _enum(enum: EnumDescriptor) -> Check:
    names = frozenset(enum.values_by_name)
    numbers = frozenset(enum.values_by_number)
    is_closed = enum.is_closed

    def check(value: object) -> None:
        if type(value) is str and value in names:
            return
        if type(value) is int and (
            value in numbers or (not is_closed and -(2**31) <= value < 2**31)
        ):
            return
        raise Mismatch(f"expected a value of enum {enum.name}, found {found(value)}")

    return check


_SIMPLE: dict[str, Check] = {
    "string": _string,
    "bool": _bool,
    "bytes": _bytes,
    "double": _double,
    "float": _float,
}
_KEYS: dict[str, Check] = {"string": _string, "bool": _bool_key}
