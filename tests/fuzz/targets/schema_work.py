"""Schemas that are built to ask for much: chains, lattices, defaults in defaults, unions, patterns.

Bytes that are mutated seldom make a definition of forty levels. So each byte here is a level, made
of those before it, used once or twice. Whatever is done with such a definition and a message takes
a number of calls that grows with their length; the library for JSON Schemas is asked only what the
broker would ask it while everybody waits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from fanlog.errors import FanlogError
from fanlog.model.resources import Encoding
from fanlog.schema import Compiled, Impossible, Mismatch, breaking_changes, compile_schema
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw

T = TypeVar("T")

LEVELS_MAX = 48
#: Python calls that anything may take: some, and so many for each byte.
CALLS, CALLS_PER_BYTE = 400_000, 60
#: Comparing and transforming have budgets that do not grow.
CALLS_ONCE = 6_000_000


class Stalled(BaseException):
    """Something took more calls than it may. Not an Exception: nobody's `except` may swallow it."""


def schema_work(data: bytes) -> None:
    """A built definition and a message of any bytes take no more work than their length allows."""
    draw = Draw(data)
    build = draw.pick((_avro, _json, _protobuf))
    new, old = build(draw), build(draw)
    encoding: Encoding = draw.pick(("JSON", "BINARY"))
    message = draw.rest()
    kind = {_avro: "AVRO", _json: "JSON", _protobuf: "PROTOCOL_BUFFER"}[build]
    both = [_compiled(kind, definition) for definition in (new, old)]
    for one in both:
        if one is not None:
            _checked(one, message, encoding)
    reader, writer = both
    if reader is None or writer is None:
        return
    if kind != "JSON":
        _counted(CALLS_ONCE, lambda: breaking_changes("FULL", reader, [("0", writer)]))
    if _checked(writer, message, encoding):
        _counted(
            CALLS_ONCE,
            lambda: reader.transform_from(writer, encoding, is_patient=False)(message),
        )


def _compiled(kind: Any, definition: str) -> Compiled | None:
    return _counted(
        CALLS + CALLS_PER_BYTE * len(definition), lambda: compile_schema(kind, definition)
    )


def _checked(schema: Compiled, message: bytes, encoding: Encoding) -> bool:
    def check() -> bool:
        schema.check_encoding(encoding)
        if schema.is_long(message):
            return False
        schema.validate(message, encoding)
        return True

    return bool(_counted(CALLS + CALLS_PER_BYTE * len(message), check))


def _counted(most: int, work: Callable[[], T]) -> T | None:
    """Do work in so many calls; None if it is refused."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"
        if count > most:
            raise Stalled(f"more than {most} calls")

    sys.setprofile(seen)
    try:
        return work()
    except FanlogError as error:
        sys.setprofile(None)
        refusal(error)
    except (Mismatch, Impossible):
        pass
    finally:
        sys.setprofile(None)
    return None


def _avro(draw: Draw) -> str:
    """Records that use those before them."""
    least = {"name": "a", "type": "null", "default": None}
    made: Any = {"type": "record", "name": "R0", "fields": [least]}
    for level in range(1, 1 + draw.below(LEVELS_MAX)):
        shape, before = draw.number(), f"R{level - 1}"
        last = [made, before]
        if shape & 1:
            last = [{"type": "array", "items": one} for one in last]
        if shape & 2:
            last = [["null", one] for one in last]
        fields = [{"name": name, "type": one} for name, one in zip("ab", last, strict=True)]
        for field in fields[: shape >> 2 & 3]:
            field["default"] = None if shape & 2 else [] if shape & 1 else {}
        if shape & 16:
            fields.append({"name": "c", "type": "string", "default": "x" * (shape & 0xE0)})
        made = {"type": "record", "name": f"R{level}", "fields": fields}
    made["name"] = "Top"
    return json.dumps({"type": "array", "items": made} if draw.flag() else made)


def _json(draw: Draw) -> str:
    """Subschemas that refer to those after them, on the spot and further in."""
    count = draw.below(LEVELS_MAX)
    defs: dict[str, Any] = {f"d{count}": {"type": "integer"}}
    for level in range(count):
        shape = draw.number()
        target = level + 1 if shape & 8 else draw.below(count + 1)
        next_one: Any = {"$ref": f"#/$defs/d{target}"}
        if shape & 1:
            next_one = {"items": next_one, "properties": {"a": next_one}}
        key = ("allOf", "anyOf", "oneOf")[shape // 16 % 3]
        defs[f"d{level}"] = {key: [next_one] * (1 + (shape >> 1 & 1))}
        if shape & 4:
            defs[f"d{level}"]["pattern"] = f"^(a|b){{{shape}}}$"
    properties = {"p": {"default": "x" * draw.number()}} if draw.flag() else {}
    return json.dumps({"$defs": defs, "$ref": "#/$defs/d0", "properties": properties})


def _protobuf(draw: Draw) -> str:
    """Messages that have those before them as fields."""
    text = "message M0 { optional int32 a = 1; }"
    count = draw.below(LEVELS_MAX)
    for level in range(1, count + 1):
        label = draw.pick(("optional", "repeated", "required"))
        fields = "".join(f" {label} M{level - 1} {name} = {n};" for n, name in ((1, "a"), (2, "b")))
        text += f" message M{level} {{{fields} }}"
    return f"message Top {{ {text} optional M{count} m = 1; }}"


TARGETS = (
    Target(name="schema_work", run=schema_work, seconds_max=20.0, memory_max=16 * 1024 * 1024),
)
