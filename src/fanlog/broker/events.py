"""Events: the one way in which a part of the broker tells the parts above it.

A part that depends on another calls its methods. For the other direction the lower part has an
`Event`, and a listener registers for it in its own constructor; so nothing is set on an object that
exists already, and no module knows the types of those above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from fanlog.log.batch import Body
from fanlog.model.resources import Offset, PartitionId

T = TypeVar("T")


class Event(Generic[T]):
    """Something that happens now and then. Listeners are called on the loop, in order, at once."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[[T], object]] = []

    def listen(self, listener: Callable[[T], object]) -> None:
        """Call `listener` whenever it happens; it must not wait."""
        self._listeners.append(listener)

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    def tell(self, value: T) -> None:
        for listener in self._listeners:
            listener(value)


class Appended(NamedTuple):
    """The messages that one commit has appended to one partition."""

    partition: PartitionId
    base: Offset
    end: Offset
    #: Bytes of their batches as they are stored.
    size_bytes: int
    time_ns: int


class Asking(NamedTuple):
    """Messages that one commit has appended, of which some ask for something."""

    partition: PartitionId
    base: Offset
    body: Body
    time_ns: int
