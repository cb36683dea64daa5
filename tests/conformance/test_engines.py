"""The engines that ship, held to the published suite."""

from __future__ import annotations

from pathlib import Path

from fanlog.log.api import Log
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.conformance import LogConformance
from fanlog.testing.damage import damage_batch


class TestMemoryLog(LogConformance):
    def make_log(self, place: Path) -> Log:
        return MemoryLog()

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        assert isinstance(log, MemoryLog)
        values = log._partitions[partition].values
        value = bytearray(values[base_offset])
        value[-1] ^= 1
        values[base_offset] = bytes(value)
        return log


class TestEmbeddedLog(LogConformance):
    def make_log(self, place: Path) -> Log:
        return EmbeddedLog(place / "data")

    def reopen(self, log: Log, place: Path) -> Log:
        log.close()
        return EmbeddedLog(place / "data")

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        log.close()
        damage_batch(place / "data", partition, base_offset)
        return EmbeddedLog(place / "data")
