"""The fields of a serialised message, counted before the message is parsed.

Two bytes of a request may be a whole message, which costs a hundred when it is parsed: ten
megabytes of them are half a gigabyte. The walk over a request's bytes makes nothing, and ends at
the first field that is too many. Requests below `limits.PARTS_UNCOUNTED_BYTES` are small with any
content, and are not walked.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanlog import limits
from fanlog.errors import InvalidArgument

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


def fields_of(raw: bytes, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Walk the fields of the message that lies in `raw`: each one's number and where its value is.

    Raises:
        InvalidArgument: It ends within a field, or has a group, which no message of ours has.
    """
    position, stop = begin, len(raw) if end is None else end
    try:
        while position < stop:
            tag = raw[position]
            if tag < 0x80:
                position += 1
            else:
                tag, position = varint(raw, position)
            kind = tag & 7
            if kind == _LENGTH:
                size = raw[position]
                if size < 0x80:
                    position += 1
                else:
                    size, position = varint(raw, position)
                after = position + size
            elif kind == _VARINT:
                _, after = varint(raw, position)
            elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
                after = position + (8 if kind == _EIGHT_BYTES else 4)
            else:
                raise IndexError
            if after > stop:
                raise IndexError
            yield tag >> 3, position, after
            position = after
    except IndexError:
        raise InvalidArgument("the request is malformed protobuf") from None


def is_counted(raw: bytes) -> bool:
    """Whether a request is so large that its fields are counted first."""
    return len(raw) > limits.PARTS_UNCOUNTED_BYTES


def check_fields(raw: bytes, most: int, what: str) -> None:
    """Refuse a large request with more than `most` fields of its own; `what` names them.

    Raises:
        InvalidArgument: There are more, or it is malformed.
    """
    if not is_counted(raw):
        return
    for count, _ in enumerate(fields_of(raw), start=1):
        if count > most:
            raise InvalidArgument(f"{what}: more than {most} fields; at most {most} are allowed")


def varint(raw: bytes, position: int) -> tuple[int, int]:
    """Read a number and where the bytes after it begin; IndexError when it does not end."""
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise IndexError
