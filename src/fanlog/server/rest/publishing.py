"""Messages of a publish in JSON, straight to the bytes of a PublishRequest.

Only bodies with all fields in their plain form go this way. For any other (another field, another
type) the answer is None, and `json_in` reads the body by all the rules, with their refusals.
"""

from __future__ import annotations

from binascii import a2b_base64

from fanlog import limits
from fanlog.wire.encode import field, message_field

_TAG_TOPIC = b"\x0a"
_FIELDS = frozenset({"data", "attributes", "orderingKey", "ordering_key"})


def publish_request(topic: str, body: object) -> bytes | None:
    """The PublishRequest that `{"messages": […]}` asks for, or None."""
    if not isinstance(body, dict) or body.keys() != {"messages"}:
        return None
    messages = body["messages"]
    if not isinstance(messages, list):
        return None
    if len(messages) > limits.PUBLISH_MESSAGES_MAX:
        return None
    try:
        fields = [_message(one) for one in messages]
    except (_NotPlain, ValueError, TypeError):
        return None
    return field(_TAG_TOPIC, topic.encode()) + b"".join(fields)


class _NotPlain(Exception):
    pass


def _message(one: object) -> bytes:
    if not isinstance(one, dict) or not one.keys() <= _FIELDS:
        raise _NotPlain
    data = a2b_base64(one.get("data", ""), strict_mode=True)
    key = one.get("orderingKey", "")
    if "ordering_key" in one:
        if "orderingKey" in one:
            raise _NotPlain
        key = one["ordering_key"]
    attributes = one.get("attributes")
    if attributes is None:
        if not isinstance(key, str):
            raise _NotPlain
        return message_field(data, {}, key)
    if not isinstance(key, str) or not isinstance(attributes, dict):
        raise _NotPlain
    if len(attributes) > limits.ATTRIBUTES_MAX:
        raise _NotPlain
    for value in attributes.values():
        if not isinstance(value, str):
            raise _NotPlain
    return message_field(data, attributes, key)
