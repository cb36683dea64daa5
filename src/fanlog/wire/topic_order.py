"""The order of a topic: its messages get the ordering key that stands for it.

A topic is ordered by the keys that senders give, unless it says otherwise. Ordered by publisher,
the name of the publisher is the key; ordered in total, all messages have one key. The key is
written into the message, so that everything that orders by keys does so without knowing of this:
shares, the lake, and the official clients, which keep order in their callbacks by the key alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, assert_never

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.log.batch import Body
from fanlog.model import names
from fanlog.model.attributes import LABEL_ORDERING, PRIORITY, PUBLISHER, TOTAL_KEY
from fanlog.model.resources import TopicOrdering
from fanlog.model.terms import TermKind
from fanlog.wire import parts, types
from fanlog.wire.encode import TAG_MESSAGES, TAG_ORDERING_KEY, field
from fanlog.wire.publish import build_body, key_hash

assert limits.ATTRIBUTE_VALUE_BYTES_MAX <= limits.ORDERING_KEY_BYTES_MAX


def keyed(body: Body, ordering: TopicOrdering) -> Body:
    """The messages of a publish to a topic with this order, as they are stored.

    Raises:
        InvalidArgument: A message has another ordering key than its place in the order gives it,
            no publisher where it needs one, or a priority, by which it would overtake others.
    """
    if ordering in ("publisher", "total"):
        _refuse_priorities(body, ordering)
    match ordering:
        case "key":
            return body
        case "none":
            _refuse_keys(body)
            return body
        case "total" if body.key_hashes is None:
            return _appended(body, TOTAL_KEY)
        case "total" | "publisher":
            return _rewritten(body, ordering)
        case _:
            assert_never(ordering)


def _refuse_keys(body: Body) -> None:
    for index, number in enumerate(body.key_hashes or ()):
        if number:
            raise InvalidArgument(
                f"messages[{index}].ordering_key: the topic has no order (its label "
                f"{LABEL_ORDERING} is 'none'); leave it out"
            )


def _refuse_priorities(body: Body, ordering: TopicOrdering) -> None:
    """As a publish with an ordering key does; here nobody gave one."""
    priorities = None if body.terms is None else body.terms.column(TermKind.PRIORITY)
    for index in priorities.indexes if priorities is not None else ():
        raise InvalidArgument(
            f"messages[{index}].attributes: {PRIORITY} with a topic that is ordered by "
            f"{ordering!r} (its label {LABEL_ORDERING}): none of its messages overtakes another; "
            "leave it out"
        )


def _appended(body: Body, key: str) -> Body:
    """Messages without a key, all with the same: it is the last field of a message."""
    tail = field(TAG_ORDERING_KEY, key.encode())
    content, starts = body.content, [0]
    made: list[bytes] = []
    for index in range(body.count):
        _, begin = parts.varint(content, body.starts[index] + 1)
        made.append(field(TAG_MESSAGES, content[begin : body.starts[index + 1]] + tail))
        starts.append(starts[-1] + len(made[-1]))
    hashes = [key_hash(key)] * body.count
    return replace(body, content=b"".join(made), starts=starts, key_hashes=hashes)


def _rewritten(body: Body, ordering: TopicOrdering) -> Body:
    messages = types.PublishRequest.FromString(body.content).messages
    made = build_body(_with_keys(messages, ordering))
    return replace(body, content=made.content, starts=made.starts, key_hashes=made.key_hashes)


def _with_keys(messages: Any, ordering: TopicOrdering) -> Iterator[tuple[bytes, Any, str]]:
    for index, message in enumerate(messages):
        key = TOTAL_KEY if ordering == "total" else _publisher(index, message)
        # One that was received and is published again has the key already.
        if message.ordering_key not in ("", key):
            raise InvalidArgument(
                f"messages[{index}].ordering_key: {names.shown(message.ordering_key)}, but the "
                f"topic orders its messages itself (its label {LABEL_ORDERING} is {ordering!r}); "
                "leave it out"
            )
        yield message.data, dict(message.attributes), key


def _publisher(index: int, message: Any) -> str:
    publisher: str = message.attributes.get(PUBLISHER, "")
    if not publisher:
        raise InvalidArgument(
            f"messages[{index}].attributes: the topic is ordered by publisher (its label "
            f"{LABEL_ORDERING}), and the message has no {PUBLISHER}"
        )
    return publisher
