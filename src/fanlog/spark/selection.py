"""Where the topics of a read stand, asked of the broker by the driver."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.client.log import LogClient
from fanlog.errors import FailedPrecondition
from fanlog.lake import inspection
from fanlog.lake.location import Location
from fanlog.spark.options import ReadOptions
from fanlog.spark.plan import PartitionExtent
from fanlog.v1 import log_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStanding:
    """Where the topics of a read stand at one moment."""

    log_id: str
    #: Of the last commit.
    sequence: int
    archived_sequence: int
    parts: tuple[PartitionExtent, ...]
    #: Of the subscription that is read; empty for none.
    filter: str
    lake_uri: str
    lake_id: str

    @property
    def location(self) -> Location | None:
        """Where the lake is said to be; None when there is none."""
        return Location.parse(self.lake_uri) if self.lake_uri else None

    def lake(self) -> Location | None:
        """The lake, after a look whether it is the broker's; None when there is none.

        Raises:
            FailedPrecondition: Another lake is there, or an older copy: rows would be missing.
            LakeError: It cannot be opened.
        """
        if not self.lake_uri:
            return None
        location = self.location
        assert location is not None
        found = inspection.standing(location, self.log_id)
        if found.lake_id != self.lake_id:
            raise FailedPrecondition(
                f"the lake at {self.lake_uri} is {found.lake_id}; the broker archives to "
                f"{self.lake_id}"
            )
        if found.sequence < self.archived_sequence:
            raise FailedPrecondition(
                f"the lake at {self.lake_uri} is an older copy: it has commits up to "
                f"{found.sequence}, and {self.archived_sequence} were archived"
            )
        return location


def selection_pb(options: ReadOptions) -> log_pb2.TopicSelection:
    """The topics that the options select, as the broker is told."""
    return log_pb2.TopicSelection(
        topics=options.topics, pattern=options.pattern, subscription=options.subscription
    )


def ask_standing(log: LogClient, options: ReadOptions) -> TopicStanding:
    """Ask where the topics of a read stand, all as of one commit."""
    answer = log.get_offsets(selection_pb(options))
    return TopicStanding(
        log_id=answer.log_id,
        sequence=answer.sequence,
        archived_sequence=answer.archived_sequence,
        parts=tuple(
            PartitionExtent(part.topic, part.partition, part.start, part.hot_start, part.end)
            for part in answer.partitions
        ),
        filter=answer.filter,
        lake_uri=answer.lake_uri,
        lake_id=answer.lake_id,
    )


def find_offsets(
    log: LogClient, options: ReadOptions, at: TopicStanding, time_us: int
) -> dict[int, int]:
    """The first offset at or after a time, by partition; messages later than `at` do not count."""
    found = log.find_offsets(selection_pb(options), time_us)
    return {part.partition: min(found.get(part.partition, part.end), part.end) for part in at.parts}
