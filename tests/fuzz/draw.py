"""Values out of a fuzzer's bytes, always the same ones for the same bytes.

A target that wants more than raw bytes reads them through `Draw`. Bytes that are missing count as
zeros, so every input means something. `chunk` is what a seed writes where a target calls
`Draw.chunk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

#: A chunk's length stands before it in so many bytes, the lowest first.
_LENGTH_BYTES = 2


def chunk(content: bytes) -> bytes:
    """Content with its length, as `Draw.chunk` reads it back."""
    return len(content).to_bytes(_LENGTH_BYTES, "little") + content


class Draw:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_empty(self) -> bool:
        return self._position >= len(self._data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or what is left of them."""
        begin, self._position = self._position, min(self._position + size, len(self._data))
        return self._data[begin : self._position]

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.take(size), "little")

    def below(self, limit: int, size: int = 1) -> int:
        return self.number(size) % limit

    def flag(self) -> bool:
        return bool(self.number() & 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def chunk(self) -> bytes:
        return self.take(self.number(_LENGTH_BYTES))

    def text(self) -> str:
        """Text as protobuf would give it: valid UTF-8, no lone surrogates."""
        return self.chunk().decode("utf-8", "replace")
