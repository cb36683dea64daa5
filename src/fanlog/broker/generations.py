"""Generations: the numbers of leases, growing, and never used twice by one log."""

from __future__ import annotations

from fanlog.broker.transaction import Ledger

#: Generations of one life of the broker; each start begins a new block of them.
GENERATIONS_PER_BOOT = 1 << 44


class Generations:
    """The generations of one life of the broker. Starts are counted in hard state."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._count = 0

    def next(self) -> int:
        self._count += 1
        return self._ledger.hard.catalog.boots * GENERATIONS_PER_BOOT + self._count
