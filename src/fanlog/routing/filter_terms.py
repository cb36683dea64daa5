"""From a field, an operator and a literal to one node of the tree, in its normal form.

Both ways of writing a filter, text and JSON, end here, so that the same words mean the same:

1. A glob of one star at the end is a `Prefix`, a lone star is `Has`; elsewhere neighbouring stars
   are one.
2. `!=` with a glob is the negation of `=`.
3. AND within AND is one AND; so for OR.
4. `In` has no value twice; 1 and 1.0 are the same value, 1 and true are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NoReturn

from fanlog import times
from fanlog.routing.filter_ast import (
    And,
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
from fanlog.routing.filter_scan import FilterError, Parts, cut

#: A number as JSON writes it.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  all of the arithmetic is in UTC
_MICROSECOND = timedelta(microseconds=1)


class LiteralKind(Enum):
    """How a literal is written."""

    QUOTED = "a quoted string"
    WORD = "an unquoted word"
    NUMBER = "a number"
    BOOL = "true or false"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it is written; its meaning depends on the field beside it."""

    kind: LiteralKind
    #: The string between stars; numbers and words as they are written.
    parts: Parts
    #: Where it stands, for refusals: `at column 7`.
    where: str

    @property
    def has_stars(self) -> bool:
        return len(self.parts) > 1

    @property
    def text(self) -> str:
        """The string where a star is just a star."""
        return "*".join(self.parts)

    def refuse(self, what: str, hint: str) -> NoReturn:
        raise FilterError(f"{what} {self.where}; {hint}")


def read_unquoted(word: str, where: str) -> Literal:
    """Read an unquoted word: a number, true or false, null, or else a string."""
    if NUMBER.fullmatch(word):
        return Literal(LiteralKind.NUMBER, (word,), where)
    if word in ("true", "false"):
        return Literal(LiteralKind.BOOL, (word,), where)
    if word == "null":
        return Literal(LiteralKind.NULL, (word,), where)
    return Literal(LiteralKind.WORD, tuple(word.split("*")), where)


def has(field: Field, where: str) -> Has:
    if field is Envelope.PUBLISH_TIME:
        raise FilterError(f"existence of publish_time {where}; every message has one")
    return Has(field)


def compare(field: Field, op: Op, literal: Literal) -> Filter:
    if op in (Op.EQ, Op.NE):
        if literal.has_stars and field is not Envelope.PUBLISH_TIME:
            return _glob(field, op, literal)
        return Compare(field, op, _equal_value(field, literal))
    if field is Envelope.PUBLISH_TIME:
        return Compare(field, op, _time(literal))
    if literal.kind is LiteralKind.NUMBER:
        return Compare(field, op, _number(literal))
    if literal.kind is not LiteralKind.QUOTED:
        _refuse_null(field, literal)
        raise FilterError(
            f'expected a number or a quoted string after "{op.value}" {literal.where}, '
            f"found {_show(literal)}"
        )
    return Compare(field, op, _text(field, literal))


def prefix(field: Field, literal: Literal) -> Prefix:
    if field is Envelope.PUBLISH_TIME:
        literal.refuse("a prefix of publish_time", "compare it with <, <=, > or >=")
    _refuse_null(field, literal)
    if literal.kind is LiteralKind.WORD and literal.has_stars:
        literal.refuse(
            f"a star in the prefix {_show(literal)}", "globs are k = us-*, existence attributes:k"
        )
    if isinstance(field, Payload) and literal.kind in (LiteralKind.NUMBER, LiteralKind.BOOL):
        literal.refuse(f"{_show(literal)} as a prefix", "quote it to mean a string")
    return Prefix(field, _text(field, literal))


def one_of(field: Field, literals: Iterable[Literal]) -> In:
    values: dict[tuple[type, Value], Value] = {}
    for literal in literals:
        if literal.has_stars and field is not Envelope.PUBLISH_TIME:
            literal.refuse("a glob within IN", r'join globs with OR; a star itself is "\*"')
        value = _equal_value(field, literal)
        values.setdefault(_identity(value), value)
    return In(field, tuple(values.values()))


def all_of(children: Sequence[Filter]) -> Filter:
    """Join one filter or more by AND."""
    if len(children) == 1:
        return children[0]
    return And(
        tuple(leaf for c in children for leaf in (c.children if isinstance(c, And) else (c,)))
    )


def any_of(children: Sequence[Filter]) -> Filter:
    """Join one filter or more by OR."""
    if len(children) == 1:
        return children[0]
    return Or(tuple(leaf for c in children for leaf in (c.children if isinstance(c, Or) else (c,))))


def time_text(microseconds: int) -> str:
    """Write a time as `publish_time` takes it."""
    return times.of_datetime(_EPOCH + microseconds * _MICROSECOND, timespec="auto")


def _glob(field: Field, op: Op, literal: Literal) -> Filter:
    first, *middle, last = literal.parts
    parts = (first, *filter(None, middle), last)
    _check_topic(field, literal)
    node: Predicate
    if parts == ("", ""):
        node = Has(field)
    elif len(parts) == 2 and not last:
        node = Prefix(field, first)
    else:
        node = Glob(field, parts)
    return Not(node) if op is Op.NE else node


def _equal_value(field: Field, literal: Literal) -> Value:
    if field is Envelope.PUBLISH_TIME:
        return _time(literal)
    _refuse_null(field, literal)
    if isinstance(field, Payload):
        if literal.kind is LiteralKind.NUMBER:
            return _number(literal)
        if literal.kind is LiteralKind.BOOL:
            return literal.text == "true"
    return _text(field, literal)


def _text(field: Field, literal: Literal) -> str:
    _check_topic(field, literal)
    return literal.text


def _check_topic(field: Field, literal: Literal) -> None:
    if field is Envelope.TOPIC and "/" in literal.text:
        literal.refuse(
            f"{_show(literal)} is no topic id",
            "topic compares by the id alone, without projects/…/topics/",
        )


def _refuse_null(field: Field, literal: Literal) -> None:
    if literal.kind is not LiteralKind.NULL:
        return
    missing = "NOT payload:x" if isinstance(field, Payload) else "NOT attributes:k"
    literal.refuse("null is no value", f'what is not there is {missing}, the text is "null"')


def _number(literal: Literal) -> int | float:
    """Give an int for digits alone, else a float. All must fit a double, as they are compared."""
    text = literal.parts[0]
    value = float(text)
    if not math.isfinite(value):
        literal.refuse("a number too large", "numbers are doubles, up to 1.8e308")
    return int(text) if text.lstrip("-").isdigit() else value


def _identity(value: Value) -> tuple[type, Value]:
    if isinstance(value, bool | str):
        return type(value), value
    return float, float(value)


def _time(literal: Literal) -> int:
    """Give microseconds since 1970."""
    found = _TIME.fullmatch(literal.text) if literal.kind is LiteralKind.QUOTED else None
    if found is None:
        literal.refuse(
            f"{_show(literal)} is no time",
            'publish_time takes RFC 3339 in quotes, as in "2026-01-31T12:00:00Z"',
        )
    *date_and_clock, fraction, sign, hours, minutes = found.groups()
    if fraction and len(fraction) > 6:
        literal.refuse(
            f"a fraction of {len(fraction)} digits", "publish_time is in microseconds, 6 digits"
        )
    try:
        moment = datetime(*map(int, date_and_clock))  # type: ignore[arg-type]  # noqa: DTZ001
        if sign:
            moment -= _offset(sign, int(hours), int(minutes))
    except (ValueError, OverflowError):
        literal.refuse(f"{_show(literal)} is no time", "there is no such day, hour or offset")
    return (moment - _EPOCH) // _MICROSECOND + int((fraction or "").ljust(6, "0"))


def _offset(sign: str, hours: int, minutes: int) -> timedelta:
    if hours > 23 or minutes > 59:
        raise ValueError("out of range")
    return timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)


def _show(literal: Literal) -> str:
    return f'"{cut(literal.text)}"' if literal.text.isprintable() else ascii(cut(literal.text))
