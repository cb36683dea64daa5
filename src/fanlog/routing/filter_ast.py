"""A filter as a tree: the parser makes it, and every back end reads it.

The meaning, which all back ends share, has two truth values. A field that a message does not have
makes every test of it false; so `k != "v"`, which is `NOT k = "v"`, holds where `k` is missing.

| Field          | Value                                        | Missing when                    |
|----------------|----------------------------------------------|---------------------------------|
| `Attribute`    | a string                                     | no such key                     |
| `Payload`      | the JSON value at the path                   | not JSON, no such path, or null |
| `ordering_key` | a string                                     | empty                           |
| `topic`        | the topic's id, without `projects/…/topics/` | never                           |
| `message_id`   | a string                                     | never                           |
| `publish_time` | microseconds since 1970, finer is cut off    | never                           |

Nothing is converted between types, with one exception: an attribute (or another string outside the
payload) that is put in order with a number is read as one, and the test is false where it is not a
number as JSON writes it. In the payload numbers compare with numbers, strings with strings,
booleans for equality only. Numbers compare as doubles, strings by their code points.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Envelope(Enum):
    """The fields that every message has besides data and attributes."""

    ORDERING_KEY = "ordering_key"
    PUBLISH_TIME = "publish_time"
    TOPIC = "topic"
    MESSAGE_ID = "message_id"


@dataclass(frozen=True, slots=True)
class Attribute:
    key: str


@dataclass(frozen=True, slots=True)
class Payload:
    """A path into JSON data: names of objects and indexes of arrays; never empty."""

    path: tuple[str | int, ...]


Field = Attribute | Payload | Envelope
#: A number is never a bool here, and never NaN or infinite.
Value = str | int | float | bool


class Op(Enum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Has:
    """The field is there."""

    field: Field


@dataclass(frozen=True, slots=True)
class Compare:
    """A field beside a value. EQ and NE of a string field have a string."""

    field: Field
    op: Op
    value: Value


@dataclass(frozen=True, slots=True)
class Prefix:
    """A string that begins with `prefix`."""

    field: Field
    prefix: str


@dataclass(frozen=True, slots=True)
class Glob:
    """A string made of `parts` in order with anything, or nothing, between them.

    `us-*` is `("us-", "")`: there are at least two parts.
    """

    field: Field
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class In:
    """The field equals one of `values`, which are distinct and at least one."""

    field: Field
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All of at least two."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of at least two."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: Filter


Predicate = Has | Compare | Prefix | Glob | In
Filter = Predicate | And | Or | Not
