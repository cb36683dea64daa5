"""A filter as a function of a message: all that can be decided once is decided here.

Each message then costs dictionary look-ups and comparisons alone: the functions that this module
returns do not test types of the tree, operators or literals any more. They never raise, keep
nothing, and may be shared between threads.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import isfinite
from typing import Any, assert_never

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Field,
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

Test = Callable[[Candidate], bool]
#: Gives the value of a field in a message, None where it is missing.
Reader = Callable[[Candidate], Any]
#: Whether two numbers, or two strings, are in an order.
Order = Callable[[Any, Any], bool]

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch

_HOLDS: dict[Op, Order] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_ENVELOPE: dict[Envelope, Reader] = {
    Envelope.ORDERING_KEY: lambda candidate: candidate.ordering_key or None,
    Envelope.PUBLISH_TIME: operator.attrgetter("publish_time_us"),
    Envelope.TOPIC: operator.attrgetter("topic"),
    Envelope.MESSAGE_ID: operator.attrgetter("message_id"),
}


def compile_filter(tree: Filter) -> Test:
    """Give the function that says whether a message passes. Recurses as deep as the tree is."""
    match tree:
        case And(children):
            return all_tests([compile_filter(child) for child in children])
        case Or(children):
            return _any_test([compile_filter(child) for child in children])
        case Not(child):
            return _not(compile_filter(child))
        case Compare(field, Op.NE, value):
            return _not(compile_filter(Compare(field, Op.EQ, value)))
        case _:
            return _predicate(tree)


def scan_number(text: str) -> float | None:
    """Read a number as JSON writes it; None for any other text, and for one beyond the doubles.

    `float` alone would also take spaces, underscores, a plus, digits of other scripts, and names.
    """
    if _JSON_NUMBER(text) is None:
        return None
    number = float(text)
    return number if isfinite(number) else None


#: The same, remembered: within one message many tests may read one string.
read_number = lru_cache(maxsize=1024)(scan_number)


def reader(field: Field) -> Reader:
    """Give the function that finds a field's value in a message."""
    match field:
        case Attribute(key):
            return lambda candidate: candidate.attributes.get(key)
        case Payload((str() as name,)):
            return _member(name)
        case Payload(path):
            return _path(path)
        case _:
            return _ENVELOPE[field]


def all_tests(tests: list[Test]) -> Test:
    """Give the function that says whether all of at least one test hold."""
    match tests:
        case [only]:
            return only
        case [first, second]:
            return lambda candidate: first(candidate) and second(candidate)
        case [first, second, third]:
            return lambda candidate: first(candidate) and second(candidate) and third(candidate)

    def test(candidate: Candidate) -> bool:
        for each in tests:  # noqa: SIM110  a generator costs more than the tests do
            if not each(candidate):
                return False
        return True

    return test


def _any_test(tests: list[Test]) -> Test:
    match tests:
        case [only]:
            return only
        case [first, second]:
            return lambda candidate: first(candidate) or second(candidate)

    def test(candidate: Candidate) -> bool:
        for each in tests:  # noqa: SIM110  a generator costs more than the tests do
            if each(candidate):
                return True
        return False

    return test


def _not(test: Test) -> Test:
    return lambda candidate: not test(candidate)


def _never(_: Candidate) -> bool:
    return False


def _predicate(tree: Predicate) -> Test:
    read = reader(tree.field)
    match tree:
        case Has():
            return lambda candidate: read(candidate) is not None
        case Compare(field, Op.EQ, value):
            return _one_of(field, (value,))
        case Compare(field, op, value):
            return _in_order(field, op, value)
        case In(field, values):
            return _one_of(field, values)
        case Prefix(Attribute(key), prefix):
            return _attribute_prefix(key, prefix)
        case Prefix(_, prefix):
            return _string_test(read, lambda text: text.startswith(prefix))
        case Glob(_, parts):
            return _string_test(read, _glob(parts))
        case _:
            assert_never(tree)


def _one_of(field: Field, values: tuple[Value, ...]) -> Test:
    """Equality with any of the values; one of a type that the field cannot have never counts."""
    read = reader(field)
    strings = frozenset(value for value in values if isinstance(value, str))
    if isinstance(field, Attribute):
        return _attribute_one_of(field.key, strings)
    numbers = frozenset(doubles(values))
    if field is Envelope.PUBLISH_TIME:
        return lambda candidate: float(read(candidate)) in numbers
    if isinstance(field, Envelope):
        return lambda candidate: read(candidate) in strings
    booleans = frozenset(value for value in values if isinstance(value, bool))

    def test(candidate: Candidate) -> bool:
        found = read(candidate)
        kind = type(found)
        if kind is str:
            return found in strings
        if kind is int or kind is float:
            return float(found) in numbers
        return kind is bool and found in booleans

    return test


def _attribute_one_of(key: str, strings: frozenset[str]) -> Test:
    if len(strings) == 1:
        (only,) = strings
        return lambda candidate: candidate.attributes.get(key) == only
    return lambda candidate: candidate.attributes.get(key) in strings


def _attribute_prefix(key: str, prefix: str) -> Test:
    def test(candidate: Candidate) -> bool:
        text = candidate.attributes.get(key)
        return text is not None and text.startswith(prefix)

    return test


def doubles(values: Iterable[Value]) -> list[float]:
    """Give the numbers among some values, as they are compared."""
    return [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _in_order(field: Field, op: Op, value: Value) -> Test:
    read, holds = reader(field), _HOLDS[op]
    if isinstance(value, bool):
        return _never
    if isinstance(value, str):
        return _string_test(read, lambda text: holds(text, value))
    bound = float(value)
    if field is Envelope.PUBLISH_TIME:
        return lambda candidate: holds(float(read(candidate)), bound)
    if isinstance(field, Payload):
        return _payload_number_in_order(read, holds, bound)

    def test(candidate: Candidate) -> bool:
        text = read(candidate)
        if text is None:
            return False
        number = read_number(text)
        return number is not None and holds(number, bound)

    return test


def _payload_number_in_order(read: Reader, holds: Order, bound: float) -> Test:
    def test(candidate: Candidate) -> bool:
        found = read(candidate)
        kind = type(found)
        # An int is rounded before it is compared: numbers compare as doubles.
        return (kind is float or kind is int) and holds(float(found), bound)

    return test


def _string_test(read: Reader, check: Callable[[str], bool]) -> Test:
    def test(candidate: Candidate) -> bool:
        found = read(candidate)
        return type(found) is str and check(found)

    return test


def _glob(parts: tuple[str, ...]) -> Callable[[str], bool]:
    """The first part at the start, the last at the end, the others in the first gap that fits."""
    first, *middle, last = parts
    size_min = sum(map(len, parts))
    start, tail_size = len(first), len(last)

    def ends_only(text: str) -> bool:
        return len(text) >= size_min and text.startswith(first) and text.endswith(last)

    def check(text: str) -> bool:
        if not ends_only(text):
            return False
        position, end = start, len(text) - tail_size
        for part in middle:
            position = text.find(part, position, end)
            if position < 0:
                return False
            position += len(part)
        return True

    return check if middle else ends_only


def _member(name: str) -> Reader:
    def read(candidate: Candidate) -> object:
        payload = candidate.payload
        return payload.get(name) if type(payload) is dict else None

    return read


def _path(path: tuple[str | int, ...]) -> Reader:
    steps: list[tuple[str | int, object]] = [
        (step, dict if isinstance(step, str) else list) for step in path
    ]

    def read(candidate: Candidate) -> object:
        found: Any = candidate.payload
        for step, kind in steps:
            if type(found) is not kind:
                return None
            try:
                found = found[step]
            except (KeyError, IndexError):
                return None
        return found

    return read
