"""Avro's binary encoding, checked: one closure for each type, made once.

Each takes the bytes and a position and gives the position after the value. Values are not decoded:
most messages are fine, and subscribers decode them. Every length and index in the bytes is checked
against the bytes there are.

The steps of a value are known beforehand except for the contents of unions, arrays and maps: these
spend from the message's budget when they are met, so that no other type has to count.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.schema.avro_tree import AvroNode
from fanlog.schema.budget import StepBudget
from fanlog.schema.compiled import Mismatch

#: Steps that a message has left: not a `StepBudget`, for one is made for each message.
Left = list[int]
Skip = Callable[[bytes, int, Left], int]

#: No message may take more steps than this, however large it is.
_STEPS_MAX = (
    limits.SCHEMA_CHECK_STEPS + limits.SCHEMA_CHECK_STEPS_PER_BYTE * limits.PUBLISH_BYTES_MAX
)

_CUT = "the bytes end in the middle of the value"


def compile_skip(root: AvroNode, budget: StepBudget) -> tuple[Skip, int]:
    """Give a function that passes over one value, and the steps that any value takes at least.

    The function raises Mismatch for bytes that the type does not allow.

    Args:
        budget: Of the compilation.
    """
    compiler = _Compiler(budget)
    return compiler.skip_of(root), compiler.steps_of(root)


class _Compiler:
    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._made: dict[int, Skip] = {}
        #: Steps and least bytes of records; those that contain themselves are none, further in.
        self._steps: dict[int, int] = {}
        self._least: dict[int, int] = {}

    def skip_of(self, node: AvroNode) -> Skip:
        self._budget.spend()
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

    def _record(self, node: AvroNode) -> Skip:
        known = self._made.get(id(node))
        if known is not None:
            return known
        skips: list[tuple[str, Skip]] = []

        def record(data: bytes, position: int, left: Left) -> int:
            name = ""
            try:
                for name, skip in skips:  # noqa: B007
                    position = skip(data, position, left)
            except Mismatch as error:
                raise error.below(name) from None
            return position

        # Before its fields: they may contain it.
        self._made[id(node)] = record
        skips += [(one.name, self.skip_of(one.node)) for one in node.fields]
        if self.steps_of(node) > _STEPS_MAX:
            raise InvalidArgument(
                f"a value of the record {shown(node.name)} takes more than {_STEPS_MAX} steps to "
                "be checked: no message of it could be"
            )
        return record

    def steps_of(self, node: AvroNode) -> int:
        """How many steps a value takes, without the contents of its unions, arrays and maps."""
        if node.kind != "record":
            return 1
        known = self._steps.get(id(node))
        if known is None:
            self._steps[id(node)] = 1
            self._budget.spend(len(node.fields))
            known = 1 + sum(self.steps_of(one.node) for one in node.fields)
            self._steps[id(node)] = known
        return known

    def _least_bytes(self, node: AvroNode) -> int:
        """How many bytes a value has at least."""
        if node.kind != "record":
            return node.size if node.kind == "fixed" else _LEAST.get(node.kind, 1)
        known = self._least.get(id(node))
        if known is None:
            self._least[id(node)] = 0
            self._budget.spend(len(node.fields))
            known = sum(self._least_bytes(one.node) for one in node.fields)
            self._least[id(node)] = known
        return known

    def _union(self, node: AvroNode) -> Skip:
        branches = [(part.tag, self.skip_of(part), self.steps_of(part)) for part in node.parts]

        def union(data: bytes, position: int, left: Left) -> int:
            index, position = read_long(data, position)
            if not 0 <= index < len(branches):
                raise Mismatch(f"expected a branch of the union, 0 to {len(branches) - 1}: {index}")
            tag, skip, steps = branches[index]
            if steps > 1:
                left[0] -= steps
                if left[0] < 0:
                    raise overspent(data)
            try:
                return skip(data, position, left)
            except Mismatch as error:
                raise error.below(tag) from None

        return union

    def _blocks(self, node: AvroNode, *, has_keys: bool) -> Skip:
        part = node.parts[0]
        skip = self.skip_of(part)
        least = self._least_bytes(part) + has_keys
        steps = self.steps_of(part) + has_keys

        def blocks(data: bytes, position: int, left: Left) -> int:
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
                if least and count > (len(data) - position) // least:
                    raise Mismatch(f"a block claims {count} items; there is no room for so many")
                left[0] -= 1 + count * steps
                if left[0] < 0:
                    raise overspent(data)
                at = total
                try:
                    for at in range(total, total + count):  # noqa: B007
                        if has_keys:
                            position = _string(data, position, left)
                        position = skip(data, position, left)
                except Mismatch as error:
                    raise error.below(at) from None
                total += count

        return blocks


def steps_max(data: bytes) -> int:
    """How many steps a message may take."""
    return limits.SCHEMA_CHECK_STEPS + limits.SCHEMA_CHECK_STEPS_PER_BYTE * len(data)


def overspent(data: bytes) -> Mismatch:
    return Mismatch(f"checking the message takes more than {steps_max(data)} steps")


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


def _null(_data: bytes, position: int, _left: Left) -> int:
    return position


def _boolean(data: bytes, position: int, _left: Left) -> int:
    if position >= len(data):
        raise Mismatch(_CUT)
    if data[position] > 1:
        raise Mismatch(f"expected a boolean, 0 or 1, found the byte {data[position]}")
    return position + 1


def _int(data: bytes, position: int, _left: Left) -> int:
    if position < len(data) and data[position] < 0x80:
        return position + 1
    value, position = read_long(data, position)
    if not -(2**31) <= value < 2**31:
        raise Mismatch(f"expected a 32-bit integer, found {value}")
    return position


def _long(data: bytes, position: int, _left: Left) -> int:
    if position < len(data) and data[position] < 0x80:
        return position + 1
    return read_long(data, position)[1]


def _octets(data: bytes, position: int, _left: Left) -> int:
    size, position = read_long(data, position)
    if size < 0:
        raise Mismatch(f"expected a length, found {size}")
    if position + size > len(data):
        raise Mismatch(f"a length of {size} bytes is claimed; {_CUT}")
    return position + size


def _string(data: bytes, position: int, _left: Left) -> int:
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
    def fixed(data: bytes, position: int, _left: Left) -> int:
        if position + size > len(data):
            raise Mismatch(_CUT)
        return position + size

    return fixed


def _enum(node: AvroNode) -> Skip:
    count = len(node.symbols)

    def enum(data: bytes, position: int, _left: Left) -> int:
        index, position = read_long(data, position)
        if not 0 <= index < count:
            raise Mismatch(f"expected a symbol of enum {node.name}, 0 to {count - 1}: {index}")
        return position

    return enum


#: Bytes that a value has at least, where it is not one.
_LEAST = {"null": 0, "float": 4, "double": 8}
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
