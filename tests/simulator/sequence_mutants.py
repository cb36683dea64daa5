"""Planted bugs of the numbers of publishers; see `mutants`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from fanlog.broker.delivery.gaps import Gaps
from fanlog.core.agenda import AgendaTable
from fanlog.core.publishers import Publishers
from fanlog.model import sequences
from simulator.planting import mutant

#: Share of their time-out after which gaps are given up.
EARLY = 0.5


@mutant("numbers are forgotten by a restart", 10, (Publishers, "sort"), needs="sequencers")
def _(_: Any) -> Any:
    def forgetful(self: Publishers) -> None:
        self.__init__(self.partition)  # type: ignore[misc]

    return forgetful


@mutant("messages behind a gap come at once", 10, (Gaps, "place"), needs="sequencers")
def _(place: Any) -> Any:
    def hasty(self: Gaps, transaction: Any, partition: Any, placing: Any) -> None:
        place(self, transaction, partition, replace(placing, held=BitMap64()))

    return hasty


@mutant("gaps are given up before their time", 15, (Gaps, "_timeout_s"), needs="sequencers")
def _(timeout_s: Any) -> Any:
    return lambda self, publishers: timeout_s(self, publishers) * EARLY


@mutant("an epoch that is over begins anew", 20, (Publishers, "_draft"), needs="sequencers")
def _(draft: Any) -> Any:
    def forgetful(self: Publishers, index: int, digest: bytes, one: Any, *rest: Any) -> Any:
        before = self._known.get(digest)
        if before is not None and one.epoch < before.epoch:
            before.epoch = one.epoch - 1
        return draft(self, index, digest, one, *rest)

    return forgetful


@mutant(
    "a number is all that a repetition needs", 10, (sequences, "fingerprint_of"), needs="sequencers"
)
def _(_: Any) -> Any:
    return lambda *_: bytes(sequences.PRINT_BYTES)


@mutant("messages behind a gap keep their place", 20, (AgendaTable, "place"), needs="sequencers")
def _(place: Any) -> Any:
    def lazy(self: AgendaTable, partition: Any, anchor: int, offsets: Any) -> Any:
        return place(self, partition, anchor, sorted(offsets, reverse=True))

    return lazy
