"""The bytes that callers may have a server hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    #: Of requests that have begun and are not whole, all connections together.
    unfinished_bytes_max: int
    #: Of long messages of one connection, from their first bytes until their verb is done with
    #: them. A message that does not fit waits for its turn: its stream is not credited.
    credited_bytes_max: int
    #: Of answers that wait for their reader: on one connection, and on all.
    unread_bytes_max: int
    unread_total_bytes_max: int
    #: Called a moment after much of it has gone at once.
    on_fall: Callable[[], object] = bool
