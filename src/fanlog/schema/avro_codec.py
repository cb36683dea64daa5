"""Avro's binary encoding to the values of its JSON encoding and back, for messages known valid.

Values keep the tags of unions, so that nothing is guessed on the way back. A float that JSON has no
word for (NaN, infinity) passes from binary to binary, and is refused where it must become JSON.
"""

from __future__ import annotations

import struct
from typing import Any

from fanlog.schema.avro_binary import read_long
from fanlog.schema.avro_tree import AvroNode

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def decode(node: AvroNode, data: bytes, position: int = 0) -> tuple[Any, int]:
    """Read one value; the bytes have been checked."""
    match node.kind:
        case "null":
            return None, position
        case "boolean":
            return data[position] == 1, position + 1
        case "int" | "long":
            return read_long(data, position)
        case "float":
            return _FLOAT.unpack_from(data, position)[0], position + 4
        case "double":
            return _DOUBLE.unpack_from(data, position)[0], position + 8
        case "string":
            size, position = read_long(data, position)
            return data[position : position + size].decode(), position + size
        case "bytes":
            size, position = read_long(data, position)
            return data[position : position + size].decode("latin-1"), position + size
        case "fixed":
            end = position + node.size
            return data[position:end].decode("latin-1"), end
        case "enum":
            index, position = read_long(data, position)
            return node.symbols[index], position
        case "union":
            index, position = read_long(data, position)
            part = node.parts[index]
            value, position = decode(part, data, position)
            return (None if part.kind == "null" else {part.tag: value}), position
        case "record":
            record: dict[str, Any] = {}
            for one in node.fields:
                record[one.name], position = decode(one.node, data, position)
            return record, position
    return _decode_blocks(node, data, position)


def encode(node: AvroNode, value: Any) -> bytes:
    """Write one value that the type allows."""
    out = bytearray()
    _encode(node, value, out)
    return bytes(out)


def _decode_blocks(node: AvroNode, data: bytes, position: int) -> tuple[Any, int]:
    items: list[Any] = []
    entries: dict[str, Any] = {}
    part, is_map = node.parts[0], node.kind == "map"
    while True:
        count, position = read_long(data, position)
        if not count:
            return (entries if is_map else items), position
        if count < 0:
            _, position = read_long(data, position)
        for _ in range(abs(count)):
            if is_map:
                size, position = read_long(data, position)
                key = data[position : position + size].decode()
                entries[key], position = decode(part, data, position + size)
            else:
                item, position = decode(part, data, position)
                items.append(item)


def _encode(node: AvroNode, value: Any, out: bytearray) -> None:
    match node.kind:
        case "null":
            pass
        case "boolean":
            out.append(value)
        case "int" | "long":
            _write_long(value, out)
        case "float":
            out += _FLOAT.pack(value)
        case "double":
            out += _DOUBLE.pack(value)
        case "string":
            _write_octets(value.encode(), out)
        case "bytes":
            _write_octets(value.encode("latin-1"), out)
        case "fixed":
            out += value.encode("latin-1")
        case "enum":
            _write_long(node.places[value], out)
        case "union":
            tag, content = ("null", None) if value is None else next(iter(value.items()))
            index = node.places[tag]
            _write_long(index, out)
            _encode(node.parts[index], content, out)
        case "record":
            for one in node.fields:
                _encode(one.node, value[one.name], out)
        case "array":
            _encode_blocks([(None, item) for item in value], node.parts[0], out)
        case "map":
            _encode_blocks(list(value.items()), node.parts[0], out)


def _encode_blocks(entries: list[tuple[str | None, Any]], part: AvroNode, out: bytearray) -> None:
    if entries:
        _write_long(len(entries), out)
    for key, item in entries:
        if key is not None:
            _write_octets(key.encode(), out)
        _encode(part, item, out)
    _write_long(0, out)


def _write_octets(octets: bytes, out: bytearray) -> None:
    _write_long(len(octets), out)
    out += octets


def _write_long(value: int, out: bytearray) -> None:
    value = (value << 1) ^ (value >> 63)
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
