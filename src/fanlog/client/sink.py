"""Publishing in bulk, `fanlog.v1.Sink`, over a `Connection`: stage rows, commit epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fanlog.client.connection import Connection
from fanlog.v1 import sink_pb2

_SERVICE: Final = "fanlog.v1.Sink"


class SinkClient:
    """Publishes epochs of queries, each once. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def stage(
        self, requests: Iterable[bytes], *, timeout_s: float | None = None
    ) -> sink_pb2.StageResponse:
        """Stage the rows of serialised StageRequests; the reply names those that are refused."""
        return self._connection.upload(
            f"{_SERVICE}/Stage", requests, sink_pb2.StageResponse, timeout_s=timeout_s
        )

    def commit_epoch(
        self, query: str, epoch: int, stages: Sequence[sink_pb2.StageKey]
    ) -> sink_pb2.CommitEpochResponse:
        """Publish stages; an epoch that is committed already changes nothing."""
        request = sink_pb2.CommitEpochRequest(query=query, epoch=epoch, stages=stages)
        return self._connection.call(
            f"{_SERVICE}/CommitEpoch", request, sink_pb2.CommitEpochResponse
        )

    def abort_epoch(self, query: str, epoch: int) -> None:
        """Forget the stages of an epoch."""
        request = sink_pb2.AbortEpochRequest(query=query, epoch=epoch)
        self._connection.call(f"{_SERVICE}/AbortEpoch", request, sink_pb2.AbortEpochResponse)

    def last_epoch(self, query: str) -> int:
        """The last epoch that a query has committed; -1 for none that is remembered."""
        request = sink_pb2.GetQueryRequest(query=query)
        reply = self._connection.call(f"{_SERVICE}/GetQuery", request, sink_pb2.GetQueryResponse)
        return reply.last_epoch
