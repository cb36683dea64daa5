"""A disk that loses its power: what a file may look like then.

What was synced is there. Of what was written since the last sync, any part may be: none, all, or
any choice of its pages or of its sectors, whatever the order in which they were written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from chaos.traced import Sync, Truncate, Write

PAGE_BYTES = 4_096
SECTOR_BYTES = 512


class Disk:
    """One file on a disk, fed with what a process did to it."""

    def __init__(self) -> None:
        self._synced = bytearray()
        self._waiting: list[Write | Truncate] = []

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, event: Write | Truncate | Sync) -> None:
        if isinstance(event, Sync):
            for change in self._waiting:
                _apply(self._synced, change)
            self._waiting.clear()
        elif isinstance(event, Write) and event.is_synced:
            # The others wait on: it is not known that they were flushed along with it.
            _put(self._synced, event.offset, event.data)
        else:
            self._waiting.append(event)

    def synced(self) -> bytes:
        """The file if nothing but what was synced has reached the disk."""
        return bytes(self._synced)

    def whole(self) -> bytes:
        """The file if everything has."""
        return self._with(self._waiting)

    def torn(self, chance: random.Random, unit_bytes: int) -> bytes:
        """The file if a random choice of pages or sectors has, each whole."""
        share = chance.random()
        pieces = [
            piece
            for change in self._waiting
            for piece in _pieces(change, unit_bytes)
            if chance.random() < share
        ]
        return self._with(pieces)

    def images(
        self, chance: random.Random, event: Write | Truncate | None, count: int
    ) -> Iterator[bytes]:
        """Files that may be found if the power goes now, or while `event` is under way."""
        yield self.synced()
        if event is not None:
            # Whatever kind of write it is: it has not returned.
            self._waiting.append(
                event
                if isinstance(event, Truncate)
                else Write(event.offset, event.data, is_synced=False)
            )
        if self._waiting:
            yield self.whole()
            for _ in range(count):
                yield self.torn(chance, PAGE_BYTES)
                yield self.torn(chance, SECTOR_BYTES)
        if event is not None:
            self._waiting.pop()

    def _with(self, changes: list[Write | Truncate]) -> bytes:
        image = bytearray(self._synced)
        for change in changes:
            _apply(image, change)
        return bytes(image)


def _apply(image: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        del image[change.size_bytes :]
    else:
        _put(image, change.offset, change.data)


def _pieces(write: Write | Truncate, unit_bytes: int) -> Iterator[Write | Truncate]:
    if isinstance(write, Truncate):
        yield write
        return
    position, end = write.offset, write.offset + len(write.data)
    while position < end:
        after = min(end, (position // unit_bytes + 1) * unit_bytes)
        data = write.data[position - write.offset : after - write.offset]
        yield Write(position, data, is_synced=False)
        position = after


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data
