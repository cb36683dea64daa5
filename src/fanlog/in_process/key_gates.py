"""Key gates: of the messages of one ordering key, one callback runs at a time, in order.

The core hands out messages of a key as a run; here they wait for each other. When one fails the
core takes all later ones of its key back, to deliver them again after it: so those that wait here
are dropped, and those that are still on their way from the core, until that has heard of it. What
was dropped is given back to the core all the same: the failed one's lease may have been over.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class KeyGates(Generic[T]):
    """The gates of one consumer. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Of each key that has a message out, those that wait for it.
        self._waiting: dict[int, deque[T]] = {}
        #: Keys of which a message failed, and the core has not heard of it; how many did.
        self._failed: dict[int, int] = {}
        self._dropped: list[T] = []

    def enter(self, key: int, message: T) -> bool:
        """Whether a message may be called back now; otherwise it waits, or is dropped."""
        with self._lock:
            if key in self._failed:
                self._dropped.append(message)
                return False
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return True
            waiting.append(message)
            return False

    def leave(self, key: int) -> T | None:
        """A message of a key is done; the next one, which may be called back now."""
        with self._lock:
            waiting = self._waiting[key]
            if waiting:
                return waiting.popleft()
            del self._waiting[key]
            return None

    def fail(self, key: int) -> None:
        """A message of a key failed: drop what comes behind it, until the core has `heard`."""
        with self._lock:
            self._failed[key] = self._failed.get(key, 0) + 1
            waiting = self._waiting.get(key)
            if waiting:
                self._dropped += waiting
                waiting.clear()

    def take_dropped(self) -> list[T]:
        """The messages that were dropped since this was last asked."""
        with self._lock:
            found, self._dropped = self._dropped, []
            return found

    def heard(self, key: int) -> None:
        """The core has taken back what came behind a failed message."""
        with self._lock:
            left = self._failed.pop(key) - 1
            if left:
                self._failed[key] = left

    def clear(self) -> list[T]:
        """Take out all that wait."""
        with self._lock:
            found = [message for waiting in self._waiting.values() for message in waiting]
            for waiting in self._waiting.values():
                waiting.clear()
            return found
