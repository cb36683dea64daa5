"""From the tree of a filter to its text: one text for one tree.

The text parses back to the same tree (`parse(to_text(tree), limited=False) == tree`), for every
tree that the parser makes. Where Google's language can say it, the text is in Google's language.
"""

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
from fanlog.routing.filter_scan import NAME
from fanlog.routing.filter_terms import time_text

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
#: Where a star means something, one that means itself is escaped.
_STARRED = {**_ESCAPES, "*": "\\*"}


def to_text(tree: Filter) -> str:
    match tree:
        case And(children):
            return " AND ".join(map(_operand, children))
        case Or(children):
            return " OR ".join(map(_operand, children))
        case Not(child):
            return f"NOT {_operand(child)}"
        case Has(field):
            return _has(field)
        case Compare(field, op, value):
            return f"{_field(field)} {op.value} {_value(field, op, value)}"
        case Prefix(field, prefix):
            return f"hasPrefix({_field(field)}, {_quote(prefix, _ESCAPES)})"
        case Glob(field, parts):
            glob = "*".join(_escape(part, _STARRED) for part in parts)
            return f'{_field(field)} = "{glob}"'
        case In(field, values):
            return f"{_field(field)} IN ({', '.join(_value(field, Op.EQ, v) for v in values)})"
        case _:
            assert_never(tree)


def _operand(tree: Filter) -> str:
    text = to_text(tree)
    return f"({text})" if isinstance(tree, And | Or) else text


def _has(field: Field) -> str:
    match field:
        case Attribute(key):
            return f"attributes:{_name(key)}"
        case Payload(path):
            return f"payload:{_path(path).removeprefix('.')}"
        case Envelope():
            return f'{field.value} = "*"'
        case _:
            assert_never(field)


def _field(field: Field) -> str:
    match field:
        case Attribute(key):
            return f"attributes.{_name(key)}"
        case Payload(path):
            return f"payload{_path(path)}"
        case Envelope():
            return field.value
        case _:
            assert_never(field)


def _path(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in path)


def _name(name: str) -> str:
    return name if NAME.fullmatch(name) else _quote(name, _ESCAPES)


def _value(field: Field, op: Op, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value, _STARRED if op in (Op.EQ, Op.NE) else _ESCAPES)
    if field is Envelope.PUBLISH_TIME and isinstance(value, int):
        return f'"{time_text(value)}"'
    return repr(value)


def _quote(text: str, escapes: dict[str, str]) -> str:
    return f'"{_escape(text, escapes)}"'


def _escape(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char) or _character(char) for char in text)


def _character(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
