"""Planted bugs of publishing through the sink; see `mutants`."""

from __future__ import annotations

import sys
from typing import Any

from fanlog.broker.verbs.sink import Sink
from fanlog.core.sinks import SinkTable
from simulator.planting import mutant


@mutant("an epoch that is done is published again", 100, (SinkTable, "query"), needs="sinks")
def _(query: Any) -> Any:
    def forgotten(self: SinkTable, name: str) -> Any:
        asker = sys._getframe(1).f_code.co_name
        return None if asker in ("commit", "check_epoch") else query(self, name)

    return forgotten


@mutant(
    "an epoch and that it is done are two commits", 100, (Sink, "_publish_whole"), needs="sinks"
)
def _(_: Any) -> Any:
    async def torn(self: Sink, query: str, epoch: int, stages: Any) -> int:
        rows = [one async for batches in self._read_all(stages) for one in batches]
        sinks = self._ledger.hard.sinks
        self._check_topics(stages)
        transaction = self._ledger.begin()
        messages = self._append(transaction, rows)
        await transaction.commit()
        await self._ledger.commit(sinks.commit(query, epoch, messages, self._clock.now()))
        return messages

    return torn
