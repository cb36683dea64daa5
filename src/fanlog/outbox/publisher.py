"""The publisher of a relay: a port, and the broker's sink behind it.

An *epoch* of a *query* is published whole and once, for as long as a broker remembers the query.
Dedup ids would not do: a topic forgets them after a window, or when there are very many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fanlog.client.connection import TIMEOUT_S_DEFAULT, Connection
from fanlog.client.sink import SinkClient
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model.attributes import DEDUP_ID
from fanlog.v1 import sink_pb2

_METHODS: Final = ("stage", "commit", "abort", "last_epoch")


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A message of an outbox."""

    id: int
    topic: str
    data: bytes
    attributes: dict[str, str]
    ordering_key: str
    dedup_id: str


class EpochPublisher(Protocol):
    """What a relay asks of a publisher. Failures are errors of `fanlog.errors`."""

    def stage(
        self, query: str, epoch: int, attempt: str, rows: Sequence[OutboxRow]
    ) -> dict[int, str]:
        """Have rows ready to be published, in order; by index, those refused and why."""

    def commit(self, query: str, epoch: int, attempt: str) -> None:
        """Publish a staged attempt; nothing happens if the epoch was published before."""

    def abort(self, query: str, epoch: int) -> None:
        """Forget all attempts staged for an epoch, so that none of them is ever published."""

    def last_epoch(self, query: str) -> int:
        """The last epoch that a query has published; -1 for none that is remembered."""


def publisher_of(publisher: Any) -> EpochPublisher:
    """A publisher as it is, or one over a client.

    Raises:
        InvalidArgument: It is neither.
    """
    if isinstance(publisher, Connection):
        return SinkPublisher(publisher)
    missing = [name for name in _METHODS if not callable(getattr(publisher, name, None))]
    if missing:
        raise InvalidArgument(
            f"publisher: {type(publisher).__name__} is no fanlog.Client and has no "
            f"{', '.join(missing)}: without these a message could be published twice"
        )
    found: EpochPublisher = publisher
    return found


class SinkPublisher:
    """Publishes through a server's sink, `fanlog.v1.Sink`."""

    def __init__(self, connection: Connection) -> None:
        self._sink = SinkClient(connection)

    def stage(
        self, query: str, epoch: int, attempt: str, rows: Sequence[OutboxRow]
    ) -> dict[int, str]:
        key = sink_pb2.StageKey(query=query, epoch=epoch, attempt=attempt)
        by_topic: dict[str, list[int]] = {}
        for index, row in enumerate(rows):
            by_topic.setdefault(row.topic, []).append(index)
        requests: list[bytes] = []
        for topic, indexes in by_topic.items():
            request = sink_pb2.StageRequest(key=None if requests else key)
            staged = request.rows.add(topic=topic)
            for index in indexes:
                row = rows[index]
                staged.messages.add(
                    data=row.data,
                    attributes=row.attributes | {DEDUP_ID: row.dedup_id},
                    ordering_key=row.ordering_key,
                )
            requests.append(request.SerializeToString())
        reply = self._sink.stage(requests, timeout_s=TIMEOUT_S_DEFAULT)
        order = [index for indexes in by_topic.values() for index in indexes]
        return {order[one.row]: one.reason for one in reply.refused}

    def commit(self, query: str, epoch: int, attempt: str) -> None:
        key = sink_pb2.StageKey(query=query, epoch=epoch, attempt=attempt)
        self._sink.commit_epoch(query, epoch, [key])

    def abort(self, query: str, epoch: int) -> None:
        self._sink.abort_epoch(query, epoch)

    def last_epoch(self, query: str) -> int:
        return self._sink.last_epoch(query)


def status_of(error: FanlogError) -> str:
    """The gRPC name of what happened: of a call, or of an error in the same process."""
    return str(getattr(error, "status", "") or error.grpc_status)
