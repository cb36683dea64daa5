"""Avro's JSON encoding, checked: one closure for each type, made once.

The encoding is the specification's: a union's value other than null is an object whose one key
names the branch, bytes are a string of the characters 0 to 255, and every field of a record is
there.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog.model.names import shown
from fanlog.schema.avro_tree import AvroNode
from fanlog.schema.budget import StepBudget
from fanlog.schema.compiled import Mismatch, found

Check = Callable[[object], None]

#: Types of a union that a sentence names, and how much of each name.
_TAGS_SHOWN_MAX = 20
_TAG_LENGTH_MAX = 100


def compile_check(root: AvroNode, budget: StepBudget) -> Check:
    """Give a function that raises Mismatch for a parsed JSON value that the type does not allow.

    It takes a step or two for each value of the message: all types but the union have one there.

    Args:
        budget: Of the compilation.
    """
    return _Compiler(budget).check_of(root)


class _Compiler:
    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._made: dict[int, Check] = {}

    def check_of(self, node: AvroNode) -> Check:
        self._budget.spend()
        match node.kind:
            case "record":
                return self._record(node)
            case "union":
                return self._union(node)
            case "array":
                return self._array(node)
            case "map":
                return self._map(node)
            case "enum":
                return _enum(node)
            case "bytes" | "fixed":
                return _bytes(node)
            case "int":
                return _INT
            case "long":
                return _LONG
        return _SIMPLE[node.kind]

    def _record(self, node: AvroNode) -> Check:
        known = self._made.get(id(node))
        if known is not None:
            return known
        checks: list[tuple[str, Check]] = []
        names: set[str] = set()

        def record(value: object) -> None:
            if type(value) is not dict:
                raise Mismatch(f"expected an object (record {node.name}), found {found(value)}")
            name = ""
            try:
                for name, check in checks:
                    check(value[name])
            except KeyError:
                raise Mismatch(
                    f"the field {shown(name)} of record {node.name} is missing"
                ) from None
            except Mismatch as error:
                raise error.below(name) from None
            if len(value) != len(names):
                strange = next(key for key in value if key not in names)
                raise Mismatch(f"{shown(strange)} is no field of record {node.name}")

        # Before its fields: they may contain it.
        self._made[id(node)] = record
        checks += [(one.name, self.check_of(one.node)) for one in node.fields]
        names |= {one.name for one in node.fields}
        return record

    def _union(self, node: AvroNode) -> Check:
        branches = {part.tag: self.check_of(part) for part in node.parts if part.kind != "null"}
        is_nullable = any(part.kind == "null" for part in node.parts)

        def union(value: object) -> None:
            if value is None and is_nullable:
                return
            if type(value) is not dict or len(value) != 1:
                raise Mismatch(f"expected {_choice(node)}, found {found(value)}")
            [(tag, content)] = value.items()
            check = branches.get(tag)
            if check is None:
                raise Mismatch(f"expected {_choice(node)}, found the branch {shown(tag)}")
            try:
                check(content)
            except Mismatch as error:
                raise error.below(tag) from None

        return union

    def _array(self, node: AvroNode) -> Check:
        check = self.check_of(node.parts[0])

        def array(value: object) -> None:
            if type(value) is not list:
                raise Mismatch(f"expected an array, found {found(value)}")
            at = 0
            try:
                for at, item in enumerate(value):  # noqa: B007
                    check(item)
            except Mismatch as error:
                raise error.below(at) from None

        return array

    def _map(self, node: AvroNode) -> Check:
        check = self.check_of(node.parts[0])

        def mapping(value: object) -> None:
            if type(value) is not dict:
                raise Mismatch(f"expected an object (map), found {found(value)}")
            key = ""
            try:
                for key, item in value.items():  # noqa: B007
                    check(item)
            except Mismatch as error:
                raise error.below(key) from None

        return mapping


def _choice(union: AvroNode) -> str:
    """The types of a union in words; of many, the first ones."""
    tags = [part.tag for part in union.parts[:_TAGS_SHOWN_MAX]]
    rest = len(union.parts) - len(tags)
    more = f" or one of {rest} more" if rest else ""
    return " or ".join("null" if one == "null" else f'{{"{_cut(one)}": …}}' for one in tags) + more


def _cut(tag: str) -> str:
    return tag if len(tag) <= _TAG_LENGTH_MAX else f"{tag[:_TAG_LENGTH_MAX]}…"


def _null(value: object) -> None:
    if value is not None:
        raise Mismatch(f"expected null, found {found(value)}")


def _boolean(value: object) -> None:
    if type(value) is not bool:
        raise Mismatch(f"expected true or false, found {found(value)}")


def _string(value: object) -> None:
    if type(value) is not str:
        raise Mismatch(f"expected a string, found {found(value)}")


def _number(value: object) -> None:
    if type(value) is not float and type(value) is not int:
        raise Mismatch(f"expected a number, found {found(value)}")


def _integer(what: str, low: int, high: int) -> Check:
    def integer(value: object) -> None:
        if type(value) is not int or not low <= value < high:
            raise Mismatch(f"expected {what}, found {found(value)}")

    return integer


_INT = _integer("a 32-bit integer", -(2**31), 2**31)
_LONG = _integer("a 64-bit integer", -(2**63), 2**63)


def _enum(node: AvroNode) -> Check:
    symbols = node.places

    def enum(value: object) -> None:
        if type(value) is not str or value not in symbols:
            raise Mismatch(f"expected a symbol of enum {node.name}, found {found(value)}")

    return enum


def _bytes(node: AvroNode) -> Check:
    size = node.size if node.kind == "fixed" else None

    def octets(value: object) -> None:
        if type(value) is not str:
            raise Mismatch(f"expected bytes as a string, found {found(value)}")
        if not value.isascii() and max(value) > "\xff":
            raise Mismatch("expected bytes as a string of the characters 0 to 255, found others")
        if size is not None and len(value) != size:
            raise Mismatch(f"expected {size} bytes (fixed {node.name}), found {len(value)}")

    return octets


_SIMPLE: dict[str, Check] = {
    "null": _null,
    "boolean": _boolean,
    "string": _string,
    "float": _number,
    "double": _number,
}
