"""What one protobuf message type makes of another's messages: fields meet by their numbers.

A schema may be used with both encodings, so what breaks either of them is a break: JSON has the
names of fields and of enum values in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    OneofDescriptor,
)

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.schema.budget import StepBudget
from fanlog.schema.compiled import path_of
from fanlog.schema.proto_parse import SCALARS

Path = tuple[str | int, ...]

_NAMES = {number: name for name, number in SCALARS.items()} | {11: "message", 14: "enum"}
#: Types that a reader's field can take besides its own, without losing anything.
_READS = {
    "int64": {"int32", "uint32", "bool", "enum"},
    "uint64": {"uint32", "bool"},
    "int32": {"bool", "enum"},
    "uint32": {"bool"},
    "sint64": {"sint32"},
    "bytes": {"string"},
}


class Break(NamedTuple):
    sentence: str
    #: Whether no message can be carried over; a name that changed can be.
    is_fatal: bool


def breaks(reader: Descriptor, writer: Descriptor, budget: StepBudget) -> list[Break]:
    """List what the reader's message type cannot read of the writer's messages.

    Raises:
        InvalidArgument: The types are nested too deeply, or it takes more steps than it may.
    """
    try:
        return list(_messages(reader, writer, (), _Seen(budget)))
    except RecursionError:
        raise InvalidArgument("the definitions are nested too deeply to be compared") from None


class _Seen(set[tuple[str, str]]):
    """The pairs of message types that were compared already, and what the rest may take."""

    def __init__(self, budget: StepBudget) -> None:
        super().__init__()
        self.budget = budget


def _messages(reader: Descriptor, writer: Descriptor, path: Path, seen: _Seen) -> Iterator[Break]:
    if (reader.full_name, writer.full_name) in seen:
        return
    seen.add((reader.full_name, writer.full_name))
    seen.budget.spend((1 + len(path) // 4) * (1 + len(reader.fields)))
    for field in reader.fields:
        before = writer.fields_by_number.get(field.number)
        here = (*path, field.name)
        if field.is_required and (before is None or not before.is_required):
            said = "does not know it" if before is None else "may leave it out"
            yield Break(f"{path_of(here)}: is required; the other {said}", False)
        if before is not None:
            yield from _fields(field, before, here, seen)
    for oneof in reader.oneofs:
        yield from _oneof(oneof, writer, path)


def _fields(
    reader: FieldDescriptor, writer: FieldDescriptor, path: Path, seen: _Seen
) -> Iterator[Break]:
    if reader.json_name != writer.json_name:
        yield Break(
            f"{path_of(path)}: number {reader.number} is called {shown(reader.json_name)} in JSON; "
            f"the other calls it {shown(writer.json_name)}",
            False,
        )
    if reader.is_repeated != writer.is_repeated:
        yield Break(
            f"{path_of(path)}: is {_many(reader)}; for the other it is {_many(writer)}", True
        )
        return
    kind, before = _NAMES[reader.type], _NAMES[writer.type]
    if kind != before:
        if before not in _READS.get(kind, ()):
            yield Break(f"{path_of(path)}: {kind} cannot be read from {before}", True)
        elif before in ("enum", "bool", "string") or kind.endswith("64"):
            yield Break(
                f"{path_of(path)}: {kind} is written otherwise than {before} in JSON", False
            )
    elif reader.message_type is not None and writer.message_type is not None:
        yield from _messages(reader.message_type, writer.message_type, path, seen)
    elif reader.enum_type is not None and writer.enum_type is not None:
        seen.budget.spend(len(writer.enum_type.values))
        yield from _enum(reader.enum_type, writer.enum_type, path)


def _enum(reader: EnumDescriptor, writer: EnumDescriptor, path: Path) -> Iterator[Break]:
    for value in writer.values:
        known = reader.values_by_name.get(value.name)
        if known is None:
            yield Break(f"{path_of(path)}: the enum lacks the value {shown(value.name)}", False)
        elif known.number != value.number:
            yield Break(
                f"{path_of(path)}: the value {shown(value.name)} has the number {known.number}; "
                f"for the other it is {value.number}",
                True,
            )


def _oneof(oneof: OneofDescriptor, writer: Descriptor, path: Path) -> Iterator[Break]:
    """A oneof keeps one of its fields: two that could be set together cannot both come in."""
    known = [writer.fields_by_number.get(field.number) for field in oneof.fields]
    fields = [field for field in known if field is not None]
    homes = {
        field.containing_oneof.name if field.containing_oneof else f"={field.name}"
        for field in fields
    }
    if len(homes) > 1:
        named = ", ".join(shown(field.name) for field in fields)
        yield Break(
            f"{path_of((*path, oneof.name))}: the oneof holds one of {named}; the other may write "
            "several of them",
            True,
        )


def _many(field: FieldDescriptor) -> str:
    return "repeated" if field.is_repeated else "singular"
