"""The lake as the tiers see it, a port: its standing, the offsets in it, and cold reads.

`LakeTiers` and `TieredLog` are rules, and know the lake by this port alone. `ColdReader` is the one
over Delta tables; a simulator has another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pyroaring import BitMap64

from fanlog.core.cursor import runs as edges
from fanlog.log.api import Bounds, Damaged
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId, TopicId


class RowRun(NamedTuple):
    """Rows that follow each other in a file and in their partition."""

    partition: int
    #: Offset of the first.
    first: int
    rows: int

    @property
    def end(self) -> int:
        return self.first + self.rows


@dataclass(frozen=True, slots=True)
class LakeStanding:
    """A lake as it is now."""

    lake_id: str
    table_version: int
    #: Commits of the log up to and with this one are in it, as the table says.
    sequence: int


@dataclass(frozen=True, slots=True)
class Content:
    """The offsets of each partition in some files: runs in order, joined where they meet."""

    runs: dict[int, list[RowRun]] = field(default_factory=dict)
    #: Sentences about files that cannot be read.
    damaged: list[str] = field(default_factory=list)
    #: Sentences about offsets that are there twice.
    doubled: list[str] = field(default_factory=list)

    def covers(self, partition: int, start: int, end: int, *, but: BitMap64 | None = None) -> bool:
        """Whether some offsets are all there, but for those that need not be."""
        at = start
        for run in self.runs.get(partition, ()):
            if at >= end:
                break
            if run.first > at and not _all_in(but, at, min(run.first, end)):
                return False
            at = max(at, run.end)
        return at >= end or _all_in(but, at, end)

    def without(self, damaged: Iterable[Damaged]) -> Content:
        """The same content without the offsets that turned out not to be readable."""
        bad: dict[int, list[tuple[int, int]]] = {}
        for one in damaged:
            bad.setdefault(one.partition, []).append((one.base_offset, one.base_offset + one.count))
        runs = dict(self.runs)
        for partition, ranges in bad.items():
            left = BitMap64()
            for run in runs.get(partition, ()):
                left.add_range(run.first, run.end)
            for first, end in ranges:
                left.remove_range(first, end)
            runs[partition] = [RowRun(partition, low, high - low) for low, high in edges(left)]
        return Content(runs, list(self.damaged), list(self.doubled))

    def gather(self, found: dict[int, list[RowRun]]) -> None:
        """Take in runs of each partition, in any order."""
        for partition, runs in found.items():
            joined: list[RowRun] = []
            for run in sorted(runs):
                last = joined[-1] if joined else None
                if last is not None and run.first < last.end:
                    self.doubled.append(
                        f"offset {run.first} of partition {partition} is in the lake twice"
                    )
                if last is not None and run.first <= last.end:
                    joined[-1] = RowRun(partition, last.first, max(last.end, run.end) - last.first)
                else:
                    joined.append(run)
            self.runs[partition] = joined


def _all_in(offsets: BitMap64 | None, start: int, end: int) -> bool:
    return offsets is not None and BitMap64(range(start, end)).issubset(offsets)


class LakeBeliefs:
    """The broker's beliefs about the lake, from its hard state; without a broker, these.

    All is hot, any lake is right, and messages that cannot be read are passed over.
    """

    def topic_of(self, partition: PartitionId) -> TopicId:
        """The topic that batches of a partition name. May be called in threads."""
        return TopicId(0)

    def is_right(self, lake_id: str, table_version: int) -> bool:
        """Whether a lake of that id, whose table is at that version, has the archived messages.

        No other lake is read from: messages that it lacks would be taken for damaged.
        """
        return True

    def cold_bounds(self, partition: PartitionId) -> Bounds | None:
        """The offsets of a partition that the lake has; None for none."""
        return None

    @property
    def trouble(self) -> str:
        """Why the lake is not to be read now; empty when it may be."""
        return ""

    def given_up(self, damaged: Damaged) -> int:
        """How many offsets from one on may be passed over when the lake cannot give them."""
        return damaged.count


class Lake(Protocol):
    """One lake, as the broker sees it. Lives on the broker's loop; nothing here blocks it.

    Methods raise `LakeError`, `LakeUnavailable` or `OSError` when the lake cannot be read.
    """

    def follow(self, beliefs: LakeBeliefs) -> None:
        """Read as a broker believes, from now on; called once, when its tiers are made."""

    @property
    def uri(self) -> str:
        """Where it is."""

    async def ensure(self) -> str:
        """Make the lake if there is none; its id."""

    async def standing(self, log_id: str) -> LakeStanding:
        """How it stands, for the log of that id."""

    async def whole_content(self) -> Content:
        """The offsets in all files, by their own footers."""

    async def content_after(
        self,
        table_version: int,
        *,
        after_sequence: int,
        to_sequence: int,
        synced_version: int,
    ) -> Content:
        """The offsets that the commits after one up to and with another added, from the rows.

        Before this returns, those rows and the table's log from `synced_version` on are durable.
        """

    async def refresh(self) -> None:
        """See the table as it is now, for reads; one that is not right is not looked at."""

    async def read(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[Batch | Damaged]:
        """Batches from the one that holds `offset` on, up to about `max_bytes`; at least one.

        Offsets before `end` are in the lake: missing ones are reported as damaged. A batch may
        reach beyond `end`.
        """

    async def offset_for_time(
        self, partition: PartitionId, time_ns: int, *, start: Offset, end: Offset
    ) -> Offset:
        """First offset from `start` on with a publish time at or after `time_ns`; `end` if none."""

    async def close(self) -> None: ...
