"""The engines that ship, held to the published suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fanlog.log.api import Log
from fanlog.log.batch import Batch
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.memory import MemoryLog
from fanlog.log.plain import encode_plain
from fanlog.log.replicated.partition import Partition
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.conformance import LogConformance
from fanlog.testing.damage import damage_batch
from fanlog.testing.kafka_partition import KafkaTopic, MemoryPartition
from fanlog.testing.replicated_conformance import ReplicatedConformance


class TestMemoryLog(LogConformance):
    def make_log(self, place: Path) -> Log:
        return MemoryLog()

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        assert isinstance(log, MemoryLog)
        values = log._partitions[partition].values
        stored = values[base_offset]
        assert isinstance(stored, bytes)
        value = bytearray(stored)
        value[-1] ^= 1
        values[base_offset] = bytes(value)
        return log


class TestMemoryLogOfBatches(TestMemoryLog):
    def make_log(self, place: Path) -> Log:
        return MemoryLog(keeps_batches=True)

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        assert isinstance(log, MemoryLog)
        values = log._partitions[partition].values
        value = values[base_offset]
        if isinstance(value, Batch):
            values[base_offset] = encode_plain(value)
        return super().damage(log, place, partition, base_offset)


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


class TestReplicatedLog(ReplicatedConformance):
    def setup_method(self) -> None:
        self._topics: dict[Path, KafkaTopic] = {}

    def opener(self, place: Path) -> Callable[[], Partition]:
        topic = self._topics.setdefault(place, KafkaTopic())
        return lambda: MemoryPartition(topic)
