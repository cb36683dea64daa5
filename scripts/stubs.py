"""Write `fanlog/wire/types.pyi`: the fields of Google's messages, for the type checker.

Google's package has its message classes wrapped for its own client; inside they are made from
descriptors at run time, and no type checker can see into them. The stubs are made from the same
descriptors. `python scripts/stubs.py` writes them; the test suite says when they are stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from fanlog.wire import types
from fanlog.wire.fields import descriptor_of

PATH = Path(types.__file__).with_suffix(".pyi")
WIDTH = 100

_HEAD = '''\
"""Made by `scripts/stubs.py` from the descriptors of google-cloud-pubsub; do not edit.

A field that is a message, a list or a map is `Final`: protobuf lets its content change, and
refuses an assignment. A message that `types.py` does not name is a plain `Message`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer as Messages,
    RepeatedScalarFieldContainer as Scalars,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
'''
_WELL_KNOWN = {"Duration", "FieldMask", "Timestamp"}
_SCALARS = {
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_ENUM: "int",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "int",
    FieldDescriptor.CPPTYPE_UINT32: "int",
    FieldDescriptor.CPPTYPE_UINT64: "int",
}


def stubs() -> str:
    """The text of the stub file."""
    named = [
        descriptor_of(value)
        for value in vars(types).values()
        if isinstance(value, type) and issubclass(value, Message)
    ]
    known = {descriptor.full_name for descriptor in named}
    for descriptor in named:
        known |= {inner.full_name for inner in descriptor.nested_types}
    lines = [_HEAD]
    for descriptor in named:
        lines += ["", *_class(descriptor, known)]
    return "\n".join(lines) + "\n"


def _class(message: Descriptor, known: set[str]) -> Iterator[str]:
    yield f"class {message.name}(Message):"
    yield "    DESCRIPTOR: Descriptor"
    for enum in message.enum_types:
        yield from _indent(_enum(enum))
    for inner in message.nested_types:
        if not inner.GetOptions().map_entry:
            yield from _indent(_class(inner, known))
    for field in message.fields:
        yield f"    {field.name}: {_read_type(field, known)}"
    arguments = [f"{field.name}: {_given_type(field, known)} = ..." for field in message.fields]
    yield from _indent(_function("__init__", ["*", *arguments] if arguments else [], "None"))
    if present := [field.name for field in message.fields if field.has_presence]:
        yield from _indent(_function("HasField", [f"field_name: {_literal(present)}"], "bool"))
    if groups := [group for group in message.oneofs if len(group.fields) > 1]:
        members = [field.name for group in groups for field in group.fields]
        argument = f"oneof_group: {_literal([group.name for group in groups])}"
        yield from _indent(_function("WhichOneof", [argument], f"{_literal(members)} | None"))


def _enum(enum: EnumDescriptor) -> Iterator[str]:
    yield f"class _{enum.name}(EnumTypeWrapper):"
    for value in enum.values:
        yield f"    {value.name}: int"
    yield f"{enum.name}: _{enum.name}"


def _read_type(field: FieldDescriptor, known: set[str]) -> str:
    if entry := _map_entry(field):
        kind = "MessageMap" if entry[1].message_type else "ScalarMap"
        return f"Final[{kind}[{_type(entry[0], known)}, {_type(entry[1], known)}]]"
    if field.is_repeated:
        kind = "Messages" if field.message_type else "Scalars"
        return f"Final[{kind}[{_type(field, known)}]]"
    return f"Final[{_type(field, known)}]" if field.message_type else _type(field, known)


def _given_type(field: FieldDescriptor, known: set[str]) -> str:
    if entry := _map_entry(field):
        return f"Mapping[{_type(entry[0], known)}, {_type(entry[1], known)}] | None"
    if field.is_repeated:
        return f"Iterable[{_type(field, known)}] | None"
    return f"{_type(field, known)}{' | str' if field.enum_type else ''} | None"


def _map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["key"], entry.fields_by_name["value"]


def _type(field: FieldDescriptor, known: set[str]) -> str:
    kind = field.message_type
    if kind is None:
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            return "str" if field.type == FieldDescriptor.TYPE_STRING else "bytes"
        return _SCALARS[field.cpp_type]
    if kind.name in _WELL_KNOWN:
        return kind.name
    if kind.full_name in known:
        return kind.full_name.removeprefix(f"{kind.file.package}.")
    return "Message"


def _literal(names: Sequence[str]) -> str:
    quoted = (f'"{name}"' for name in names)
    return f"Literal[{', '.join(quoted)}]"


def _function(name: str, arguments: Sequence[str], answer: str) -> Iterator[str]:
    line = f"def {name}({', '.join(['self', *arguments])}) -> {answer}: ..."
    if len(line) + 8 <= WIDTH:
        yield line
        return
    yield f"def {name}("
    joined = ", ".join(["self", *arguments])
    lines = [joined] if len(joined) + 8 <= WIDTH else ["self,", *(f"{one}," for one in arguments)]
    yield from _indent(lines)
    yield f") -> {answer}: ..."


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


if __name__ == "__main__":
    PATH.write_text(stubs(), encoding="utf-8")
