"""P10, looked at while a world lives: what the server's default retention keeps.

In a world with a default retention, what is published to a topic without a retention of its own
stays for that long, whoever subscribes; unless the world bounds it to little, or its disk was full.
Then it stays within its bound. The disk says what was trimmed, and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fanlog.log.api import Commit, Trim
from fanlog.model.resources import PartitionId
from simulator.ledger import EPSILON_S

if TYPE_CHECKING:
    from simulator.world import World

#: A bound that no world comes near.
PLENTY_BYTES = 1 << 30


class Keeping:
    """What the disk of a world with a default retention says of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: Partitions of topics that ever had a retention of their own.
        self.retained: set[PartitionId] = set()
        #: The disk was full at some time: what was spare may be gone.
        self._was_full = False

    @property
    def _has_plenty(self) -> bool:
        return self._world.temper.topic_retention_bytes >= PLENTY_BYTES and not self._was_full

    def is_default(self, partition: PartitionId) -> bool:
        """Whether nothing but the default ever said how long a partition is kept."""
        topic = self._world.disk.on.get(partition)
        is_archived = self._world.tiering is not None and topic is not None
        return topic is not None and partition not in self.retained and not is_archived

    def committed(self, commit: Commit) -> Iterator[str]:
        """Learn of a commit; gives the sentences of what it breaks."""
        self._was_full = self._was_full or self._world.store.is_full
        for partition, topic in self._world.disk.on.items():
            if topic.message_retention_s is not None:
                self.retained.add(partition)
        for trim in commit.trims:
            if not trim.dropped and self._has_plenty and self.is_default(trim.partition):
                yield from self._trimmed(trim)

    def _trimmed(self, trim: Trim) -> Iterator[str]:
        last = self._world.chronicle.message(trim.partition, trim.before - 1)
        until_s = self._world.now - self._world.temper.topic_retention_s + EPSILON_S
        if last is not None and last.publish_ns / 1e9 > until_s:
            yield (
                f"P10: {trim.partition}:{trim.before - 1} was trimmed "
                f"{last.publish_ns / 1e9 - until_s:.3f} s before the default retention ended"
            )

    def check_bound(self, needed: set[PartitionId]) -> Iterator[str]:
        """When all is acknowledged: what only the default keeps is within its bound."""
        kept = [
            (position.partition, position.size_bytes)
            for position in self._world.store.positions(0, limit=1 << 60)
            if self.is_default(position.partition) and position.partition not in needed
        ]
        # A batch is there whole as long as one message of it is.
        slack = max((size_bytes for _, size_bytes in kept), default=0)
        slack *= len({partition for partition, _ in kept})
        total = sum(size_bytes for _, size_bytes in kept)
        if total > self._world.temper.topic_retention_bytes + slack:
            yield (
                f"P10: only the default keeps {total} bytes, at most "
                f"{self._world.temper.topic_retention_bytes} are allowed"
            )
