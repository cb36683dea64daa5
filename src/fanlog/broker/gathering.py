"""A commit in the making, and whether it is worth its while to wait for more to come into it.

A commit costs the same for one small publish as for two, and so does the delivery that follows it.
When publishes come singly and so fast that the writer is busy half of the time, one that finds the
writer idle waits for the next one: half the commits, and half the wake-ups of subscribers. No
clock, no loop; the writer has both.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from fanlog.core.records import Record
from fanlog.log.api import Trim
from fanlog.log.batch import Body
from fanlog.model.resources import Offset, PartitionId, TopicId

#: Messages to append, all or nothing, to one partition: its topic, and the offset of the first.
Publication = tuple[TopicId, PartitionId, Offset, Body]

#: Longest that a publish waits for a second one.
COMPANY_S: Final = 0.002
#: A commit of so many publishes waits for no more; nor does one of this part of those that a
#: publish met of late, so that callers with many under way stay together in few commits.
_ENOUGH: Final = 2
_PART: Final = 0.3
#: The part of the publishes that meet another before one waits, and how fast it is learnt.
_BUSY: Final = 0.35
_STEP: Final = 1 / 32
#: The part of the publishes that may be kept waiting: less than half, so the median one is not.
_PATIENCE: Final = 0.45


@dataclass(slots=True)
class Gathering:
    """One commit in the making."""

    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    bodies: dict[PartitionId, list[Body]] = field(default_factory=dict)
    bases: dict[PartitionId, tuple[TopicId, Offset]] = field(default_factory=dict)
    #: The offset after the last message in each partition.
    ends: dict[PartitionId, Offset] = field(default_factory=dict)
    #: Of the bodies, those with messages that ask for something, and where they begin.
    asking: list[tuple[PartitionId, Offset, Body]] = field(default_factory=list)
    records: dict[bytes, Record] = field(default_factory=dict)
    trims: list[Trim] = field(default_factory=list)
    #: Of the publishers.
    size_bytes: int = 0
    #: At most so many in the log, state included where the log has a bound for it.
    stored_bytes: int = 0
    #: Whether a transaction was told that it will be in this commit.
    is_promised: bool = False
    count: int = 0
    #: Transactions in it that publish.
    publish_count: int = 0
    #: Whether it has records that wait for no publish.
    is_urgent: bool = False
    started_s: float = 0.0
    publish_time_ns: int = 0


class Crowd:
    """How often a publish meets another one on its way to the disk.

    Of publishes that come at any time, the part that finds the writer busy is the part of the time
    that it is. A caller that waits for its answer before it sends the next never meets itself, so
    it is not kept waiting for company that cannot come.
    """

    __slots__ = ("_depth", "_patience", "_share")

    def __init__(self) -> None:
        self._share = 0.0
        self._depth = 0.0
        #: How many publishes may still be kept waiting.
        self._patience = 0.0

    def come(self, others: int) -> None:
        """A publish was submitted, and met so many others, in the running commit or gathered."""
        self._share += _STEP * ((others > 0) - self._share)
        self._depth += _STEP * (others - self._depth)
        self._patience = min(self._patience + _PATIENCE, 2.0)

    def try_wait(self, publish_count: int) -> bool:
        """Whether a commit of so few publishes should begin to wait for more; it does then."""
        if not publish_count or self._share <= _BUSY or self.is_enough(publish_count):
            return False
        if self._patience < 1:
            return False
        self._patience -= 1
        return True

    def is_enough(self, publish_count: int) -> bool:
        """Whether a commit that waits has as many publishes as are likely to come soon."""
        return publish_count >= max(_ENOUGH, _PART * self._depth)
