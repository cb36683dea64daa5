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


@mutant("an epoch and that it is done are two commits", 50, (Sink, "_publish_whole"), needs="sinks")
def _(_: Any) -> Any:
    async def torn(self: Sink, query: str, epoch: int, stages: Any) -> int:
        rows = [one async for batches in self._read_all(stages) for one in batches]
        hard, writer = self._broker.hard, self._broker.writer
        self._check_topics(stages)
        publications, records, messages = self._appended(rows)
        await writer.submit_all(records=records, publications=publications)
        done = hard.sinks.commit(query, epoch, messages, self._clock.now())
        hard.apply_all(done)
        await writer.submit_all(records=done, publications=())
        return messages

    return torn
