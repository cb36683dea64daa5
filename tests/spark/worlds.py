"""A broker with a lake, on a clock that a test can move and step."""

from __future__ import annotations

import os
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from acceptance.served import PATIENCE_S
from fanlog.broker.clock import ManualClock
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from server.conftest import LoopThread, RunningServer
from spark.conftest import config_in
from spark.reading import kept_topic, payloads, table
from spark.stepwise import Steps

DAY_S = 24 * 3600.0


class SteppingClock(ManualClock):
    """A clock whose wall can be stepped; what is steady stays so."""

    step_s = 0.0

    def wall_ns(self) -> int:
        return super().wall_ns() + int(self.step_s * 1e9)


class World:
    """A broker with a lake."""

    def __init__(self, loop: LoopThread, folder: Path, lake: Path) -> None:
        self.clock = SteppingClock()
        self.lake = lake
        self.location = Location.parse(str(lake))
        config = config_in(folder / "data", lake=str(lake))
        self.server = RunningServer(loop, config, self.clock)
        self.server.await_lake()
        self.topic = kept_topic(self.server, hours=24 * 7)
        self.published: list[bytes] = []

    def publish(self, count: int = 10, size_bytes: int = 0) -> None:
        first = len(self.published)
        data = [b"%d " % number + os.urandom(size_bytes) for number in range(first, first + count)]
        self.server.publish(self.topic, *data)
        self.published += data

    def steps(self, offset: dict[str, Any] | None = None) -> Steps:
        return Steps(self.server.endpoint, self.location, offset)

    def tiers(self) -> tuple[int, int, int]:
        """Hot start, archived, end."""
        [partition] = self.server.broker.hard.catalog.topic(self.topic).partitions
        tiers = self.server.broker.tiers
        end = self.server.broker.ledger.end(partition)
        return tiers.hot_start(partition), tiers.archived(partition), end

    def pass_time(self, seconds: float) -> None:
        self.server.advance(seconds)
        self.server.sweep()

    def in_lake(self) -> Counter[bytes]:
        rows = open_table(self.location, MESSAGES).to_pyarrow_table(columns=["topic", "data"])
        pairs = zip(rows["topic"].to_pylist(), rows["data"].to_pylist(), strict=True)
        return Counter(data for topic, data in pairs if topic == self.topic)

    def table(self, name: str) -> Any:
        """Another table of the lake, whole."""
        return DeltaTable(self.location.table_uri(name)).to_pyarrow_table()

    def check(self, *, archived: int | None = None) -> None:
        """Everything is in the log or the lake, in order; so many of it are in the lake, once."""
        count = len(self.published) if archived is None else archived
        assert self.in_lake() == Counter(self.published[:count])
        assert payloads(table(self.server, topic=self.topic)) == self.published

    def readiness(self) -> str:
        with urllib.request.urlopen(self.server.http("/readyz"), timeout=PATIENCE_S) as response:
            return str(response.read().decode())
