"""Times as jobs are given them."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp


def timestamp_pb(text: str) -> Timestamp:
    """An RFC 3339 time, checked when the job was asked for."""
    time = Timestamp()
    time.FromDatetime(datetime.fromisoformat(text))
    return time
