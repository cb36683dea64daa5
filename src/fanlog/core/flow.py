"""Credit: how much one consumer may hold unacknowledged. Soft state."""

from __future__ import annotations

from typing import NamedTuple


class LeaseBudget(NamedTuple):
    """The bounds of one answer. The first message always fits when `at_least_one`."""

    messages: int
    size_bytes: int
    at_least_one: bool = True
    #: Otherwise the first message may have this size, although the answer is then larger.
    first_bytes: int = 0


class Credit:
    """One consumer's window. A pull has its own, a stream keeps one for its life.

    `max_messages` and `max_bytes` of 0 mean no limit. A message larger than `max_bytes` goes out
    alone, when nothing else is outstanding: otherwise it never could.
    """

    __slots__ = ("client", "has_returned", "max_bytes", "max_messages", "messages", "size_bytes")

    def __init__(
        self, max_messages: int = 0, max_bytes: int = 0, *, client: object | None = None
    ) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        #: The client of the stream, for its aversions; None for a consumer that has none.
        self.client = client
        #: Outstanding now.
        self.messages = 0
        self.size_bytes = 0
        #: Whether a message was ever settled: the consumer has read something.
        self.has_returned = False

    @property
    def has_room(self) -> bool:
        if self.messages == 0:
            return True
        return (self.max_messages == 0 or self.messages < self.max_messages) and (
            self.max_bytes == 0 or self.size_bytes < self.max_bytes
        )

    def budget(self, max_messages: int, max_bytes: int) -> LeaseBudget:
        """The bounds of the next answer: those of the window, within the given ones."""
        if self.max_messages:
            max_messages = min(max_messages, self.max_messages - self.messages)
        max_messages = max(0, max_messages)
        if not self.max_bytes:
            return LeaseBudget(max_messages, max_bytes)
        free_bytes = max(0, self.max_bytes - self.size_bytes)
        return LeaseBudget(
            max_messages,
            min(max_bytes, free_bytes),
            at_least_one=self.messages == 0,
            first_bytes=free_bytes,
        )

    def take(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        # Without a byte limit the bytes are not counted: settling need not weigh every message.
        self.size_bytes += size_bytes if self.max_bytes else 0

    def give(self, messages: int, size_bytes: int) -> None:
        self.has_returned = True
        self.messages -= messages
        self.size_bytes -= size_bytes
        assert self.messages >= 0
        assert self.size_bytes >= 0
