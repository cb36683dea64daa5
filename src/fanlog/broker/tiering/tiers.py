"""The tiers of each partition: where the hot log and the lake begin and end. A port.

A broker without a lake has one tier, the hot log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fanlog.core.records import Record
from fanlog.errors import FailedPrecondition
from fanlog.log.api import Log, Trim
from fanlog.model.resources import Offset, PartitionId, Topic


@dataclass(frozen=True, slots=True)
class Loss:
    """The messages of one partition that are given up."""

    topic: str
    partition: PartitionId
    #: Messages that are nowhere any more.
    messages: int
    #: Messages that the lake does not have, and that leave the hot log in their time.
    leaving: int
    #: Which offsets, those that are leaving included.
    ranges: Sequence[tuple[Offset, Offset]]
    #: First offset there is from then on.
    start: Offset


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The messages that are lost with a lake that has changed."""

    #: The lake that was relied on; empty for none.
    known_lake_id: str
    #: The one that is there; empty for none.
    lake_id: str
    #: The commit that the archive goes on behind.
    sequence: int
    losses: Sequence[Loss]
    #: Whether it is so from now on, or would be.
    is_accepted: bool


class Tiers(Protocol):
    """start <= archived and start <= hot_start, for every partition. Called on the loop."""

    @property
    def lake_uri(self) -> str:
        """Where the lake is; empty for none."""

    @property
    def lake_id(self) -> str: ...

    @property
    def archived_sequence(self) -> int:
        """Commits up to and with this one are in the lake, for every topic that is archived."""

    def start(self, partition: PartitionId) -> Offset:
        """First offset there is, hot or cold."""

    def hot_start(self, partition: PartitionId) -> Offset:
        """First offset that the hot log has."""

    def archived(self, partition: PartitionId) -> Offset:
        """Up to where the lake has the partition (exclusive)."""

    @property
    def alarm(self) -> str:
        """Why the lake cannot be relied on, in a sentence; empty when it can."""

    @property
    def damaged(self) -> Sequence[str]:
        """Places that could not be read although they should be there, a sentence each."""

    def keeps(self, topic: Topic) -> bool:
        """Whether a topic without a retention of its own is kept, in the lake."""

    def begin(self) -> None:
        """Begin to look at the lake; after the broker's own start."""

    async def stop(self) -> None:
        """Look no more; after the broker's own stop."""

    async def look(self, now: float) -> None:
        """Make ready for `let_go`. Called by every sweep, before it."""

    def let_go(
        self, partition: PartitionId, keep: Offset, start: Offset
    ) -> tuple[Sequence[Record], Trim | None]:
        """Let go of a partition that starts at `start` and is not needed below `keep`.

        Returns the records to apply and commit together with the trim.
        """

    async def report_archived(self, lake_id: str, table_version: int, sequence: int) -> int:
        """Look for oneself how far the lake has come; durable when this returns.

        Returns the sequence that was seen.

        Raises:
            FailedPrecondition: There is no lake, or it is another one.
        """

    async def accept_loss(self, *, confirm: bool) -> Acceptance:
        """Go on with the lake of now, and give up the rest; durable when this returns.

        Without `confirm` it only says which messages those would be.

        Raises:
            FailedPrecondition: There is no lake, or it cannot be looked at.
        """


class NoTiers:
    """There is no lake: all there is, is hot."""

    lake_uri = ""
    lake_id = ""
    archived_sequence = 0
    damaged: Sequence[str] = ()
    alarm = ""

    def __init__(self, store: Log) -> None:
        self._store = store

    def start(self, partition: PartitionId) -> Offset:
        return self._store.bounds(partition).start

    def hot_start(self, partition: PartitionId) -> Offset:
        return self._store.bounds(partition).start

    def archived(self, partition: PartitionId) -> Offset:
        """Nothing: the lake's part ends where the partition starts."""
        return self._store.bounds(partition).start

    def keeps(self, topic: Topic) -> bool:
        return False

    def begin(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def look(self, now: float) -> None:
        pass

    def let_go(
        self, partition: PartitionId, keep: Offset, start: Offset
    ) -> tuple[Sequence[Record], Trim | None]:
        return (), Trim(partition=partition, before=keep) if keep > start else None

    async def report_archived(self, lake_id: str, table_version: int, sequence: int) -> int:
        raise FailedPrecondition("this broker has no lake")

    async def accept_loss(self, *, confirm: bool) -> Acceptance:
        raise FailedPrecondition("this broker has no lake")
