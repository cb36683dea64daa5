"""The services of `fanlog.v1` as a client calls them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import grpc
import pytest

from fanlog.log import batch as codec
from fanlog.v1 import log_pb2 as pb
from fanlog.v1 import sink_pb2 as sink_pb
from fanlog.v1.message_pb2 import Message
from fanlog.wire import types
from server.conftest import PATIENCE_S


class Served(Protocol):
    def channel(self) -> grpc.Channel: ...


class LogClient:
    """fanlog.v1.Log of one server."""

    def __init__(self, server: Served) -> None:
        self._channel = server.channel()

    def close(self) -> None:
        self._channel.close()

    def raw(self, method: str, request: bytes) -> bytes:
        call: Any = self._channel.unary_unary(f"/fanlog.v1.Log/{method}")
        return bytes(call(request, timeout=PATIENCE_S))

    def offsets(self, *topics: str, **selection: Any) -> Any:
        chosen = pb.TopicSelection(topics=topics, **selection)
        request = pb.GetOffsetsRequest(selection=chosen)
        return pb.GetOffsetsResponse.FromString(self.raw("GetOffsets", request.SerializeToString()))

    def ranges(self, after: int, to: int, *topics: str, **fields: Any) -> Any:
        selection = {n: fields.pop(n) for n in ("pattern", "subscription") if n in fields}
        request = pb.GetRangesRequest(
            selection=pb.TopicSelection(topics=topics, **selection),
            after_sequence=after,
            to_sequence=to,
            **fields,
        )
        return pb.GetRangesResponse.FromString(self.raw("GetRanges", request.SerializeToString()))

    def find(self, time_s: float, *topics: str, **selection: Any) -> dict[str, int]:
        request = pb.FindOffsetsRequest(selection=pb.TopicSelection(topics=topics, **selection))
        request.time.FromNanoseconds(int(time_s * 1e9))
        raw = self.raw("FindOffsets", request.SerializeToString())
        return {one.topic: one.offset for one in pb.FindOffsetsResponse.FromString(raw).offsets}

    def places(self, *topics: str, **selection: Any) -> Any:
        chosen = pb.TopicSelection(topics=topics, **selection)
        raw = self.raw("GetPlaces", pb.GetPlacesRequest(selection=chosen).SerializeToString())
        return pb.GetPlacesResponse.FromString(raw).partitions

    def read(self, *ranges: Any, timeout_s: float = PATIENCE_S) -> Iterator[Any]:
        """The answers of a Read, as they come; errors are grpc.RpcError."""
        return self.read_raw(pb.ReadRequest(ranges=ranges).SerializeToString(), timeout_s)

    def read_raw(self, request: bytes, timeout_s: float = PATIENCE_S) -> Iterator[Any]:
        call: Any = self._channel.unary_stream("/fanlog.v1.Log/Read")
        return map(pb.ReadResponse.FromString, call(request, timeout=timeout_s))

    def range_of(self, topic: str) -> Any:
        """All that a topic of one partition has."""
        [one] = self.offsets(topic).partitions
        return pb.Range(topic=topic, partition=one.partition, start=one.start, end=one.end)

    def data(self, *ranges: Any) -> list[bytes]:
        """The data of all messages of some ranges, whose batches need not end with them."""
        found: list[bytes] = []
        for answer in self.read(*ranges):
            found += data_of(answer.batches, ranges[answer.range])
        return found


def data_of(values: Iterable[bytes], one: Any) -> list[bytes]:
    """The data of messages in stored batches, as far as they are of a range."""
    found: list[bytes] = []
    for value in values:
        batch = codec.decode(value)
        messages = types.PublishRequest.FromString(batch.content).messages
        offsets = range(batch.base_offset, batch.end_offset)
        found += [
            message.data
            for offset, message in zip(offsets, messages, strict=True)
            if one.start <= offset < one.end
        ]
    return found


def code_of(refused: pytest.ExceptionInfo[grpc.RpcError]) -> str:
    """The name of the status a call was refused with."""
    return str(refused.value.code().name)


class SinkClient:
    """fanlog.v1.Sink of one server, as one query."""

    def __init__(self, server: Served, query: str) -> None:
        self._channel = server.channel()
        self.query = query

    def close(self) -> None:
        self._channel.close()

    def raw(self, method: str, request: bytes) -> bytes:
        call: Any = self._channel.unary_unary(f"/fanlog.v1.Sink/{method}")
        return bytes(call(request, timeout=PATIENCE_S))

    def stage_raw(self, requests: Iterable[bytes]) -> Any:
        call: Any = self._channel.stream_unary("/fanlog.v1.Sink/Stage")
        answer = call(iter(requests), timeout=PATIENCE_S)
        return sink_pb.StageResponse.FromString(answer)

    def key(self, epoch: int, partition: int = 0, attempt: str = "a") -> Any:
        return sink_pb.StageKey(query=self.query, epoch=epoch, partition=partition, attempt=attempt)

    def stage(self, key: Any, *rows: tuple[str, Sequence[Any]]) -> Any:
        """Stage messages, or data alone, for each topic; one request for each."""
        requests = [sink_pb.StageRequest(key=key)]
        for topic, messages in rows:
            staged = sink_pb.StagedRows(topic=topic)
            for message in messages:
                made = Message(data=message) if isinstance(message, bytes) else message
                staged.messages.append(made)
            requests.append(sink_pb.StageRequest(rows=[staged]))
        return self.stage_raw(request.SerializeToString() for request in requests)

    def commit(self, epoch: int, *stages: Any) -> Any:
        request = sink_pb.CommitEpochRequest(query=self.query, epoch=epoch, stages=stages)
        raw = self.raw("CommitEpoch", request.SerializeToString())
        return sink_pb.CommitEpochResponse.FromString(raw)

    def abort(self, epoch: int) -> None:
        request = sink_pb.AbortEpochRequest(query=self.query, epoch=epoch)
        self.raw("AbortEpoch", request.SerializeToString())

    def last_epoch(self) -> int:
        raw = self.raw("GetQuery", sink_pb.GetQueryRequest(query=self.query).SerializeToString())
        return int(sink_pb.GetQueryResponse.FromString(raw).last_epoch)
