"""Times in the arguments of jobs."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import times


def timestamp_pb(text: str) -> Timestamp:
    """An RFC 3339 time, checked when the job was asked for."""
    time = Timestamp()
    time.FromDatetime(times.parse(text))
    return time
