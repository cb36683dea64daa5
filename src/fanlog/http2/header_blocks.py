"""Header blocks (HPACK, RFC 7541): decoded with a table per connection, encoded without one.

Tables and Huffman codes are the library `hpack`'s; the walk over a block is written here, because
a call's block is decoded once a call: the library takes 18 µs for one that is all indices and 24 µs
for one with a new `grpc-timeout`, this takes a fraction of that. Blocks that change nothing in the
table mean the same until something does: they are looked up by their bytes.

Encoding keeps no state: names and values go as literals that are not indexed. Answers have few
headers, and theirs are constant blocks anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from fanlog.http2.codes import TABLE_BYTES_DEFAULT, ErrorCode, Fault
from fanlog.http2.header_list import HeaderList
from fanlog.http2.header_rules import Header, wrong_with_field

_STATIC: Final[tuple[Header, ...]] = tuple(HeaderTable.STATIC_TABLE)
_STATIC_COUNT: Final = len(_STATIC)
_STATIC_INDEX: Final = {header: index for index, header in reversed([*enumerate(_STATIC, 1)])}
_STATIC_NAME: Final = {name: index for index, (name, _) in reversed([*enumerate(_STATIC, 1)])}
#: What an entry of the table counts beside its bytes (RFC 7541, 4.1); so does a header of a list.
ENTRY_BYTES: Final = 32
#: Bytes of blocks that are looked up by their bytes, and of their lists: a client has a block for
#: each method and its metadata, some 700 bytes each.
KNOWN_BYTES_MAX: Final = 64 * 1024
#: Strings whose Huffman form is remembered are at most so long.
_REMEMBERED_BYTES: Final = 256
#: Continuation bytes of an integer: more would say a number beyond every limit here.
_INTEGER_BYTES_MAX: Final = 4


class TooManyHeaders(Exception):
    """The list of a block is longer than was promised to be taken; the table is in order."""


class HeaderDecoder:
    """The receiving end of one connection's header compression."""

    def __init__(
        self,
        list_bytes_max: int,
        table_bytes_max: int = TABLE_BYTES_DEFAULT,
        known_bytes_max: int = KNOWN_BYTES_MAX,
    ) -> None:
        """`known_bytes_max`: of blocks that are looked up by their bytes, and of their lists."""
        self._list_bytes_max = list_bytes_max
        self._known_bytes_max = known_bytes_max
        self._table_bytes_max = table_bytes_max
        self._size_max = table_bytes_max
        #: Newest first; each with its fault as a field, so that it is judged once.
        self._table: list[tuple[Header, str | None]] = []
        self._size_bytes = 0
        self._known: dict[bytes, HeaderList] = {}
        self._known_bytes = 0

    def decode(self, block: bytes) -> HeaderList:
        """The headers of a block, in order; the same list for the same block, while that is known.

        Raises:
            Fault: It is no such block; the connection cannot go on.
            TooManyHeaders: Its list is too long.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        return self._walk(block)

    def _remember(self, block: bytes, headers: HeaderList, list_bytes: int) -> None:
        size = len(block) + list_bytes
        if self._known_bytes + size > self._known_bytes_max:
            # A client that varies a header fills it with blocks that never come again.
            self._forget_known()
            if size > self._known_bytes_max:
                return
        self._known[block] = headers
        self._known_bytes += size

    def _forget_known(self) -> None:
        self._known.clear()
        self._known_bytes = 0

    def _walk(self, block: bytes) -> HeaderList:
        found: list[Header] = []
        wrong: str | None = None
        position, end, list_bytes, changes = 0, len(block), 0, False
        try:
            while position < end:
                byte = block[position]
                if byte & 0x80:
                    index = byte & 0x7F
                    position += 1
                    if index == 0x7F:
                        index, position = _integer(block, position, 0x7F)
                    header, fault = self._at(index)
                elif byte & 0xC0 == 0x40:
                    header, position = self._literal(block, position, 0x3F)
                    fault = wrong_with_field(*header)
                    self._insert(header, fault)
                    changes = True
                elif byte & 0xE0 == 0x20:
                    if found or list_bytes:
                        raise Fault(ErrorCode.COMPRESSION_ERROR, "a table size behind a header")
                    position = self._resize(block, position)
                    changes = True
                    continue
                else:
                    header, position = self._literal(block, position, 0x0F)
                    fault = wrong_with_field(*header)
                wrong = wrong or fault
                list_bytes += len(header[0]) + len(header[1]) + ENTRY_BYTES
                if list_bytes <= self._list_bytes_max:
                    found.append(header)
        except (IndexError, HPACKDecodingError):
            raise Fault(ErrorCode.COMPRESSION_ERROR, "a header block that cannot be read") from None
        if changes:
            self._forget_known()
        if list_bytes > self._list_bytes_max:
            raise TooManyHeaders(f"{list_bytes} bytes of headers")
        headers = HeaderList(tuple(found), wrong)
        if not changes:
            self._remember(block, headers, list_bytes)
        return headers

    def _at(self, index: int) -> tuple[Header, str | None]:
        if 0 < index <= _STATIC_COUNT:
            return _STATIC[index - 1], None
        if index == 0:
            raise Fault(ErrorCode.COMPRESSION_ERROR, "a header with the index 0")
        return self._table[index - _STATIC_COUNT - 1]

    def _literal(self, block: bytes, position: int, mask: int) -> tuple[Header, int]:
        index = block[position] & mask
        position += 1
        if index == mask:
            index, position = _integer(block, position, mask)
        if index:
            name = self._at(index)[0][0]
        else:
            name, position = _string(block, position)
        value, position = _string(block, position)
        return (name, value), position

    def _resize(self, block: bytes, position: int) -> int:
        size = block[position] & 0x1F
        position += 1
        if size == 0x1F:
            size, position = _integer(block, position, 0x1F)
        if size > self._table_bytes_max:
            raise Fault(ErrorCode.COMPRESSION_ERROR, "a table that is larger than was agreed")
        self._size_max = size
        self._evict(0)
        return position

    def _insert(self, header: Header, fault: str | None) -> None:
        size = len(header[0]) + len(header[1]) + ENTRY_BYTES
        self._evict(size)
        if size <= self._size_max:
            self._table.insert(0, (header, fault))
            self._size_bytes += size

    def _evict(self, needed: int) -> None:
        while self._table and self._size_bytes + needed > self._size_max:
            (name, value), _ = self._table.pop()
            self._size_bytes -= len(name) + len(value) + ENTRY_BYTES


def _integer(block: bytes, position: int, start: int) -> tuple[int, int]:
    """The rest of a number whose first bits were all set (RFC 7541, 5.1)."""
    number, shift = start, 0
    while True:
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, position
        shift += 7
        if shift >= 7 * _INTEGER_BYTES_MAX:
            raise Fault(ErrorCode.COMPRESSION_ERROR, "a number that is too long")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    byte = block[position]
    length = byte & 0x7F
    position += 1
    if length == 0x7F:
        length, position = _integer(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise IndexError(end)
    text = block[position:end]
    if not byte & 0x80:
        return text, end
    if length <= _REMEMBERED_BYTES:
        return _unfold(text), end
    return decode_huffman(text), end


@lru_cache(maxsize=4_096)
def _unfold(text: bytes) -> bytes:
    return decode_huffman(text)


def encode(headers: Iterable[Header]) -> bytes:
    """A block that any decoder reads, whatever its table."""
    parts = bytearray()
    for header in headers:
        index = _STATIC_INDEX.get(header)
        if index is not None:
            parts += _number(index, 0x7F, 0x80)
            continue
        name, value = header
        index = _STATIC_NAME.get(name)
        if index is not None:
            parts += _number(index, 0x0F, 0)
        else:
            parts += b"\0" + _number(len(name), 0x7F, 0) + name
        parts += _number(len(value), 0x7F, 0) + value
    return bytes(parts)


def _number(number: int, most: int, flags: int) -> bytes:
    if number < most:
        return bytes((flags | number,))
    parts = bytearray((flags | most,))
    number -= most
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
