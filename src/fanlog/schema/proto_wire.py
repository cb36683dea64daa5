"""Finding the place where bytes stop being a message of some type; for messages already refused."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor

from fanlog.schema.compiled import Mismatch

_DEPTH_MAX = 100
_WIRE_NAMES = {0: "a varint", 1: "8 bytes", 2: "a length and bytes", 5: "4 bytes"}
_FIXED = {1: 8, 5: 4}

#: Field type to wire type; all others are varints.
_WIRE_TYPES = {1: 1, 2: 5, 6: 1, 7: 5, 9: 2, 11: 2, 12: 2, 15: 5, 16: 1}
_STRING, _MESSAGE = 9, 11


def explain(descriptor: Descriptor, data: bytes) -> None:
    """Raise Mismatch at the first thing that is wrong; nothing, if nothing is found."""
    # Each level looks at a part of the same bytes: a hundred copies would be a hundred messages.
    _explain(descriptor, memoryview(data), 0)


def _explain(descriptor: Descriptor, data: memoryview, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise Mismatch("nested too deeply")
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        content, position = _content(data, position, wire, number)
        field = descriptor.fields_by_number.get(number)
        if field is None:
            raise Mismatch(f"{descriptor.name} has no field number {number}")
        expected = _WIRE_TYPES.get(field.type, 0)
        is_packed = wire == 2 and field.is_repeated and expected != 2
        if wire != expected and not is_packed:
            raise Mismatch(
                f"expected {_WIRE_NAMES[expected]}, found {_WIRE_NAMES[wire]}", (field.name,)
            )
        try:
            if field.type == _MESSAGE:
                _explain(field.message_type, content, depth + 1)
            elif field.type == _STRING:
                str(content, "utf-8")
        except UnicodeDecodeError:
            raise Mismatch("expected text in UTF-8, found other bytes", (field.name,)) from None
        except Mismatch as error:
            raise error.below(field.name) from None


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Mismatch(f"the bytes end, or go on too long, in a number at position {position}")


def _content(data: memoryview, position: int, wire: int, number: int) -> tuple[memoryview, int]:
    if wire == 0:
        _, end = _varint(data, position)
    elif wire == 2:
        size, position = _varint(data, position)
        end = position + size
    elif wire in _FIXED:
        end = position + _FIXED[wire]
    else:
        raise Mismatch(f"field number {number} has the wire type {wire}, which is not supported")
    if end > len(data):
        raise Mismatch(f"the bytes end in the middle of field number {number}")
    return data[position:end], end
