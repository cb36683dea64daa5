"""Peeks, purges, backlogs and traces, `fanlog.v1.Inspection`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, TypedDict, Unpack

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.client.connection import Connection, ReplyT
from fanlog.v1 import inspection_pb2 as pb

_SERVICE: Final = "fanlog.v1.Inspection"


class Place(TypedDict, total=False):
    """A message of a subscription: one of these keys, or none."""

    message_id: str
    time: Timestamp | datetime


class ActPlace(TypedDict, total=False):
    """Where an act goes to: one of these keys, or none."""

    time: Timestamp | datetime
    snapshot: str
    position: str
    message_id: str


class InspectionClient:
    """Names are full, `projects/p/subscriptions/s`. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def peek(
        self, subscription: str, *, page_size: int = 0, **start: Unpack[Place]
    ) -> Iterator[pb.PeekedMessage]:
        """Yield the unacknowledged messages from a place on; nothing is leased or moved.

        Pages of `page_size` are asked for as they are needed: stop when it is enough.
        """
        request = pb.PeekRequest(subscription=subscription, max_messages=page_size, **start)
        for page in self._connection.pages(f"{_SERVICE}/Peek", request, pb.PeekResponse):
            yield from page.messages

    def purge(
        self, subscription: str, *, dry_run: bool = False, **before: Unpack[Place]
    ) -> pb.PurgeResponse:
        """Acknowledge all that is unacknowledged, or what is so before a place.

        Gives how many messages that were; with `dry_run`, how many it would be.
        """
        request = pb.PurgeRequest(subscription=subscription, dry_run=dry_run, **before)
        return self._call("Purge", request, pb.PurgeResponse)

    def backlog(self, subscription: str, *, by_topic: bool = False) -> pb.Backlog:
        """Give how far a subscription is behind; `by_topic`, of each topic of a pattern, too."""
        request = pb.GetBacklogRequest(subscription=subscription, by_topic=by_topic)
        return self._call("GetBacklog", request, pb.Backlog)

    def backlogs(self, project: str) -> Iterator[pb.Backlog]:
        """Yield the backlog of every subscription of `project`, given as `projects/{id}`."""
        request = pb.ListBacklogsRequest(project=project)
        method = f"{_SERVICE}/ListBacklogs"
        for page in self._connection.pages(method, request, pb.ListBacklogsResponse):
            yield from page.backlogs

    def trace(
        self, message_id: str, *, subscription: str = "", attributes: bool = False
    ) -> pb.TraceResponse:
        """Give where a message stands, on one subscription or on all, and what happened to it."""
        request = pb.TraceRequest(
            message_id=message_id, subscription=subscription, attributes=attributes
        )
        return self._call("Trace", request, pb.TraceResponse)

    def delivery(self, subscription: str) -> pb.Delivery:
        """Give how a subscription delivers: consumers, the health of its endpoint, counts."""
        request = pb.GetDeliveryRequest(subscription=subscription)
        return self._call("GetDelivery", request, pb.Delivery)

    def estimate(self, act: str, resource: str, **place: Unpack[ActPlace]) -> pb.EstimateResponse:
        """Give what an act would do, in numbers and in a sentence; nothing is done."""
        request = pb.EstimateRequest(act=act, resource=resource, **place)
        return self._call("Estimate", request, pb.EstimateResponse)

    def _call(self, method: str, request: Message, answer_type: type[ReplyT]) -> ReplyT:
        return self._connection.call(f"{_SERVICE}/{method}", request, answer_type)
