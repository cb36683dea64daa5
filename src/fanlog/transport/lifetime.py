"""The lifetime of a connection, for those who count connections and know no sockets."""

from __future__ import annotations

from collections.abc import Callable


class Lifetime:
    """One connection, until it is lost. Lives on the loop."""

    __slots__ = ("_is_over", "_notes")

    def __init__(self) -> None:
        self._is_over = False
        self._notes: list[Callable[[], None]] = []

    def at_end(self, note: Callable[[], None]) -> None:
        """Have a function called when the connection is lost; at once if it is."""
        if self._is_over:
            note()
        else:
            self._notes.append(note)

    def end(self) -> None:
        """The connection is lost."""
        self._is_over = True
        notes, self._notes = self._notes, []
        for note in notes:
            note()
