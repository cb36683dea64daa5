"""Defaults of Avro fields, written out: with the tags of unions, and the defaults inside them.

A default may leave fields out that have defaults themselves, and so on: forty lines of a definition
can stand for more values than there is memory. So each is measured, from the inside out, before it
is written; and it is written once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.schema.avro_tree import AvroNode, Field, takes_default
from fanlog.schema.budget import StepBudget

#: Bytes of a value or a key as JSON, at least, with its punctuation.
_VALUE_BYTES = 4


class DefaultSize(NamedTuple):
    values: int
    size_bytes: int


class Defaults:
    """The defaults of one schema.

    Raises:
        InvalidArgument: A default contains itself, or is larger than it may be.
    """

    def __init__(self, root: AvroNode, budget: StepBudget) -> None:
        self._extents: dict[int, DefaultSize | None] = {}
        self._written: dict[int, Any] = {}
        self._budget = budget
        fields = [one for one in _fields(root, budget) if one.has_default]
        for one in fields:
            self.measure(one)
        for one in fields:
            self.write(one)

    def measure(self, field: Field) -> DefaultSize:
        """How large the default of a field is, written out."""
        known = self._extents.get(id(field))
        if known is not None:
            return known
        if id(field) in self._extents:
            raise InvalidArgument(f"the default of the field {shown(field.name)} contains itself")
        self._extents[id(field)] = None
        made = self._measure_value(field.node, field.default)
        if (
            made.values > limits.SCHEMA_DEFAULT_VALUES_MAX
            or made.size_bytes > limits.SCHEMA_DEFAULT_BYTES_MAX
        ):
            raise InvalidArgument(
                f"the default of the field {shown(field.name)}, written out, has more than "
                f"{limits.SCHEMA_DEFAULT_VALUES_MAX} values or {limits.SCHEMA_DEFAULT_BYTES_MAX} "
                "bytes"
            )
        self._extents[id(field)] = made
        return made

    def write(self, field: Field) -> Any:
        """The default of a field as a value of the JSON encoding.

        The same object each time, also where it stands in another default: not to be changed.
        """
        if id(field) not in self._written:
            self._written[id(field)] = self._write_value(field.node, field.default)
        return self._written[id(field)]

    def _measure_value(self, node: AvroNode, default: Any) -> DefaultSize:
        self._budget.spend()
        parts: list[DefaultSize] = []
        match node.kind:
            case "union":
                part = self._branch(node, default)
                parts = [self._measure_value(part, default), DefaultSize(1, len(part.tag))]
            case "record":
                for one in node.fields:
                    is_given = one.name in default
                    parts.append(
                        self._measure_value(one.node, default[one.name])
                        if is_given
                        else self.measure(one)
                    )
                    parts.append(DefaultSize(0, len(one.name)))
            case "array":
                parts = [self._measure_value(node.parts[0], item) for item in default]
            case "map":
                for key, item in default.items():
                    parts += [self._measure_value(node.parts[0], item), DefaultSize(0, len(key))]
            case "string" | "bytes" | "fixed":
                parts = [DefaultSize(0, len(default))]
        return DefaultSize(
            1 + sum(part.values for part in parts),
            _VALUE_BYTES + sum(part.size_bytes for part in parts),
        )

    def _write_value(self, node: AvroNode, default: Any) -> Any:
        match node.kind:
            case "union":
                part = self._branch(node, default)
                return None if part.kind == "null" else {part.tag: self._write_value(part, default)}
            case "record":
                return {
                    one.name: (
                        self._write_value(one.node, default[one.name])
                        if one.name in default
                        else self.write(one)
                    )
                    for one in node.fields
                }
            case "array":
                return [self._write_value(node.parts[0], item) for item in default]
            case "map":
                return {
                    key: self._write_value(node.parts[0], item) for key, item in default.items()
                }
            case "float" | "double":
                return float(default)
        return default

    def _branch(self, node: AvroNode, default: Any) -> AvroNode:
        return next(part for part in node.parts if takes_default(part, default, self._budget))


def _fields(root: AvroNode, budget: StepBudget) -> list[Field]:
    """All fields of all records, those of inner ones first."""
    seen: set[int] = set()
    left = [root]
    found: list[Field] = []
    while left:
        node = left.pop()
        budget.spend()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found += node.fields
        left += node.parts
        left += [one.node for one in node.fields]
    return found[::-1]
