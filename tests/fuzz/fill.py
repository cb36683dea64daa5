"""Requests made field by field: names that exist, numbers at the edges, masks that say something.

Bytes that are mutated seldom get as far as the rules behind a request; these nearly always do.
"""

from __future__ import annotations

from typing import Any

from fanlog.wire import fields, resources
from fuzz.draw import Draw
from fuzz.world import LETTERS, PATTERN, SNAPSHOT, SUBSCRIPTIONS, TOPIC, placeholder

NEW = "projects/test/{}/new"
TOPICS = (TOPIC, LETTERS, NEW.format("topics"), "_deleted-topic_", "")
SOURCES = (*TOPICS, PATTERN, "projects/test/topics/*", "projects/test/topics/ord*.#", "a.**")
FILTERS = (
    "",
    'attributes.a = "b"',
    "NOT attributes:a",
    "payload.v >= 5 OR payload:w",
    'topic = "o*" AND ordering_key != "k"',
    '{"any": [{"a": "b"}, {"payload.v": {"exists": true}}]}',
    'attributes.a = "nobody"',
    " ",
    "a = 1 AND b = 2 OR c = 3",
)
SUBSCRIPTION_NAMES = (*SUBSCRIPTIONS.values(), NEW.format("subscriptions"), "")
SNAPSHOTS = (SNAPSHOT, NEW.format("snapshots"), "")
NUMBERS = (0, 1, 2, 5, 10, 11, 60, 100, 600, 601, 1_000, 86_400, 2_678_400, 10**12, 2**31 - 1, -1)
LABELS = (
    ("a", "b"),
    ("fanlog-start", "earliest"),
    ("fanlog-start", "1970-01-12T13:46:40Z"),
    ("fanlog-ordering", "strict"),
    ("fanlog-dead-letter", "auto"),
    ("fanlog-other", ""),
    ("A", "b"),
)
#: By the resource that is updated.
PATHS: dict[str, tuple[str, ...]] = {
    "UpdateTopicRequest": (*sorted(resources._TOPIC_UPDATABLE), "name"),
    "UpdateSubscriptionRequest": (*sorted(resources._SUBSCRIPTION_UPDATABLE), "topic"),
    "UpdateSnapshotRequest": (*sorted(resources._SNAPSHOT_UPDATABLE), "nothing"),
}
#: By the message that has the name.
NAMES: dict[str, tuple[str, ...]] = {
    "Topic": TOPICS,
    "Subscription": SUBSCRIPTION_NAMES,
    "Snapshot": SNAPSHOTS,
    "CreateSnapshotRequest": SNAPSHOTS,
}
TEXTS: dict[str, tuple[str, ...]] = {
    "topic": SOURCES,
    "filter": FILTERS,
    "dead_letter_topic": TOPICS,
    "subscription": SUBSCRIPTION_NAMES,
    "snapshot": SNAPSHOTS,
    "name": (),
    "project": ("projects/test", "projects/other", "test"),
    "page_token": ("", "x"),
    "paths": (),
    "ordering_key": ("", "k", "other"),
}

#: Whatever they hold; `requests` tries them.
REFUSED = {*fields._LATER, *fields._MEANINGLESS}


def filled(draw: Draw, message: Any, root: Any = None) -> Any:
    """Set some of the fields of a message, as the bytes say; `root` is the request it is in."""
    root = message if root is None else root
    known = message.DESCRIPTOR.fields
    chosen = draw.number(2 if len(known) <= 16 else 4)
    # Names first and always: without them nearly everything is refused at once.
    for place, field in enumerate(known):
        if field.name in TEXTS or (chosen >> place & 1 and field.name not in REFUSED):
            _set(draw, message, field, root)
    return message


def _set(draw: Draw, message: Any, field: Any, root: Any) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for _ in range(draw.below(3)):
            key, value = draw.pick(LABELS)
            getattr(message, field.name)[key] = value
    elif field.is_repeated and field.message_type is not None:
        for _ in range(draw.below(4)):
            filled(draw, getattr(message, field.name).add(), root)
    elif field.is_repeated:
        values = getattr(message, field.name)
        values.extend(_value(draw, message, field, root) for _ in range(draw.below(4)))
    elif field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        filled(draw, part, root)
    else:
        setattr(message, field.name, _value(draw, message, field, root))


def _value(draw: Draw, message: Any, field: Any, root: Any) -> Any:
    match field.cpp_type:
        case field.CPPTYPE_STRING if field.name.endswith("ack_ids"):
            name = root.subscription.rpartition("/")[2] or "plain"
            return f"{placeholder(name).decode()}{draw.below(8):012x}"
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return draw.pick((b"", b"data", b"7", b'{"v": 5}', b'{"v": null}'))
        case field.CPPTYPE_STRING if field.name == "name":
            return draw.pick(NAMES.get(message.DESCRIPTOR.name, ("x",)))
        case field.CPPTYPE_STRING if field.name == "paths":
            return draw.pick(PATHS[root.DESCRIPTOR.name])
        case field.CPPTYPE_STRING:
            return draw.pick(TEXTS.get(field.name, ("", "x")))
        case field.CPPTYPE_BOOL:
            return draw.flag()
        case field.CPPTYPE_INT64:
            # Most are seconds, some of them since the epoch, where the clock stands at 1,000,000.
            return draw.pick((*NUMBERS, 999_999, 1_000_001, 1_100_000))
        case field.CPPTYPE_INT32:
            return min(draw.pick(NUMBERS), 2**31 - 1)
        case field.CPPTYPE_ENUM:
            return draw.below(4)
        case _:
            return 0
