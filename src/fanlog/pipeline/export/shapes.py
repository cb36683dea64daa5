"""Shapes: what a field of a schema is as a column, and how its values become those of the column.

A shape is made of a schema once. `plain` takes a decoded value to the one the column has, whatever
the table is like; `fit` then sees whether a table's column takes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from fanlog.lake.tables import TIME
from fanlog.schema.compiled import path_of


class Misfit(ValueError):
    """A value has no place in a table; the sentence says where and why."""

    def __init__(self, problem: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def below(self, step: str | int) -> Misfit:
        self.path = (step, *self.path)
        return self

    def __str__(self) -> str:
        return f"{path_of(self.path)}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Shape:
    """A column's type, and what makes its values of decoded ones."""

    type: pa.DataType
    plain: Callable[[object], object]


def scalar(kind: pa.DataType) -> Shape:
    """Values are as they are."""
    return Shape(kind, lambda value: value)


#: What has no type of its own: the value as JSON.
JSON = Shape(pa.string(), lambda value: None if value is None else json_text(value))


def listed(item: Shape) -> Shape:
    def plain(value: Any) -> object:
        return None if value is None else [item.plain(one) for one in value]

    return Shape(pa.list_(pa.field("element", item.type)), plain)


def mapped(item: Shape) -> Shape:
    def plain(value: Any) -> object:
        return None if value is None else {key: item.plain(one) for key, one in value.items()}

    return Shape(pa.map_(pa.string(), pa.field("value", item.type)), plain)


def struct(fields: Mapping[str, Shape]) -> Shape:
    """What a value has beyond the fields is kept: whether it may be left out is seen later."""

    def plain(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {
            name: fields[name].plain(one) if name in fields else one for name, one in value.items()
        }

    kind = pa.struct([pa.field(name, shape.type) for name, shape in fields.items()])
    return Shape(kind, plain)


def json_text(value: object) -> str:
    """A value as JSON: times as text, bytes as characters 0 to 255, as Avro writes them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_value)


def fit(value: object, kind: pa.DataType, *, drop_unknown: bool) -> Any:
    """The value as a column of a type takes it.

    Raises:
        Misfit: It does not.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _fit_struct(value, kind, drop_unknown)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        return [_below(n, one, kind.value_type, drop_unknown) for n, one in enumerate(value)]
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _wrong(value, "a map")
        items = value.items()
        return [(key, _below(key, one, kind.item_type, drop_unknown)) for key, one in items]
    return _fit_scalar(value, kind)


def _fit_struct(value: object, kind: pa.DataType, drop_unknown: bool) -> object:
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    known = {field.name: field for field in kind}
    if not drop_unknown:
        for name, one in value.items():
            if name not in known and one is not None:
                raise Misfit("the table has no such column", (name,))
    return {
        name: _below(name, value.get(name), field.type, drop_unknown)
        for name, field in known.items()
    }


def _below(step: str | int, value: object, kind: pa.DataType, drop_unknown: bool) -> object:
    try:
        return fit(value, kind, drop_unknown=drop_unknown)
    except Misfit as error:
        raise error.below(step) from None


def _fit_scalar(value: Any, kind: pa.DataType) -> object:
    types = pa.types
    if types.is_boolean(kind):
        return _checked(value, "a boolean", is_fine=type(value) is bool)
    if types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        is_whole = type(value) is int or (type(value) is float and value.is_integer())
        _checked(value, "a whole number", is_fine=is_whole)
        if not -bound <= value < bound:
            raise Misfit(f"{value} has no room in a column of {kind.bit_width} bits")
        return int(value)
    if types.is_floating(kind):
        _checked(value, "a number", is_fine=type(value) in (int, float))
        return float(value)
    if types.is_string(kind) or types.is_large_string(kind):
        return _checked(value, "a string", is_fine=isinstance(value, str))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _checked(value, "bytes", is_fine=isinstance(value, bytes))
    if types.is_timestamp(kind):
        _checked(value, "a time", is_fine=isinstance(value, datetime))
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if types.is_date(kind):
        is_date = isinstance(value, date) and not isinstance(value, datetime)
        return _checked(value, "a date", is_fine=is_date)
    if types.is_decimal(kind):
        return _fit_decimal(value, kind)
    raise Misfit(f"a column of type {kind} is not one that exports write")


def _fit_decimal(value: Any, kind: pa.DataType) -> Decimal:
    _checked(value, "a decimal number", is_fine=type(value) in (int, Decimal))
    found = Decimal(value)
    whole = kind.precision - kind.scale
    exponent = found.as_tuple().exponent
    is_finite = isinstance(exponent, int)
    if not is_finite or found.adjusted() >= whole or -int(exponent) > kind.scale:
        raise Misfit(f"{value} has no room in a column of type {kind}")
    return found


def _checked(value: object, wanted: str, *, is_fine: bool) -> object:
    if not is_fine:
        raise _wrong(value, wanted)
    return value


def _wrong(value: object, wanted: str) -> Misfit:
    return Misfit(f"the column takes {wanted}, not {_KINDS.get(type(value), 'something else')}")


_KINDS = {
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "a string",
    bytes: "bytes",
    dict: "an object",
    list: "a list",
    datetime: "a time",
    date: "a date",
    Decimal: "a decimal number",
}

TIMESTAMP = scalar(TIME)


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
