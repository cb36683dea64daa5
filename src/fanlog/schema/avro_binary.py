"""Avro's binary encoding, checked: one closure for each type, made once.

Each takes the bytes and a position and gives the position after the value. Nothing is built: most
messages are fine, and whoever reads them decodes them. Every claim the bytes make is checked
against the bytes there are, so that the work is bounded by the size of the message.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog import limits
from fanlog.schema.avro_tree import Node
from fanlog.schema.compiled import Mismatch

Skip = Callable[[bytes, int], int]

_CUT = "the bytes end in the middle of the value"


def compile_skip(root: Node) -> Skip:
    """Give what passes over one value, and raises Mismatch for bytes the type does not allow."""
    return _Compiler().skip_of(root)


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[int, Skip] = {}

    def skip_of(self, node: Node) -> Skip:
        match node.kind:
            case "record":
                return self._record(node)
            case "union":
                return self._union(node)
            case "array":
                return self._blocks(node, has_keys=False)
            case "map":
                return self._blocks(node, has_keys=True)
            case "enum":
                return _enum(node)
            case "fixed":
                return _fixed(node.size)
        return _SIMPLE[node.kind]

    def _record(self, node: Node) -> Skip:
        known = self._made.get(id(node))
        if known is not None:
            return known
        skips: list[tuple[str, Skip]] = []

        def record(data: bytes, position: int) -> int:
            name = ""
            try:
                for name, skip in skips:  # noqa: B007
                    position = skip(data, position)
            except Mismatch as error:
                raise error.below(name) from None
            return position

        # Before its fields: they may contain it.
        self._made[id(node)] = record
        skips += [(one.name, self.skip_of(one.node)) for one in node.fields]
        return record

    def _union(self, node: Node) -> Skip:
        branches = [(part.tag, self.skip_of(part)) for part in node.parts]

        def union(data: bytes, position: int) -> int:
            index, position = read_long(data, position)
            if not 0 <= index < len(branches):
                raise Mismatch(f"expected a branch of the union, 0 to {len(branches) - 1}: {index}")
            tag, skip = branches[index]
            try:
                return skip(data, position)
            except Mismatch as error:
                raise error.below(tag) from None

        return union

    def _blocks(self, node: Node, *, has_keys: bool) -> Skip:
        part = node.parts[0]
        skip = self.skip_of(part)
        least = _least_bytes(part, set()) + has_keys

        def blocks(data: bytes, position: int) -> int:
            total = 0
            while True:
                count, position = read_long(data, position)
                if count == 0:
                    return position
                if count < 0:
                    size, position = read_long(data, position)
                    count = -count
                    if not 0 <= size <= len(data) - position:
                        raise Mismatch(f"a block claims {size} bytes; {_CUT}")
                room = (len(data) - position) // least if least else limits.SCHEMA_EMPTY_ITEMS_MAX
                if count > room - (0 if least else total):
                    raise Mismatch(f"a block claims {count} items; there is no room for so many")
                at = total
                try:
                    for at in range(total, total + count):  # noqa: B007
                        if has_keys:
                            position = _string(data, position)
                        position = skip(data, position)
                except Mismatch as error:
                    raise error.below(at) from None
                total += count

        return blocks


def read_long(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag number of at most 64 bits."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise Mismatch("expected a number of at most 64 bits, found a longer one")
    except IndexError:
        raise Mismatch(_CUT) from None
    if value >> 64:
        raise Mismatch("expected a number of at most 64 bits, found a longer one")
    return (value >> 1) ^ -(value & 1), position


def _least_bytes(node: Node, above: set[int]) -> int:
    """Give how many bytes a value has at least."""
    match node.kind:
        case "null":
            return 0
        case "fixed":
            return node.size
        case "float":
            return 4
        case "double":
            return 8
        case "record":
            if id(node) in above:
                return 0
            return sum(_least_bytes(one.node, above | {id(node)}) for one in node.fields)
    return 1


def _null(_data: bytes, position: int) -> int:
    return position


def _boolean(data: bytes, position: int) -> int:
    if position >= len(data):
        raise Mismatch(_CUT)
    if data[position] > 1:
        raise Mismatch(f"expected a boolean, 0 or 1, found the byte {data[position]}")
    return position + 1


def _int(data: bytes, position: int) -> int:
    if position < len(data) and data[position] < 0x80:
        return position + 1
    value, position = read_long(data, position)
    if not -(2**31) <= value < 2**31:
        raise Mismatch(f"expected a 32-bit integer, found {value}")
    return position


def _long(data: bytes, position: int) -> int:
    if position < len(data) and data[position] < 0x80:
        return position + 1
    return read_long(data, position)[1]


def _octets(data: bytes, position: int) -> int:
    size, position = read_long(data, position)
    if size < 0:
        raise Mismatch(f"expected a length, found {size}")
    if position + size > len(data):
        raise Mismatch(f"a length of {size} bytes is claimed; {_CUT}")
    return position + size


def _string(data: bytes, position: int) -> int:
    if position < len(data) and data[position] < 0x80 and not data[position] & 1:
        begin = position + 1
        end = begin + (data[position] >> 1)
    else:
        size, begin = read_long(data, position)
        if size < 0:
            raise Mismatch(f"expected a length, found {size}")
        end = begin + size
    if end > len(data):
        raise Mismatch(f"a length of {end - begin} bytes is claimed; {_CUT}")
    try:
        data[begin:end].decode()
    except UnicodeDecodeError:
        raise Mismatch("expected a string in UTF-8, found other bytes") from None
    return end


def _fixed(size: int) -> Skip:
    def fixed(data: bytes, position: int) -> int:
        if position + size > len(data):
            raise Mismatch(_CUT)
        return position + size

    return fixed


def _enum(node: Node) -> Skip:
    count = len(node.symbols)

    def enum(data: bytes, position: int) -> int:
        index, position = read_long(data, position)
        if not 0 <= index < count:
            raise Mismatch(f"expected a symbol of enum {node.name}, 0 to {count - 1}: {index}")
        return position

    return enum


_SIMPLE: dict[str, Skip] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _octets,
    "string": _string,
}
