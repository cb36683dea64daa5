"""Replicated logs on one topic in memory, whose clocks and boots a test decides."""

from __future__ import annotations

import time
from pathlib import Path

from fanlog.log.api import Log
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.partition import OffsetGone
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.state_feed import StateListener
from fanlog.testing.kafka_partition import KafkaTopic, MemoryPartition


class StepClock:
    """The machine's clocks, and a wall clock that is set wrong."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        #: Time that has passed and that no test waits for.
        self.passed_s = 0.0

    def boottime_s(self) -> float:
        return time.monotonic() + self.passed_s

    def wall_ns(self) -> int:
        return time.time_ns() + int((self.ahead_s + self.passed_s) * 1e9)


class ReplicaNodes:
    """Nodes by name; one that is opened again goes on from its cache."""

    def __init__(self, place: Path, topic: KafkaTopic) -> None:
        self._place = place
        self.topic = topic
        self.clocks: dict[str, StepClock] = {}
        self._open: list[ReplicatedLog] = []

    def cache_dir(self, name: str) -> Path:
        return self._place / name

    def make(
        self,
        name: str,
        *,
        boot_id: str = "boot",
        topic: KafkaTopic | None = None,
        pace: UpkeepPace | None = None,
        listener: StateListener | None = None,
    ) -> ReplicatedLog:
        clock = self.clocks.setdefault(name, StepClock())
        chosen = topic or self.topic
        log = ReplicatedLog(
            self.cache_dir(name),
            lambda: MemoryPartition(chosen, waits=False),
            name.encode(),
            on_change=lambda: None,
            clock=clock,
            pace=pace,
            boot_id=boot_id,
            patience_s=0.0,
            listener=listener,
        )
        self._open.append(log)
        return log

    def owner(self, name: str, *, pace: UpkeepPace | None = None) -> ReplicatedLog:
        log = self.make(name, pace=pace)
        assert log.take_over(), log.standing.sentence
        return log

    def close(self) -> None:
        for log in self._open:
            log.close()


def read_some(log: ReplicatedLog) -> None:
    """Follow once, on this thread; begin again if the partition was trimmed meanwhile."""
    try:
        log._follow()
    except OffsetGone:
        log._follow()


def read_all(log: ReplicatedLog) -> None:
    """Follow to the end, on this thread."""
    while True:
        before = log.standing.applied_offset, log.standing.started_over
        read_some(log)
        if (log.standing.applied_offset, log.standing.started_over) == before:
            return


def messages_in(log: Log) -> int:
    """How many messages the log has in all partitions."""
    return sum(bounds.end - bounds.start for bounds in log.partitions().values())
