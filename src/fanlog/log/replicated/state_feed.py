"""Tells a listener all hard state of a log that this node follows, and then each change of it.

The state that the cache has is told some at a time between two reads of the partition, in the order
of its keys. Changes of entries that are applied meanwhile are told as they come, so at the end the
listener has the last value of each key, whatever came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from fanlog.log import envelope, folder
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.encoded import EncodedCommit
from fanlog.log.envelope import Kind
from fanlog.log.stored_batches import Transaction

#: Keys that are told at a time: some milliseconds.
PAGE_KEYS: Final = 1_000

#: A key, and its value; None for a key that is gone.
StateChange = tuple[bytes, bytes | None]


class StateListener(Protocol):
    """Called on one thread at a time; must not block, nor call back."""

    @property
    def wants_all(self) -> bool:
        """Whether all of it is to be told once more. Asked for between two reads."""

    def begin(self) -> None:
        """Forget what was told: all of it comes anew."""

    def put(self, changes: Sequence[StateChange]) -> None:
        """Some state, which replaces what was told before under these keys."""

    def reach(self, sequence: int) -> None:
        """All is told that the log has up to a commit."""


class StateFeed:
    """Of one replica; used by one thread at a time. It is off at first."""

    def __init__(self, listener: StateListener | None) -> None:
        self._listener = listener
        self._is_on = False
        #: The last key of the cache that was told; None when all were.
        self._after: bytes | None = b""

    def turn_on(self) -> None:
        """Tell everything, from now on; does nothing when it is on."""
        if not self._is_on:
            self._is_on = self._listener is not None
            self.begin()

    def turn_off(self) -> None:
        """Tell nothing more: this node changes the state by itself."""
        self._is_on = False

    def begin(self) -> None:
        """The cache is another one, or empty."""
        if self._is_on and self._listener is not None:
            self._after = b""
            self._listener.begin()

    def apply(self, bodies: Iterable[object], sequence: int) -> None:
        """Tell the changes of entries that count and were applied, up to a commit."""
        listener = self._listener
        if not self._is_on or listener is None:
            return
        for body in bodies:
            if isinstance(body, EncodedCommit):
                changes = [
                    (bytes(key), None if value is None else envelope.decode(value).payload)
                    for key, value in body.state
                ]
                if changes:
                    listener.put(changes)
        if self._after is None:
            listener.reach(sequence)

    def read_on(self, log: EmbeddedLog, sequence: int) -> None:
        """Tell some more of what the cache has.

        Raises:
            DataLoss: A value fails its checksum.
        """
        listener = self._listener
        if not self._is_on or listener is None:
            return
        if self._after is None:
            if not listener.wants_all:
                return
            self.begin()
        after = self._after or b""
        page = log.look(lambda store, txn: _page(store, txn, after))
        listener.put(page)
        if len(page) == PAGE_KEYS:
            self._after = page[-1][0]
        else:
            self._after = None
            listener.reach(sequence)


def _page(store: folder.Store, txn: Transaction, after: bytes) -> list[StateChange]:
    found: list[StateChange] = []
    with txn.cursor(store.state) as at:
        more = at.set_range(after + b"\0") if after else at.first()
        while more and len(found) < PAGE_KEYS:
            key = bytes(at.key())
            found.append((key, folder.open_envelope(Kind.STATE, key, at.value())))
            more = at.next()
    return found
