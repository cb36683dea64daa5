"""The window of a subscription: how much may be outstanding over all its consumers and shares.

It counts every lease, however its message was taken: by a pull, a stream, a sender or a forwarder.
Who is refused because the window is full *waits* in it; while others wait, nobody gets more than
its part of the window, so that one that takes all it can leaves some to the rest.

A message larger than the window's bytes goes out alone, when nothing else is outstanding. Leases
that outlived a restart count as messages alone: how large those are is not known any more.

Soft state, of one feed. Not safe to share between threads.
"""

from __future__ import annotations

from fanlog.core.flow import Credit, LeaseBudget


class SubscriptionWindow:
    """The window of one subscription; a bound of 0 is none."""

    __slots__ = ("_waiting", "max_bytes", "max_messages", "messages", "size_bytes")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        #: Outstanding now.
        self.messages = 0
        self.size_bytes = 0
        #: Consumers that it was full for when they looked.
        self._waiting: dict[Credit, None] = {}

    def take(self, messages: int, size_bytes: int) -> None:
        """Messages were leased."""
        self.messages += messages
        self.size_bytes += size_bytes

    def give(self, messages: int, size_bytes: int) -> None:
        """Leases of messages have ended."""
        self.messages -= messages
        self.size_bytes -= size_bytes
        assert self.messages >= 0
        assert self.size_bytes >= 0

    @property
    def has_room(self) -> bool:
        return not (self.max_messages and self.messages >= self.max_messages) and not (
            self.max_bytes and self.size_bytes >= self.max_bytes
        )

    def bound(self, budget: LeaseBudget, consumer: Credit) -> LeaseBudget:
        """What a consumer may get of its own budget."""
        messages, size_bytes = budget.messages, budget.size_bytes
        at_least_one, first_bytes = budget.at_least_one, budget.first_bytes
        if self.max_messages:
            free = min(self.max_messages - self.messages, self._part_of(consumer))
            messages = max(0, min(messages, free))
        if self.max_bytes:
            free_bytes = max(0, self.max_bytes - self.size_bytes)
            size_bytes = min(size_bytes, free_bytes)
            if self.messages:
                first_bytes = free_bytes if at_least_one else min(first_bytes, free_bytes)
                at_least_one = False
        return LeaseBudget(messages, size_bytes, at_least_one, first_bytes)

    def wait(self, consumer: Credit) -> None:
        """A consumer got nothing for want of room."""
        self._waiting[consumer] = None

    def leave(self, consumer: Credit) -> bool:
        """A consumer got something, or takes nothing more; whether it had waited."""
        if consumer not in self._waiting:
            return False
        del self._waiting[consumer]
        return True

    def _part_of(self, consumer: Credit) -> int:
        """How many more messages a consumer may have beside those that wait."""
        others = len(self._waiting) - (consumer in self._waiting)
        if not others:
            return self.max_messages
        return -(-self.max_messages // (others + 1)) - consumer.messages
