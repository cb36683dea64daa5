"""What a filter means, as slowly and plainly as it can be said. Every back end is held to this.

It reads the docstring of `fanlog.routing.filter_ast` word for word, shares no code with the back
ends, and reads JSON with the standard library, told to refuse what is not JSON.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

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
    Prefix,
    Value,
)

MISSING = None


def evaluate(tree: Filter, candidate: Candidate) -> bool:
    if isinstance(tree, And):
        return all(evaluate(child, candidate) for child in tree.children)
    if isinstance(tree, Or):
        return any(evaluate(child, candidate) for child in tree.children)
    if isinstance(tree, Not):
        return not evaluate(tree.child, candidate)
    if isinstance(tree, Compare) and tree.op is Op.NE:
        return not evaluate(Compare(tree.field, Op.EQ, tree.value), candidate)
    found = field_value(tree.field, candidate)
    if found is MISSING:
        return False
    if isinstance(tree, Has):
        return True
    if isinstance(tree, Prefix):
        return isinstance(found, str) and found[: len(tree.prefix)] == tree.prefix
    if isinstance(tree, Glob):
        pattern = ".*".join(re.escape(part) for part in tree.parts)
        return isinstance(found, str) and re.fullmatch(pattern, found, re.DOTALL) is not None
    if isinstance(tree, In):
        return any(is_equal(found, value) for value in tree.values)
    if tree.op is Op.EQ:
        return is_equal(found, tree.value)
    return is_in_order(tree.field, found, tree.op, tree.value)


def field_value(field: Field, candidate: Candidate) -> Any:
    if isinstance(field, Attribute):
        return candidate.attributes.get(field.key, MISSING)
    if field is Envelope.ORDERING_KEY:
        return candidate.ordering_key if candidate.ordering_key != "" else MISSING
    if field is Envelope.TOPIC:
        return candidate.topic
    if field is Envelope.MESSAGE_ID:
        return candidate.message_id
    if field is Envelope.PUBLISH_TIME:
        return candidate.publish_time_us
    assert not isinstance(field, Envelope)
    found = as_json(candidate.data)
    for step in field.path:
        if isinstance(step, str) and isinstance(found, dict):
            found = found.get(step, MISSING)
        elif isinstance(step, int) and isinstance(found, list) and 0 <= step < len(found):
            found = found[step]
        else:
            return MISSING
    return found


def is_equal(found: Any, value: Value) -> bool:
    """Nothing is converted: only values of one type are equal, and numbers are all one type."""
    if is_number(found) and is_number(value):
        return float(found) == float(value)
    return type(found) is type(value) and found == value


def is_in_order(field: Field, found: Any, op: Op, value: Value) -> bool:
    if is_number(value) and isinstance(found, str) and isinstance(field, Attribute | Envelope):
        found = as_number(found)
    if is_number(found) and is_number(value):
        left, right = float(found), float(value)
        return {
            Op.LT: left < right,
            Op.LE: left <= right,
            Op.GT: left > right,
            Op.GE: left >= right,
        }[op]
    if isinstance(found, str) and isinstance(value, str):
        mine, other = [ord(c) for c in found], [ord(c) for c in value]
        return {
            Op.LT: mine < other,
            Op.LE: mine <= other,
            Op.GT: mine > other,
            Op.GE: mine >= other,
        }[op]
    return False


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(text: str) -> float | None:
    """A string read as a number as JSON writes it (RFC 8259, section 6); beyond doubles is none."""
    if re.fullmatch(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?", text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def as_json(data: bytes) -> Any:
    """JSON as RFC 8259 has it, in UTF-8; a number beyond doubles makes the whole no JSON."""
    try:
        found = json.loads(
            data.decode("utf-8"),
            parse_constant=_refuse,
            parse_int=_finite,
            parse_float=_finite,
        )
        # A lone surrogate is no text.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return MISSING
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
