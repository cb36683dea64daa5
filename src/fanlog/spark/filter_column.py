"""A filter as a Spark `Column`: the same answer as the compiled closure, in Spark's own functions.

Nothing here runs in Python for a row. The Column is never null; `topic`, `message_id` and
`publish_time` must never be, and their comparisons are left bare, so that Spark can push them down.

Data is parsed once, as by any hand-written predicate. But Spark's parser is too kind: it takes text
after the first value, bytes that are no UTF-8, and numbers beyond the doubles. So where the payload
makes a difference to the answer, and only there, a second look confirms that it is JSON.
The parser stops where the first value ends, so it is given data as the first of two values in an
array: only if the second is found, the data was one value.

Three things its parser cannot be told to take: arrays and objects nested deeper than 999 levels,
numbers of more than 1,000 digits, and names of more than 50,000 UTF-16 units. Data with one of
them is no JSON here.

A variant converts between types on request, so each type is recognised by a request that only it
can meet:

| Type    | A variant is one when                                                           |
|---------|---------------------------------------------------------------------------------|
| string  | it can be had as `binary`, which nothing else can                               |
| boolean | it can be had as `boolean`, is no string, and is written `true` or `false`      |
| number  | it can be had as `double`, and is neither a string nor a boolean                |
"""

from __future__ import annotations

import operator
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from fanlog import limits
from fanlog.errors import FailedPrecondition
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Filter,
    Glob,
    Has,
    In,
    Not,
    Op,
    Or,
    Payload,
    Predicate,
    Prefix,
    Value,
)

#: Settings of a session whose filters look into payloads. A name may come twice in an object, and
#: its last value counts; by default Spark takes such data for no JSON at all.
SETTINGS: Final = {"spark.sql.variant.allowDuplicateKeys": "true"}

#: As JSON writes numbers.
_NUMBER = r"\A-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?\z"
#: A number beyond the doubles has one or the other: without 200 digits it needs such an exponent.
#: The next character is asked for as well, or every other hexadecimal id would look like one. (A
#: closing brace is spelled `\x7d`, because Spark counts braces when it shows generated code.)
_LARGE_EXPONENT = r"[eE][+]?[0-9]{3,}+[ \t\r\n,\x5d\x7d]"
_MANY_DIGITS = "[0-9]{200}"
_MANY_DIGITS_COUNT = 200
#: Characters that, outside strings, can only be part of a number or of `true` and `false`.
_NUMBER_CHARACTERS = r"[-+.0-9eE]+"

_INFINITY = float("inf")
#: Below this every count of microseconds is a double of its own.
_EXACT_MAX = 2**53
#: The largest index that a variant's path takes.
_INDEX_MAX = 2**31 - 1
#: A text put behind the data, to see where that ends. No publisher can know it.
_END = secrets.token_hex(16)

_HOLDS: dict[Op, Callable[[Any, Any], Any]] = {  # Of numbers, and of Columns.
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_NEVER: Final = False
#: A value that a filter compares with, as Spark takes it.
_Literal = Column | str | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where a message's fields are; dots lead into structs."""

    #: The topic's name, or its id alone.
    topic: str = "topic"
    message_id: str = "message_id"
    publish_time: str = "publish_time"
    #: Null and empty are the same.
    ordering_key: str = "ordering_key"
    attributes: str = "attributes"
    data: str = "data"


def column(tree: Filter, columns: Columns | None = None) -> Column:
    """Give the condition that holds for the messages that pass, and is false for all others.

    Raises:
        FailedPrecondition: the filter looks into payloads and the session lacks `SETTINGS`.
    """
    back_end = _BackEnd(columns or Columns())
    without = _without_payload(tree)
    if without is tree:
        return back_end.condition(tree)
    _require_settings()
    answer = back_end.condition(tree)
    if without is _NEVER:
        return answer & back_end.is_json()
    otherwise = F.lit(True) if isinstance(without, bool) else back_end.condition(without)
    return F.when((answer == otherwise) | back_end.is_json(), answer).otherwise(otherwise)


def _require_settings() -> None:
    session = SparkSession.active()
    for name, value in SETTINGS.items():
        if session.conf.get(name) != value:
            raise FailedPrecondition(
                f"a filter on payloads needs a Spark session with {name}={value}"
            )


def _without_payload(tree: Filter) -> Filter | bool:
    """The filter as it reads where there is no payload; the tree itself if it asks for none."""
    match tree:
        case Not(child):
            rest = _without_payload(child)
            if rest is child:
                return tree
            return not rest if isinstance(rest, bool) else Not(rest)
        case And(children) | Or(children):
            deciding = isinstance(tree, Or)
            rests = [_without_payload(child) for child in children]
            if all(rest is child for rest, child in zip(rests, children, strict=True)):
                return tree
            if deciding in rests:
                return deciding
            left = [rest for rest in rests if not isinstance(rest, bool)]
            if len(left) < 2:
                return left[0] if left else not deciding
            return type(tree)(tuple(left))
        case Compare(Payload(), Op.NE, _):
            return True
        case _:
            return False if isinstance(tree.field, Payload) else tree


class _BackEnd:
    """Conditions over one set of columns."""

    def __init__(self, columns: Columns) -> None:
        self._attributes = F.col(columns.attributes)
        self._text = F.col(columns.data).cast("string")
        self._pair = F.try_parse_json(F.concat(F.lit("["), self._text, F.lit(f',"{_END}"]')))
        self._publish_time = F.col(columns.publish_time)
        self._strings = {
            Envelope.ORDERING_KEY: F.nullif(F.col(columns.ordering_key), F.lit("")),
            Envelope.TOPIC: F.substring_index(F.col(columns.topic), "/", -1),
            Envelope.MESSAGE_ID: F.col(columns.message_id),
        }

    def condition(self, tree: Filter) -> Column:
        match tree:
            case And(children):
                return _fold(operator.and_, [self.condition(child) for child in children])
            case Or(children):
                return _fold(operator.or_, [self.condition(child) for child in children])
            case Not(child):
                return ~self.condition(child)
            case Compare(field, Op.NE, value):
                return ~self.condition(Compare(field, Op.EQ, value))
            case _:
                return self._predicate(tree)

    def is_json(self) -> Column:
        """Whether the parsed value is all of the data, is UTF-8, light, with numbers in range."""
        end = F.try_variant_get(self._pair, "$[1]", "string")
        return (
            _or_false(end == F.lit(_END))
            & F.is_valid_utf8(self._text)
            & ~_has_huge_number(self._text)
            & ~_is_heavy(self._text)
        )

    def _predicate(self, tree: Predicate) -> Column:
        field = tree.field
        if field is Envelope.PUBLISH_TIME:
            return self._time_test(tree)
        if isinstance(field, Payload):
            return _or_false(self._payload_test(field, tree))
        test = _string_test(self._string(field), tree)
        never_null = field is Envelope.TOPIC or field is Envelope.MESSAGE_ID
        return test if never_null else _or_false(test)

    def _string(self, field: Attribute | Envelope) -> Column:
        if isinstance(field, Attribute):
            return F.try_element_at(self._attributes, F.lit(field.key))
        return self._strings[field]

    def _time_test(self, tree: Predicate) -> Column:
        match tree:
            case Has():
                return F.lit(True)
            case Compare(_, op, value):
                return self._time_compare(op, value)
            case In(_, values):
                return _fold(operator.or_, [self._time_compare(Op.EQ, value) for value in values])
            case _:
                return F.lit(False)

    def _time_compare(self, op: Op, value: Value) -> Column:
        if isinstance(value, bool | str):
            return F.lit(False)
        # Spark pushes a comparison of times down to the files, but none of doubles made from them.
        if float(value).is_integer() and abs(value) < _EXACT_MAX:
            time: Column = _HOLDS[op](self._publish_time, F.timestamp_micros(F.lit(int(value))))
            return time
        micros: Column = F.unix_micros(self._publish_time).cast("double")
        number: Column = _HOLDS[op](micros, F.lit(float(value)))
        return number

    def _payload_test(self, field: Payload, tree: Predicate) -> Column:
        if any(isinstance(step, int) and not 0 <= step <= _INDEX_MAX for step in field.path):
            return F.lit(False)
        get = _getter(self._pair, (0, *field.path))
        match tree:
            case Has():
                found = get("variant")
                return found.isNotNull() & ~F.is_variant_null(found)
            case Compare(_, Op.EQ, value):
                return _payload_in(get, (value,))
            case Compare(_, op, value):
                return _payload_order(get, op, value)
            case In(_, values):
                return _payload_in(get, values)
            case Prefix(_, prefix):
                return F.startswith(get("binary"), _bytes(prefix))
            case Glob(_, parts):
                return _glob(get("binary").cast("string"), parts)
            case _:
                assert_never(tree)


#: Reads the value at a path, as a type.
_Get = Callable[[str], Column]


def _getter(found: Column, path: tuple[str | int, ...]) -> _Get:
    """Read at a path. A name that a path cannot spell, with both quotes, is looked up in a map."""
    written = "$"
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif "'" not in step:
            written += f"['{step}']"
        elif '"' not in step:
            written += f'["{step}"]'
        else:
            members = F.try_variant_get(found, written, "map<string,variant>")
            found, written = F.try_element_at(members, F.lit(step)), "$"
    return lambda type_name: F.try_variant_get(found, written, type_name)


def _is_heavy(text: Column) -> Column:
    """As `fanlog.routing.json_weight.is_heavy` says it."""
    each, most = limits.JSON_CONTAINER_WEIGHT, limits.JSON_WEIGHT_MAX
    containers = F.regexp_count(text, F.lit(r"[\x5b\x7b]"))
    weight = F.regexp_count(text, F.lit(",")) + containers * F.lit(each)
    return (F.octet_length(text) * F.lit(each) > F.lit(most)) & (weight > F.lit(most))


def _payload_in(get: _Get, values: tuple[Value, ...]) -> Column:
    strings = [_bytes(value) for value in values if isinstance(value, str)]
    booleans = [value for value in values if isinstance(value, bool)]
    numbers = [
        float(value)
        for value in values
        if not isinstance(value, str) and not isinstance(value, bool)
    ]
    tests = []
    if strings:
        tests.append(_or_false(_equals_any(get("binary"), strings)))
    if numbers:
        tests.append(_or_false(_is_number(get, _number_in(numbers), {0.0, 1.0} & set(numbers))))
    tests += [_or_false(_is_boolean(get, value)) for value in booleans]
    return _fold(operator.or_, tests)


def _payload_order(get: _Get, op: Op, value: Value) -> Column:
    holds = _HOLDS[op]
    if isinstance(value, bool):
        return F.lit(False)
    if isinstance(value, str):
        text: Column = holds(get("binary"), _bytes(value))
        return text
    bound = float(value)
    return _is_number(
        get, lambda number: holds(number, F.lit(bound)), holds(0.0, bound) or holds(1.0, bound)
    )


def _is_number(get: _Get, test: Callable[[Column], Column], takes_boolean: object) -> Column:
    """A number for which the test holds. `takes_boolean`: it holds for 0 or 1 as well."""
    found = test(get("double")) & get("binary").isNull()
    return found & ~get("string").isin("true", "false") if takes_boolean else found


def _is_boolean(get: _Get, value: bool) -> Column:
    word = "true" if value else "false"
    return (get("boolean") == F.lit(value)) & get("binary").isNull() & (get("string") == word)


def _number_in(numbers: list[float]) -> Callable[[Column], Column]:
    """Zero apart: Spark's sets tell it from minus zero, its comparisons do not."""
    others = [number for number in numbers if number != 0.0]
    if 0.0 not in numbers:
        return lambda found: _equals_any(found, others)
    return lambda found: _fold(
        operator.or_, [found == F.lit(0.0), *([_equals_any(found, others)] if others else [])]
    )


def _string_test(text: Column, tree: Predicate) -> Column:
    match tree:
        case Has():
            return text.isNotNull()
        case Compare(_, Op.EQ, value):
            return _string_in(text, (value,))
        case Compare(_, op, value):
            return _string_order(text, op, value)
        case In(_, values):
            return _string_in(text, values)
        case Prefix(_, prefix):
            return F.startswith(text, F.lit(prefix))
        case Glob(_, parts):
            return _glob(text, parts)
        case _:
            assert_never(tree)


def _string_in(text: Column, values: tuple[Value, ...]) -> Column:
    strings = [value for value in values if isinstance(value, str)]
    return _equals_any(text, strings) if strings else F.lit(False)


def _string_order(text: Column, op: Op, value: Value) -> Column:
    if isinstance(value, bool):
        return F.lit(False)
    if isinstance(value, str):
        ordered: Column = _HOLDS[op](text, F.lit(value))
        return ordered
    number = text.try_cast("double")
    holds: Column = _HOLDS[op](number, F.lit(float(value)))
    return F.rlike(text, F.lit(_NUMBER)) & (F.abs(number) < F.lit(_INFINITY)) & holds


def _glob(text: Column, parts: tuple[str, ...]) -> Column:
    """Every part is taken where it first fits: atomic groups, so that no text is tried for long."""
    first, *middle, last = parts
    if not middle:
        size_min = len(first.encode()) + len(last.encode())
        ends = F.startswith(text, F.lit(first)) & F.endswith(text, F.lit(last))
        return ends & (F.octet_length(text) >= size_min)
    between = "".join(f"(?>.*?{re.escape(part)})" for part in middle)
    return F.rlike(text, F.lit(rf"(?s)\A{re.escape(first)}{between}.*{re.escape(last)}\z"))


def _has_huge_number(text: Column) -> Column:
    """A number beyond the doubles, outside strings, in text that Spark has parsed."""
    # Hardly any text has either, and the rest of the test takes as long as parsing.
    perhaps = F.rlike(text, F.lit(_LARGE_EXPONENT)) | (
        (F.octet_length(text) >= _MANY_DIGITS_COUNT) & F.rlike(text, F.lit(_MANY_DIGITS))
    )
    without_escapes = F.replace(F.replace(text, F.lit("\\\\")), F.lit('\\"'))
    without_strings = F.regexp_replace(without_escapes, '"[^"]*"', "")
    numbers = F.regexp_extract_all(without_strings, F.lit(_NUMBER_CHARACTERS), F.lit(0))
    return perhaps & F.exists(
        numbers, lambda number: _or_false(F.abs(number.try_cast("double")) == F.lit(_INFINITY))
    )


def _equals_any(found: Column, values: Sequence[_Literal]) -> Column:
    if len(values) == 1:
        return found == F.lit(values[0])
    return found.isin(list(values))


def _bytes(text: str) -> Column:
    return F.lit(text.encode())


def _or_false(test: Column) -> Column:
    return F.coalesce(test, F.lit(False))


def _fold(join: Callable[[Column, Column], Column], tests: list[Column]) -> Column:
    """Join as a tree of little depth: Spark recurses over expressions."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return join(_fold(join, tests[:half]), _fold(join, tests[half:]))
