"""Shapes: the column of a field of a schema, and how decoded values become values of the column.

A shape is made of a schema once. `plain` turns a decoded value into the one of the shape's own
column, without regard to the table; `fit_struct` then sees whether the columns of a table take it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

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
    """A column's type, and the function that makes its values of decoded ones."""

    type: pa.DataType
    plain: Callable[[object], object]


def scalar_shape(kind: pa.DataType) -> Shape:
    """Values are as they are."""
    return Shape(kind, lambda value: value)


#: Of a value that no column type can hold: its JSON text.
JSON = Shape(pa.string(), lambda value: None if value is None else json_text(value))


def list_shape(item: Shape) -> Shape:
    def plain(value: object) -> object:
        return [item.plain(one) for one in value] if isinstance(value, list) else value

    return Shape(pa.list_(pa.field("element", item.type)), plain)


def map_shape(item: Shape) -> Shape:
    def plain(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {key: item.plain(one) for key, one in value.items()}

    return Shape(pa.map_(pa.string(), pa.field("value", item.type)), plain)


def struct_shape(fields: Mapping[str, Shape]) -> Shape:
    """Unknown fields of a value are kept: `fit_struct` decides whether they may be left out."""

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


def fit_struct(value: object, kind: pa.DataType, *, drop_unknown: bool) -> dict[str, object]:
    """The value as columns take it, each field of the type being one.

    Raises:
        Misfit: They do not.
    """
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    known = {field.name: field for field in kind}
    if not drop_unknown:
        for name, one in value.items():
            if name not in known and one is not None:
                raise Misfit("the table has no such column", (name,))
    return {
        name: _fit_below(name, value.get(name), field.type, drop_unknown)
        for name, field in known.items()
    }


def _fit(value: object, kind: pa.DataType, *, drop_unknown: bool) -> object:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return fit_struct(value, kind, drop_unknown=drop_unknown)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        return [_fit_below(n, one, kind.value_type, drop_unknown) for n, one in enumerate(value)]
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _wrong(value, "a map")
        items = value.items()
        return [(key, _fit_below(key, one, kind.item_type, drop_unknown)) for key, one in items]
    return _fit_scalar(value, kind)


def _fit_below(step: str | int, value: object, kind: pa.DataType, drop_unknown: bool) -> object:
    try:
        return _fit(value, kind, drop_unknown=drop_unknown)
    except Misfit as error:
        raise error.below(step) from None


def _fit_scalar(value: object, kind: pa.DataType) -> object:
    types = pa.types
    if types.is_boolean(kind):
        return _check(value, "a boolean", is_fine=type(value) is bool)
    if types.is_integer(kind):
        return _fit_integer(value, kind)
    if types.is_floating(kind):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, "a number")
        return float(value)
    if types.is_string(kind) or types.is_large_string(kind):
        return _check(value, "a string", is_fine=isinstance(value, str))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _check(value, "bytes", is_fine=isinstance(value, bytes))
    if types.is_timestamp(kind):
        if not isinstance(value, datetime):
            raise _wrong(value, "a time")
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if types.is_date(kind):
        is_date = isinstance(value, date) and not isinstance(value, datetime)
        return _check(value, "a date", is_fine=is_date)
    if types.is_decimal(kind):
        return _fit_decimal(value, kind)
    raise Misfit(f"a column of type {kind} is not one that exports write")


def _fit_integer(value: object, kind: pa.DataType) -> int:
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not is_whole or not isinstance(value, int | float):
        raise _wrong(value, "a whole number")
    bound = 1 << (kind.bit_width - 1)
    if not -bound <= value < bound:
        raise Misfit(f"{value} has no room in a column of {kind.bit_width} bits")
    return int(value)


def _fit_decimal(value: object, kind: pa.DataType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _wrong(value, "a decimal number")
    found = Decimal(value)
    whole = kind.precision - kind.scale
    exponent = found.as_tuple().exponent
    is_finite = isinstance(exponent, int)
    if not is_finite or found.adjusted() >= whole or -int(exponent) > kind.scale:
        raise Misfit(f"{value} has no room in a column of type {kind}")
    return found


def _check(value: object, wanted: str, *, is_fine: bool) -> object:
    if not is_fine:
        raise _wrong(value, wanted)
    return value


def _wrong(value: object, wanted: str) -> Misfit:
    return Misfit(f"the column takes {wanted}, not {_KINDS.get(type(value), 'something else')}")


_KINDS: Mapping[type, str] = {
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

TIMESTAMP = scalar_shape(TIME)


def _json_value(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
