"""Protobuf bytes written by hand, where building a protobuf object first would cost too much."""

from __future__ import annotations

from collections.abc import Mapping

#: PubsubMessage's fields, each with its wire type (length-delimited).
TAG_DATA = b"\x0a"
TAG_ATTRIBUTES = b"\x12"
TAG_MESSAGE_ID = b"\x1a"
TAG_PUBLISH_TIME = b"\x22"
TAG_ORDERING_KEY = b"\x2a"
#: PublishRequest's repeated `messages`.
TAG_MESSAGES = b"\x12"

_ONE_BYTE = tuple(bytes((value,)) for value in range(0x100))


def varint(value: int) -> bytes:
    """Encode a non-negative number in the fewest bytes."""
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:
        return _ONE_BYTE[value & 0x7F | 0x80] + _ONE_BYTE[value >> 7]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_size(value: int) -> int:
    """Give the length of `varint(value)`."""
    return 1 if value < 0x80 else (value.bit_length() + 6) // 7


def field(tag: bytes, value: bytes) -> bytes:
    """Encode one length-delimited field."""
    return tag + varint(len(value)) + value


def attributes_fields(attributes: Mapping[str, str]) -> bytes:
    """Encode PubsubMessage's map `attributes`, both halves of each entry written out."""
    entries: list[bytes] = []
    for name, text in attributes.items():
        key, value = name.encode(), text.encode()
        size = len(key) + len(value) + 4
        if size < 0x80:
            # All three lengths are one byte each.
            entry = b"\x12%c\x0a%c%b\x12%c%b" % (size, len(key), key, len(value), value)
        else:
            entry = field(TAG_ATTRIBUTES, field(b"\x0a", key) + field(b"\x12", value))
        entries.append(entry)
    return b"".join(entries)


def message_field(data: bytes, attributes: Mapping[str, str], ordering_key: str) -> bytes:
    """Encode one `messages` field of a PublishRequest: a canonical PubsubMessage in its frame."""
    message = field(TAG_DATA, data) if data else b""
    if attributes:
        message += attributes_fields(attributes)
    if ordering_key:
        message += field(TAG_ORDERING_KEY, ordering_key.encode())
    return field(TAG_MESSAGES, message)
