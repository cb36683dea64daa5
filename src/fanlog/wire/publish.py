"""Publish: the request's bytes checked and made a `Body`; the ids of the answer.

**The body is the publisher's own bytes.** A request is validated where it lies; only one that is
not *canonical* is written again. Canonical means that the topic comes first and that the bytes are
those of the fields we keep (`data`, `attributes`, `ordering_key`) and no others: no unknown field,
nothing singular twice, no number longer than it must be, no explicit default, and no `message_id`
or `publish_time`, which are not the sender's to say (`fanlog.wire.output_only`). All of those make
a request longer, never shorter, than the one the same values encode to; so a request is canonical
exactly when its length is that of the encoding, which the validation adds up on its way. (The one
thing a sender may lawfully leave out is an attribute's empty value; a request that has one is
written again, so that nothing hides in the two bytes saved.)

Two roads lead to a body. Most requests carry nothing but data; these are recognised by their
headers alone, without a protobuf object, all messages at once when they are of one size. Everything
else goes through protobuf, which also refuses malformed bytes and texts that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge
from fanlog.log.batch import Body
from fanlog.model import names, sequences
from fanlog.model import term_attributes as terms
from fanlog.model.attributes import (
    CLIENT_PREFIX,
    DEDUP_ID,
    PREFIX,
    PUBLISHED,
    RESERVED_PREFIX,
    meant,
)
from fanlog.model.ids import OFFSET_DIGITS
from fanlog.model.sequences import Numbered
from fanlog.model.terms import Terms
from fanlog.wire import parts, types
from fanlog.wire.encode import message_field, varint, varint_size

_PREFIX_BYTES = PREFIX.encode()
#: Attributes that begin so are looked at by name.
_JUDGED = (RESERVED_PREFIX, PREFIX)

#: Fields that one message may have.
_FIELDS_MAX = limits.ATTRIBUTES_MAX + limits.MESSAGE_OTHER_FIELDS_MAX
#: A smaller message in a large request is not looked into before it is parsed.
_INNER_BYTES = 1_024

_MESSAGES_NUMBER = types.PublishRequest.DESCRIPTOR.fields_by_name["messages"].number
_ATTRIBUTES_NUMBER = types.PubsubMessage.DESCRIPTOR.fields_by_name["attributes"].number


class Publish(NamedTuple):
    """A valid publish request."""

    topic: str
    body: Body
    #: Dedup id of each message, empty for none; None when no message has one.
    dedup_ids: Sequence[str] | None = None
    #: What each message says of its number; None when no message has one.
    numbers: Sequence[Numbered | None] | None = None


def parse_publish(raw: bytes, message_bytes_max: int = limits.MESSAGE_BYTES_MAX) -> Publish:
    """Validate a serialised PublishRequest, all or nothing.

    The limit on the request counts its serialised bytes as they came: topic name, every message
    and the framing between them. That on a message counts those of the message alone.

    Raises:
        InvalidArgument: Malformed, or a limit is passed; the sentence names the message by its
            index in the request, the value and the limit.
    """
    publish = _parsed(raw)
    if len(publish.body.content) > message_bytes_max:
        _check_sizes(publish.body.starts, message_bytes_max)
    return publish


def _parsed(raw: bytes) -> Publish:
    if len(raw) > limits.PUBLISH_BYTES_MAX:
        raise TooLarge(
            f"the publish request has {len(raw)} bytes; "
            f"at most {limits.PUBLISH_BYTES_MAX} are allowed"
        )
    found = _data_only(raw)
    if found is not None:
        return found
    return _parse_any(raw)


def _check_sizes(starts: Sequence[int], message_bytes_max: int) -> None:
    """Check that no message is larger than one may be; raises TooLarge."""
    for index, (start, end) in enumerate(pairwise(starts)):
        # Without the field's tag, and without its length, which is of as many bytes as it needs.
        framed = end - start - 1
        size = framed - varint_size(framed - varint_size(framed))
        if size > message_bytes_max:
            raise TooLarge(
                f"messages[{index}]: the message has {size} bytes; at most {message_bytes_max} are "
                "allowed (message_bytes_max)"
            )


def build_body(messages: Iterable[tuple[bytes, Mapping[str, str], str]]) -> Body:
    """Build a body from (data, attributes, ordering key) each; for forwards and jobs.

    No limit is applied: a forwarded message was accepted once, and has grown by our own attributes.
    """
    fields: list[bytes] = []
    keys: list[str] = []
    asking: list[tuple[Mapping[str, str], str]] = []
    for data, attributes, ordering_key in messages:
        fields.append(message_field(data, attributes, ordering_key))
        keys.append(ordering_key)
        asking.append((attributes, ordering_key))
    content = b"".join(fields)
    return Body(
        content=content,
        starts=_starts(map(len, fields)),
        key_hashes=_key_hashes(keys) if any(keys) else None,
        terms=terms.stored_terms_of(asking) if terms.names_in(content) else None,
    )


def key_hash(ordering_key: str) -> int:
    """Hash an ordering key to 64 bits, never 0; 0 stands for no key at all."""
    if not ordering_key:
        return 0
    digest = blake2b(ordering_key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


# --- The short road: data and nothing else ------------------------------------------------------

# Header bytes of a message that is one `data` field and nothing else, to the size of the whole
# `messages` field. The four bytes of a short one (12 size 0a size-2) are all listed; the six of
# a middling one are learnt as they are met, one entry a size, so that the table is bounded.
_SHORT: dict[bytes, int] = {
    bytes((0x12, size, 0x0A, size - 2)): size + 2 for size in range(3, 0x80)
}
_MIDDLING: dict[bytes, int] = {}


def _data_only(raw: bytes) -> Publish | None:
    """Recognise a canonical request of data alone; None leaves it to protobuf to judge."""
    try:
        if raw[0] != 0x0A:
            return None
        size, begin = _read_varint(raw, 1)
        messages_begin = begin + size
        topic = raw[begin:messages_begin].decode()
        header = _data_header(raw, messages_begin)
    except (IndexError, UnicodeDecodeError):
        return None
    if header is None or not size:
        return None
    content = raw[messages_begin:]
    starts = _same_size(content, header) or _varying_size(content)
    if starts is None:
        return None
    names.parse_topic(topic)
    return Publish(topic, Body(content=content, starts=starts))


def _read_varint(raw: bytes, position: int) -> tuple[int, int]:
    """Read a number written in the fewest bytes; a longer one comes back as IndexError."""
    value = raw[position]
    if value < 0x80:
        return value, position + 1
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise IndexError
    if byte == 0 and shift:
        raise IndexError
    return value, position


def _data_header(raw: bytes, position: int) -> tuple[bytes, int] | None:
    """Give the header of the data-only message at `position` and the size of its whole field."""
    if raw[position] != 0x12:
        return None
    size, begin = _read_varint(raw, position + 1)
    if raw[begin] != 0x0A:
        return None
    data_size, data_begin = _read_varint(raw, begin + 1)
    if not data_size or data_begin + data_size != begin + size:
        return None
    return raw[position:data_begin], data_begin + data_size - position


def _same_size(content: bytes, header: tuple[bytes, int]) -> Sequence[int] | None:
    """Recognise messages that are all of the first one's size.

    Every header byte is compared over the whole request at once, by a slice with the size as its
    step.
    """
    head, stride = header
    if len(content) == stride:
        return range(0, stride + 1, stride)
    count, rest = divmod(len(content), stride)
    if rest or not 0 < count <= limits.PUBLISH_MESSAGES_MAX:
        return None
    for index, byte in enumerate(head):
        if content[index::stride] != bytes((byte,)) * count:
            return None
    return range(0, len(content) + 1, stride)


def _varying_size(content: bytes) -> Sequence[int] | None:
    starts = [0]
    append = starts.append
    short, middling = _SHORT, _MIDDLING
    position, end = 0, len(content)
    try:
        while position < end:
            if content[position + 1] < 0x80:
                size = short.get(content[position : position + 4])
            else:
                size = middling.get(content[position : position + 6])
            if size is None:
                header = _data_header(content, position)
                if header is None:
                    return None
                head, size = header
                if len(head) == 6:
                    middling[head] = size
            position += size
            append(position)
            if len(starts) > limits.PUBLISH_MESSAGES_MAX + 1:
                return None
    except IndexError:
        return None
    return starts if position == end else None


# --- The long road: through protobuf ------------------------------------------------------------


def check_count(count: int, said: str = "") -> None:
    """Raises TooLarge or InvalidArgument: A publish request cannot have so many messages."""
    if not 1 <= count <= limits.PUBLISH_MESSAGES_MAX:
        refusal = TooLarge if count else InvalidArgument
        raise refusal(
            f"messages: the publish request has {said or count}; "
            f"1 to {limits.PUBLISH_MESSAGES_MAX} are allowed"
        )


def _count_parts(raw: bytes, smallest: int) -> None:
    """Count the messages of a request, and the fields of those that have so many bytes at least."""
    messages = others = 0
    for number, begin, end in parts.fields_of(raw):
        if number != _MESSAGES_NUMBER:
            others += 1
            if others > limits.MESSAGE_OTHER_FIELDS_MAX:
                raise InvalidArgument("the request has many fields that are not messages")
            continue
        messages += 1
        if messages > limits.PUBLISH_MESSAGES_MAX:
            check_count(messages, f"more than {limits.PUBLISH_MESSAGES_MAX}")
        if end - begin >= smallest:
            _count_fields(raw, begin, end, messages - 1)


def _count_fields(raw: bytes, begin: int, end: int, index: int) -> None:
    for count, _ in enumerate(parts.fields_of(raw, begin, end), start=1):
        if count > _FIELDS_MAX:
            raise InvalidArgument(
                f"messages[{index}]: more than {_FIELDS_MAX} fields; at most "
                f"{limits.ATTRIBUTES_MAX} attributes are allowed"
            )


def _parse_any(raw: bytes) -> Publish:
    if parts.is_counted(raw):
        _count_parts(raw, _INNER_BYTES)
    try:
        request = types.PublishRequest.FromString(raw)
    except DecodeError as error:
        raise InvalidArgument(
            "the request is not a valid PublishRequest: malformed protobuf, or a topic, attribute "
            "or ordering key that is not UTF-8"
        ) from error
    names.parse_topic(request.topic)
    check_count(len(request.messages))
    sizes, keys, is_plain = _check_messages(request.messages)
    dedup_ids = asked = numbers = None
    # Looked for in the bytes first: hardly a message says anything to the service.
    if _PREFIX_BYTES in raw:
        dedup_ids = _dedup_ids(raw, request.messages)
        asked = _terms(raw, request.messages)
        if sequences.names_in(raw):
            numbers = sequences.numbers_of(
                (message.data, message.attributes, message.ordering_key)
                for message in request.messages
            )
    starts = _starts(sizes)
    topic_size = len(request.topic.encode())
    begin = 1 + varint_size(topic_size) + topic_size
    if is_plain and raw[0] == 0x0A and len(raw) == begin + starts[-1]:
        hashes = _key_hashes(keys) if any(keys) else None
        body = Body(content=raw[begin:], starts=starts, key_hashes=hashes, terms=asked)
        return Publish(request.topic, body, dedup_ids, numbers)
    # Protobuf lists unknown fields one by one: there may not be many.
    _count_parts(raw, 0)
    for index, message in enumerate(request.messages):
        _check_entries(index, message)
    body = build_body((m.data, dict(m.attributes), m.ordering_key) for m in request.messages)
    return Publish(request.topic, body, dedup_ids, numbers)


def _dedup_ids(raw: bytes, messages: Iterable[types.PubsubMessage]) -> list[str] | None:
    if DEDUP_ID.encode() not in raw:
        return None
    dedup_ids = [message.attributes.get(DEDUP_ID, "") for message in messages]
    return dedup_ids if any(dedup_ids) else None


def _terms(raw: bytes, messages: Iterable[types.PubsubMessage]) -> Terms | None:
    if not terms.names_in(raw):
        return None
    return terms.terms_of((message.attributes, message.ordering_key) for message in messages)


def _check_entries(index: int, message: types.PubsubMessage) -> None:
    # Protobuf sets an attribute that has more than a key and a value aside as unknown; dropping
    # unknown fields must not drop a whole attribute with them.
    unknown = UnknownFieldSet(message)
    if any(unknown[i].field_number == _ATTRIBUTES_NUMBER for i in range(len(unknown))):
        raise InvalidArgument(
            f"messages[{index}].attributes: an attribute has more than a key and a value"
        )


def _check_messages(messages: Iterable[types.PubsubMessage]) -> tuple[list[int], list[str], bool]:
    """Check every message; give the size of each field when canonical, and the ordering keys.

    The third answer is False when an attribute has an empty value (see the module's docstring).
    """
    sizes: list[int] = []
    keys: list[str] = []
    is_plain = True
    for index, message in enumerate(messages):
        size = data_size = len(message.data)
        if size:
            size += 2 if size < 0x80 else 1 + varint_size(size)
        attributes = message.attributes
        attributes_count = len(attributes)
        if attributes_count:
            if attributes_count > limits.ATTRIBUTES_MAX:
                raise InvalidArgument(
                    f"messages[{index}].attributes: {attributes_count} attributes; "
                    f"at most {limits.ATTRIBUTES_MAX} are allowed"
                )
            for key in attributes:
                value = attributes[key]
                key_size = len(key) if key.isascii() else len(key.encode())
                value_size = len(value) if value.isascii() else len(value.encode())
                if (
                    not 0 < key_size <= limits.ATTRIBUTE_KEY_BYTES_MAX
                    or value_size > limits.ATTRIBUTE_VALUE_BYTES_MAX
                    or key.startswith(_JUDGED)
                ):
                    _check_attribute(index, key, key_size, value_size)
                if not value_size:
                    is_plain = False
                entry_size = key_size + value_size
                if entry_size <= 0x7F - 4:
                    size += entry_size + 6
                else:
                    entry_size += 2 + varint_size(key_size) + varint_size(value_size)
                    size += entry_size + 1 + varint_size(entry_size)
        elif not data_size:
            raise InvalidArgument(
                f"messages[{index}]: a message needs data or at least one attribute; it has neither"
            )
        ordering_key = message.ordering_key
        if ordering_key:
            key_size = len(ordering_key.encode())
            if key_size > limits.ORDERING_KEY_BYTES_MAX:
                raise InvalidArgument(
                    f"messages[{index}].ordering_key: {names.shown(ordering_key)} has {key_size} "
                    f"bytes; at most {limits.ORDERING_KEY_BYTES_MAX} are allowed"
                )
            size += key_size + 1 + varint_size(key_size)
        keys.append(ordering_key)
        sizes.append(size + 2 if size < 0x80 else size + 1 + varint_size(size))
    return sizes, keys, is_plain


def _check_attribute(index: int, key: str, key_size: int, value_size: int) -> None:
    """Raises InvalidArgument: Names the mistake in an attribute, if there is one."""
    where = f"messages[{index}].attributes"
    if not key_size:
        raise InvalidArgument(f"{where}: an attribute key is empty; 1 byte is the least")
    if key_size > limits.ATTRIBUTE_KEY_BYTES_MAX:
        raise InvalidArgument(
            f"{where}: the key {names.shown(key)} has {key_size} bytes; "
            f"at most {limits.ATTRIBUTE_KEY_BYTES_MAX} are allowed"
        )
    if key.startswith(RESERVED_PREFIX) and not key.startswith(CLIENT_PREFIX):
        raise InvalidArgument(
            f"{where}: the key {names.shown(key)} begins with {RESERVED_PREFIX!r}, which is "
            f"reserved (only {CLIENT_PREFIX!r} may follow it)"
        )
    if key.startswith(PREFIX) and key not in PUBLISHED:
        near = meant(key, PUBLISHED)
        raise InvalidArgument(
            f"{where}: {names.shown(key)} is not an attribute this service knows"
            f"{f'; did you mean {near!r}?' if near else ''}; of those that begin with {PREFIX!r} "
            f"a message may have {', '.join(sorted(PUBLISHED))}"
        )
    if value_size > limits.ATTRIBUTE_VALUE_BYTES_MAX:
        raise InvalidArgument(
            f"{where}: the value of {names.shown(key)} has {value_size} bytes; "
            f"at most {limits.ATTRIBUTE_VALUE_BYTES_MAX} are allowed"
        )


def _starts(sizes: Iterable[int]) -> list[int]:
    starts = [0]
    position = 0
    for size in sizes:
        position += size
        starts.append(position)
    return starts


def _key_hashes(keys: Sequence[str]) -> list[int]:
    hashes = {key: key_hash(key) for key in set(keys)}
    return [hashes[key] for key in keys]


# --- The answer ---------------------------------------------------------------------------------

_OFFSET_MAX = limits.OFFSET_MAX
_DIGITS = tuple(b"%03d" % number for number in range(1_000))


def publish_response(partition: int, base_offset: int, count: int) -> bytes:
    """Serialise the PublishResponse for `count` messages from `base_offset` on.

    Ids of one thousand share all but their last three digits, so a thousand costs one join.
    """
    assert partition >= 1
    assert 0 <= base_offset <= base_offset + count <= _OFFSET_MAX
    parts: list[bytes] = []
    offset, end = base_offset, base_offset + count
    while offset < end:
        thousand, first = divmod(offset, 1_000)
        last = min(first + end - offset, 1_000)
        digits = b"%d%0*d" % (partition, OFFSET_DIGITS - 3, thousand)
        head = b"\x0a" + varint(len(digits) + 3) + digits
        parts.append(head + head.join(_DIGITS[first:last]))
        offset += last - first
    return b"".join(parts)


def publish_response_of(partition: int, offsets: Iterable[int]) -> bytes:
    """Serialise the PublishResponse for messages at any offsets."""
    return b"".join(publish_response(partition, offset, 1) for offset in offsets)
