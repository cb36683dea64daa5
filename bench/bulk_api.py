"""fanlog.v1 for a load generator: the log read as bytes, and rows staged from bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import grpc

from bench.api import CALL_TIMEOUT_S
from fanlog.v1 import log_pb2, sink_pb2

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)


class BulkApi:
    """One connection to one server."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)

    def __enter__(self) -> BulkApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def read_request(self, topic: str) -> bytes:
        """A request for all that a topic has."""
        selection = log_pb2.TopicSelection(topics=[topic])
        request = log_pb2.GetOffsetsRequest(selection=selection)
        raw = self._unary("Log/GetOffsets", request)
        [one] = log_pb2.GetOffsetsResponse.FromString(raw).partitions
        whole = log_pb2.Range(topic=topic, partition=one.partition, start=one.start, end=one.end)
        made: bytes = log_pb2.ReadRequest(ranges=[whole]).SerializeToString()
        return made

    def read(self, request: bytes) -> Iterator[bytes]:
        """The answers as they come; nothing is decoded."""
        call: Any = self._channel.unary_stream("/fanlog.v1.Log/Read")
        answers: Iterator[bytes] = call(request)
        return answers

    def stage(self, key: Any, rows: Iterable[bytes]) -> int:
        """Stage serialised `StagedRows`; how many rows were taken."""
        first = sink_pb2.StageRequest(key=key).SerializeToString()
        call: Any = self._channel.stream_unary("/fanlog.v1.Sink/Stage")
        answer = sink_pb2.StageResponse.FromString(
            call(iter([first, *rows]), timeout=CALL_TIMEOUT_S)
        )
        return int(answer.messages)

    def commit(self, query: str, epoch: int, keys: Iterable[Any]) -> int:
        request = sink_pb2.CommitEpochRequest(query=query, epoch=epoch, stages=keys)
        raw = self._unary("Sink/CommitEpoch", request)
        return int(sink_pb2.CommitEpochResponse.FromString(raw).messages)

    def _unary(self, method: str, request: Any) -> bytes:
        call: Any = self._channel.unary_unary(f"/fanlog.v1.{method}")
        return bytes(call(request.SerializeToString(), timeout=CALL_TIMEOUT_S))
