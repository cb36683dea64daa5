"""A parsed .proto made whole: names of types found, numbers checked, and a pool that knows it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
)

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.schema.budget import StepBudget, budget_to_compile
from fanlog.schema.proto_parse import Parsed, parse
from fanlog.schema.proto_scan import Word, refusal


def descriptor(source: str, budget: StepBudget | None = None) -> Descriptor:
    """Give the descriptor of the one message that a source defines.

    Args:
        source: The text of the .proto.
        budget: Of the compilation; one of its own for none.

    Raises:
        InvalidArgument: With line and column wherever there is one.
    """
    budget = budget or budget_to_compile(source)
    parsed = parse(source, budget)
    [root] = parsed.file.message_type
    kinds = dict(_types(root, _joined(parsed.file.package, root.name)))
    _resolve(parsed, kinds, budget)
    for full, message in _messages(root, _joined(parsed.file.package, root.name)):
        _check_message(parsed, full, message)
    try:
        # A pool of its own: revisions of a schema call their messages alike.
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(parsed.file.SerializeToString())
        return pool.FindMessageTypeByName(_joined(parsed.file.package, root.name))
    except (TypeError, KeyError) as error:
        raise InvalidArgument(f"the .proto definition is wrong: {error}") from error


def _resolve(
    parsed: Parsed, kinds: dict[str, FieldDescriptorProto.Type.ValueType], budget: StepBudget
) -> None:
    for field, scope, word, has_default in parsed.references:
        name = field.type_name
        # Each scope is tried, and written out for it.
        budget.spend(1 + (scope.count(".") + 1) * len(scope) // 64)
        full = next((one for one in _candidates(name, scope) if one in kinds), None)
        if full is None:
            raise refusal(word, f"the type {shown(name)} is not defined in this schema")
        field.type_name = f".{full}"
        field.type = kinds[full]
        if has_default and field.type != FieldDescriptorProto.TYPE_ENUM:
            raise refusal(word, "a field that is a message has no default")


def _candidates(name: str, scope: str) -> Iterator[str]:
    """Give what a name may mean, from the innermost scope outwards."""
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name


def _types(
    message: DescriptorProto, full: str
) -> Iterator[tuple[str, FieldDescriptorProto.Type.ValueType]]:
    yield full, FieldDescriptorProto.TYPE_MESSAGE
    for enum in message.enum_type:
        yield f"{full}.{enum.name}", FieldDescriptorProto.TYPE_ENUM
    for nested in message.nested_type:
        yield from _types(nested, f"{full}.{nested.name}")


def _messages(message: DescriptorProto, full: str) -> Iterator[tuple[str, DescriptorProto]]:
    yield full, message
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _messages(nested, f"{full}.{nested.name}")


def _check_message(parsed: Parsed, full: str, message: DescriptorProto) -> None:
    numbers: dict[int, str] = {}
    json_names: dict[str, str] = {}
    reserved = _Reserved(message, is_end_included=False)
    for field in message.field:
        word = parsed.places[f"{full}.{field.name}"]
        if field.number in numbers:
            raise refusal(
                word,
                f"{shown(field.name)} has the number {field.number}, which "
                f"{shown(numbers[field.number])} has already",
            )
        numbers[field.number] = field.name
        reserved.check(field, word)
        json_name = field.json_name or json_name_of(field.name)
        if json_name in json_names:
            raise refusal(
                word,
                f"{shown(field.name)} and {shown(json_names[json_name])} are both "
                f"{shown(json_name)} in JSON",
            )
        json_names[json_name] = field.name
    for enum in message.enum_type:
        _check_enum(parsed, full, enum)


def _check_enum(parsed: Parsed, scope: str, enum: EnumDescriptorProto) -> None:
    numbers: dict[int, str] = {}
    reserved = _Reserved(enum, is_end_included=True)
    for value in enum.value:
        word = parsed.places[f"{scope}.{value.name}"]
        if value.number in numbers and not enum.options.allow_alias:
            raise refusal(
                word,
                f"{shown(value.name)} has the number {value.number}, which "
                f"{shown(numbers[value.number])} has already; allow_alias allows it",
            )
        numbers[value.number] = value.name
        reserved.check(value, word)


class _Reserved:
    """The numbers and names that a message or an enum keeps free."""

    def __init__(
        self, owner: DescriptorProto | EnumDescriptorProto, *, is_end_included: bool
    ) -> None:
        self._names = frozenset(owner.reserved_name)
        #: Ranges by their starts, and the furthest end of those up to each.
        ranges = sorted((one.start, one.end + is_end_included) for one in owner.reserved_range)
        self._starts = [start for start, _ in ranges]
        self._ends = list(accumulate((end for _, end in ranges), max))

    def check(self, member: FieldDescriptorProto | EnumValueDescriptorProto, word: Word) -> None:
        """Raises InvalidArgument for a field or a value that has one of them."""
        place = bisect_right(self._starts, member.number) - 1
        if place >= 0 and member.number < self._ends[place]:
            raise refusal(word, f"{shown(member.name)} has the number {member.number}: reserved")
        if member.name in self._names:
            raise refusal(word, f"the name {shown(member.name)} is reserved")


def json_name_of(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
