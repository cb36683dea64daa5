"""A filter in words, for people: `attribute region begins with "eu-"`."""

from __future__ import annotations

from typing import assert_never

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
    Prefix,
    Value,
)
from fanlog.routing.filter_terms import time_text

_ENVELOPE = {
    Envelope.ORDERING_KEY: "the ordering key",
    Envelope.PUBLISH_TIME: "the publish time",
    Envelope.TOPIC: "the topic",
    Envelope.MESSAGE_ID: "the message id",
}
_OPS = {
    Op.EQ: "is",
    Op.NE: "is not",
    Op.LT: "is less than",
    Op.LE: "is at most",
    Op.GT: "is more than",
    Op.GE: "is at least",
}
_TIME_OPS = _OPS | {
    Op.LT: "is before",
    Op.LE: "is at or before",
    Op.GT: "is after",
    Op.GE: "is at or after",
}


def kind_of(tree: Filter) -> str:
    """AND, OR, NOT or TEST."""
    match tree:
        case And():
            return "AND"
        case Or():
            return "OR"
        case Not():
            return "NOT"
        case _:
            return "TEST"


def parts_of(tree: Filter) -> tuple[Filter, ...]:
    match tree:
        case And(children) | Or(children):
            return children
        case Not(child):
            return (child,)
        case _:
            return ()


def in_words(tree: Filter) -> str:
    """The tree in words; of a tree with parts, the way in which the parts count."""
    match tree:
        case And(children):
            return f"all {len(children)} of these"
        case Or(children):
            return f"any of these {len(children)}"
        case Not():
            return "not this"
        case Has(field):
            return f"there is {_field(field)}"
        case Compare(field, op, value):
            ops = _TIME_OPS if field is Envelope.PUBLISH_TIME else _OPS
            return f"{_field(field)} {ops[op]} {_value(field, value)}"
        case Prefix(field, prefix):
            return f"{_field(field)} begins with {_quoted(prefix)}"
        case Glob(field, parts):
            return f"{_field(field)} {_glob(parts)}"
        case In(field, values):
            return f"{_field(field)} is one of {', '.join(_value(field, one) for one in values)}"
        case _:
            assert_never(tree)


def _glob(parts: tuple[str, ...]) -> str:
    first, *middle, last = parts
    said = [f"begins with {_quoted(first)}"] if first else []
    said += [
        f"then has {_quoted(one)}" if said or n else f"has {_quoted(one)}"
        for n, one in enumerate(filter(None, middle))
    ]
    said += [f"ends with {_quoted(last)}"] if last else []
    return " and ".join(said) or "is there"


def _field(field: Field) -> str:
    match field:
        case Attribute(key):
            return f"attribute {_quoted(key)}"
        case Payload(path):
            return f"data {_path(path)}"
        case Envelope():
            return _ENVELOPE[field]
        case _:
            assert_never(field)


def _path(path: tuple[str | int, ...]) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return _quoted("".join(steps).removeprefix("."))


def _value(field: Field, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if field is Envelope.PUBLISH_TIME and isinstance(value, int):
        return time_text(value)
    return repr(value)


def _quoted(text: str) -> str:
    return f'"{text}"'
