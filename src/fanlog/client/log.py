"""The log's own service, `fanlog.v1.Log`, over a `Connection`: offsets, stored batches, reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fanlog.client.connection import Connection
from fanlog.model import jobs
from fanlog.v1 import log_pb2

_SERVICE: Final = "fanlog.v1.Log"


class LogClient:
    """Reads the log past all subscriptions. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def describe(self) -> log_pb2.GetOffsetsResponse:
        """The log's id, its lake, and up to which commit that lake has it; no partitions."""
        # A pattern, because the topic of jobs need not exist: only the rest of the reply is wanted.
        return self.get_offsets(log_pb2.TopicSelection(pattern=jobs.TOPIC))

    def get_offsets(self, selection: log_pb2.TopicSelection) -> log_pb2.GetOffsetsResponse:
        """Where the selected topics begin and end, in both tiers, all as of one commit."""
        request = log_pb2.GetOffsetsRequest(selection=selection)
        return self._connection.call(f"{_SERVICE}/GetOffsets", request, log_pb2.GetOffsetsResponse)

    def get_ranges(
        self,
        selection: log_pb2.TopicSelection,
        after_sequence: int,
        to_sequence: int,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
    ) -> log_pb2.GetRangesResponse:
        """The offsets that some commits appended; the reply says up to which commit it goes."""
        request = log_pb2.GetRangesRequest(
            selection=selection,
            after_sequence=after_sequence,
            to_sequence=to_sequence,
            max_messages=max_messages,
            max_bytes=max_bytes,
        )
        return self._connection.call(f"{_SERVICE}/GetRanges", request, log_pb2.GetRangesResponse)

    def find_offsets(self, selection: log_pb2.TopicSelection, time_us: int) -> dict[int, int]:
        """The first offset published at or after a time, by partition."""
        request = log_pb2.FindOffsetsRequest(selection=selection)
        seconds, micros = divmod(time_us, 1_000_000)
        request.time.seconds, request.time.nanos = seconds, micros * 1_000
        found = self._connection.call(
            f"{_SERVICE}/FindOffsets", request, log_pb2.FindOffsetsResponse
        )
        return {each.partition: each.offset for each in found.offsets}

    def get_places(self, selection: log_pb2.TopicSelection) -> Sequence[log_pb2.PartitionPlaces]:
        """Where messages stand that came behind gaps in their publishers' numbers."""
        request = log_pb2.GetPlacesRequest(selection=selection)
        return self._connection.call(
            f"{_SERVICE}/GetPlaces", request, log_pb2.GetPlacesResponse
        ).partitions

    def read(self, ranges: Sequence[log_pb2.Range]) -> Iterator[log_pb2.ReadResponse]:
        """Yield the stored batches that hold some offsets, no faster than they are taken."""
        request = log_pb2.ReadRequest(ranges=ranges)
        return self._connection.stream(f"{_SERVICE}/Read", request, log_pb2.ReadResponse)

    def report_archived(self, *, lake_id: str, table_version: int, sequence: int) -> None:
        """Tell the broker up to which commit the lake has the log."""
        request = log_pb2.ReportArchivedRequest(
            lake_id=lake_id, table_version=table_version, sequence=sequence
        )
        self._connection.call(f"{_SERVICE}/ReportArchived", request, log_pb2.ReportArchivedResponse)
