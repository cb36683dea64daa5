"""The topic that has the log of a cluster, as a node's server needs it: a port."""

from __future__ import annotations

from typing import Protocol

from fanlog.log.replicated.partition import Partition


class ShardTopic(Protocol):
    """The topic that has the log of a cluster. All of it blocks."""

    @property
    def name(self) -> str: ...

    @property
    def promise(self) -> str:
        """What a record that was acknowledged stands on; empty before it is known."""

    @property
    def problem(self) -> str:
        """What is wrong with it, as of the last look; empty when nothing is."""

    def prepare(self) -> None:
        """Make it if it is missing, and see that it keeps what is written to it.

        Raises:
            ConfigError: It would lose records, or cannot be made.
            Unavailable: Kafka does not answer.
        """

    def open(self) -> Partition:
        """Its partition; raises PartitionUnavailable."""

    def look(self) -> None:
        """See again whether it keeps what is written to it, if it is time to."""
