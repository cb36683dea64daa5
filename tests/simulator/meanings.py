"""The filters and the topic patterns of a world, each beside what it means, said another way.

A checker must not ask the code it checks. So nothing is parsed here: every filter is written twice,
once as a subscription has it and once as Python, and every pattern once more as an expression.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import zlib
from collections.abc import Callable
from typing import Any

from fanlog.model.names import topic_name
from simulator.chronicle import Message

PROJECT = "sim"
LETTERS = ("letters-0", "letters-1")
#: Of one, of two and of three segments.
TOPICS = ("topic-0", "topic.1", "topic.eu.2", "topic-3")

PATTERNS: dict[str, str] = {
    "#": ".*",
    "topic-*": r"topic-[^.]*",
    "*-*": r"[^.]*-[^.]*",
    "topic.#": r"topic(\..*)?",
    "topic.*": r"topic\.[^.]*",
    "topic.*.#": r"topic\.[^.]*(\..*)?",
    "*.eu.*": r"[^.]*\.eu\.[^.]*",
}

COLORS = ("red", "green", "blue", "")
VALUES = 10


def some_message(rng: random.Random, number: int, keys: int) -> tuple[bytes, dict[str, str], str]:
    """Data, attributes and ordering key; no two messages have the same data."""
    attributes: dict[str, str] = {}
    color = rng.choice(COLORS)
    if color:
        attributes["color"] = color
    if rng.random() < 0.5:
        attributes["size"] = str(rng.randrange(VALUES))
    padding = rng.choice((0, 0, 10, 200))
    if rng.random() < 0.9:
        data = b'{"n":%d,"v":%d}' % (number, rng.randrange(VALUES)) + b" " * padding
    else:
        data = b"%d: no JSON" % number + b"." * padding
    key = f"key-{rng.randrange(keys)}" if keys and rng.random() < 0.8 else ""
    return data, attributes, key


def _color(message: Message) -> str | None:
    return message.attributes.get("color")


def _size(message: Message) -> int:
    return int(message.attributes.get("size", "-1"))


def _value(message: Message) -> Any:
    """What the payload has at `v`; -1 if it has nothing there."""
    return json.loads(message.data)["v"] if message.data.startswith(b"{") else -1


Wants = Callable[[Message], bool]

FILTERS: dict[str, Wants] = {
    'attributes.color = "red"': lambda m: _color(m) == "red",
    'NOT attributes.color = "red"': lambda m: _color(m) != "red",
    "attributes:size": lambda m: _size(m) >= 0,
    "NOT attributes:size": lambda m: _size(m) < 0,
    'hasPrefix(attributes.color, "re")': lambda m: _color(m) == "red",
    "color = *e*": lambda m: _color(m) is not None,
    'color != "b*"': lambda m: _color(m) != "blue",
    "size < 5": lambda m: 0 <= _size(m) < 5,
    "payload.v >= 5": lambda m: _value(m) >= 5,
    "NOT payload.v >= 5": lambda m: _value(m) < 5,
    "payload.v IN (1, 3, 5, 7, 9)": lambda m: _value(m) % 2 == 1 and _value(m) > 0,
    'payload:v AND (attributes:color OR ordering_key = "key-0")': (
        lambda m: _value(m) >= 0 and (_color(m) is not None or m.key == "key-0")
    ),
    'ordering_key != "key-1"': lambda m: m.key != "key-1",
    '{"any": [{"color": "green"}, {"payload.v": {"<": 3}}]}': (
        lambda m: _color(m) == "green" or 0 <= _value(m) < 3
    ),
    'topic = "topic.*" OR attributes:size': lambda m: m.topic.startswith("topic.") or _size(m) >= 0,
    # Nothing of it, and all of it.
    'attributes.color = "nobody"': lambda m: False,
    'NOT attributes.color = "nobody"': lambda m: True,
}

NOTHING = 'attributes.color = "nobody"'


def some_filter(rng: random.Random) -> str:
    return rng.choice(list(FILTERS))


def is_wanted(text: str, message: Message) -> bool:
    """Whether a filter, or none, wants a message."""
    return not text or FILTERS[text](message)


def some_pattern(rng: random.Random) -> str:
    return topic_name(PROJECT, rng.choice(list(PATTERNS)))


def is_pattern(topic: str) -> bool:
    return topic.rpartition("/")[2] in PATTERNS


def is_matched(pattern: str, topic: str) -> bool:
    """Whether a pattern matches a topic; full names of one project."""
    expression = PATTERNS[pattern.rpartition("/")[2]]
    return re.fullmatch(expression, topic.rpartition("/")[2]) is not None


def _is_json(data: bytes) -> bool:
    return data.startswith(b"{")


def _v(data: bytes) -> int:
    return int(json.loads(data)["v"])


#: Definitions of schemas, and which data conforms to each. All messages have numbers `n` and `v`,
#: or are no JSON at all.
JSON_DEFINITIONS: dict[str, Callable[[bytes], bool]] = {
    '{"type": "object", "required": ["n", "v"]}': _is_json,
    '{"type": "object", "properties": {"v": {"maximum": 6}}}': (
        lambda data: _is_json(data) and _v(data) <= 6
    ),
    '{"type": "object", "properties": {"v": {"minimum": 3}}}': (
        lambda data: _is_json(data) and _v(data) >= 3
    ),
}
_AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "%s"}, %s]}'
AVRO_DEFINITIONS: dict[str, Callable[[bytes], bool]] = {
    _AVRO % ("long", '{"name": "v", "type": "int"}'): _is_json,
    _AVRO % ("int", '{"name": "v", "type": "long"}'): _is_json,
    _AVRO % ("string", '{"name": "v", "type": "int"}'): lambda data: False,
}
DEFINITIONS = JSON_DEFINITIONS | AVRO_DEFINITIONS


def slot_of(partition: int, offset: int, key: str, slots: int) -> int:
    """The key slot of a message."""
    if key:
        digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
        return int.from_bytes(digest[4:], "little") % slots
    return zlib.crc32(b"%d%012d" % (partition, offset)) % slots
