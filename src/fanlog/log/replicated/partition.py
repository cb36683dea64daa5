"""The partition of a shard, as the log needs it: a port, and its values.

A *partition* is an ordered list of records with dense offsets, kept on several machines: one of
Kafka's, or the one in `fanlog.testing.kafka_partition`. Several processes may append to it. All
methods block, and one thread at a time calls them; but `delete_before` may run beside any other.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Fetched(NamedTuple):
    """One record as it stands in the partition."""

    offset: int
    #: When the partition's leader appended it, ms since the epoch by that leader's clock.
    append_time_ms: int
    value: bytes


class Produced(NamedTuple):
    """The acknowledgement of a record by all replicas in sync."""

    #: Where the acknowledgement says it stands; -1 if it does not say.
    offset: int
    #: -1 if the acknowledgement does not say.
    append_time_ms: int


class Uncertain(NamedTuple):
    """A record that may stand in the partition, or may come until the producer is reset.

    An error, a time-out, a connection that broke: whatever is not an acknowledgement. After a reset
    it is not sent any more; what had been sent may still arrive.
    """

    reason: str


class PartitionBounds(NamedTuple):
    """Readable offsets: `start <= offset < end`; `end` counts what all replicas in sync have."""

    start: int
    end: int


class PartitionUnavailable(Exception):
    """The partition could not be asked: no leader, no connection, no answer in time. Try again."""


class OffsetGone(Exception):
    """The offset lies below the partition's start, or behind its end: it cannot be read.

    The sentence says which. Behind the end means that the partition lost records, or is another.
    """


class RecordTooLarge(Exception):
    """The partition refuses a record of that size. Definite: it was not appended."""


class Partition(Protocol):
    """One partition, for one process."""

    #: Name of the cluster that the partition belongs to.
    cluster: str

    def produce(self, value: bytes) -> Produced | Uncertain:
        """Append a record; returns when all replicas in sync have it, or when that is not known.

        At most one is under way. The producer may retry meanwhile, and must not send the record
        again after it has returned.

        Raises:
            RecordTooLarge: Nothing was appended.
        """

    def reset_producer(self) -> None:
        """Make the producer forget what it still has to send, and begin with another producer.

        Nothing of the old one is sent when this has returned; what it had sent may still arrive.
        Does not raise, and does not wait for the partition.
        """

    def fetch(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        """Records from `offset` on, in order, without gaps; [] when none came within `wait_s`.

        About `max_bytes`, and at least one record if there is one: a record that is larger comes
        whole. Only records that all replicas in sync have.

        Raises:
            PartitionUnavailable: It could not be asked within about `wait_s`.
            OffsetGone: The offset is not between the partition's bounds (its end included).
        """

    def bounds(self, *, wait_s: float) -> PartitionBounds:
        """The bounds, as of some moment after the call.

        Raises:
            PartitionUnavailable: It could not be asked within about `wait_s`.
        """

    def delete_before(self, offset: int) -> None:
        """Let the partition begin at `offset`, or leave it where it begins later already.

        Raises:
            PartitionUnavailable: It is not known whether that happened.
        """

    def close(self) -> None:
        """Release everything. Idempotent."""
