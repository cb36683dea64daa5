"""The log, looked through, and filters, tried: `fanlog.v1.Browse`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, TypedDict, Unpack

from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.client.connection import Connection
from fanlog.v1 import browse_pb2 as pb

_SERVICE: Final = "fanlog.v1.Browse"


class BrowseCriteria(TypedDict, total=False):
    """Which messages, and from where on; any of these."""

    topic: str
    subscription: str
    time: Timestamp | datetime
    offset: int
    message_id: str
    newest_first: bool
    ordering_key: str
    attributes: Mapping[str, str]
    filter: str
    max_messages: int
    max_data_bytes: int
    decode: bool


class BrowseClient:
    """Names are full, `projects/p/topics/t`. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def pages(self, **criteria: Unpack[BrowseCriteria]) -> Iterator[pb.BrowseMessagesResponse]:
        """Yield pages of messages, each with how far it looked; a page may have no message."""
        request = pb.BrowseMessagesRequest(**criteria)
        yield from self._connection.pages(
            f"{_SERVICE}/Messages", request, pb.BrowseMessagesResponse
        )

    def parse_filter(self, text: str) -> pb.ParseFilterResponse:
        """Give a filter as a tree in words, or the problem with it."""
        request = pb.ParseFilterRequest(filter=text)
        return self._connection.call(f"{_SERVICE}/ParseFilter", request, pb.ParseFilterResponse)

    def try_filter(
        self, text: str, topic: str, *, last: int = 0, samples: int = 0
    ) -> pb.TryFilterResponse:
        """Try a filter on the latest messages of a topic; 0 is the server's default."""
        request = pb.TryFilterRequest(filter=text, topic=topic, last=last, max_samples=samples)
        return self._connection.call(f"{_SERVICE}/TryFilter", request, pb.TryFilterResponse)
