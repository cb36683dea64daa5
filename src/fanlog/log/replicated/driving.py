"""Steps carried out against a partition without a cache: for programs that are no node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from fanlog.log.replicated import steps
from fanlog.log.replicated.partition import Fetched, Partition, PartitionUnavailable
from fanlog.log.replicated.steps import Steps

Result = TypeVar("Result")

FETCH_BYTES = 8 * 1024 * 1024
WAIT_S = 1.0
PAUSE_S = 0.05
#: How long the partition is asked again while it does not answer.
PATIENCE_S = 60.0


class StepsDriver:
    """Drives steps, and asks again for a while when the partition cannot be asked."""

    def __init__(self, partition: Partition, *, patience_s: float = PATIENCE_S) -> None:
        self.partition = partition
        self._patience_s = patience_s

    def drive(self, running: Steps[Result]) -> Result:
        """Carry out steps.

        Raises:
            PartitionUnavailable, OffsetGone, RecordTooLarge, StoryBroken: As the steps do.
        """
        try:
            operation = next(running)
            while True:
                try:
                    answer = self._carry_out(operation)
                except Exception as error:
                    operation = running.throw(error)
                else:
                    operation = running.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result

    def patiently(self, ask: Callable[[], Result]) -> Result:
        """What `ask` returns, asked again while the partition is unavailable."""
        until_s = time.monotonic() + self._patience_s
        while True:
            try:
                return ask()
            except PartitionUnavailable:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(PAUSE_S)

    def fetch(self, offset: int) -> list[Fetched]:
        """Some records from an offset on, which are there."""
        return self.patiently(lambda: self._fetch(offset))

    def _fetch(self, offset: int) -> list[Fetched]:
        records = self.partition.fetch(offset, max_bytes=FETCH_BYTES, wait_s=WAIT_S)
        if not records:
            raise PartitionUnavailable(f"the record at offset {offset} does not come")
        return records

    def _carry_out(self, operation: steps.Operation) -> Any:
        match operation:
            case steps.Produce():
                return self.partition.produce(operation.value)
            case steps.ResetProducer():
                return self.partition.reset_producer()
            case steps.ReadEnd():
                return self.patiently(lambda: self.partition.bounds(wait_s=WAIT_S)).end
            case steps.Fetch():
                return self.fetch(operation.offset)
            case steps.Apply():
                return None
