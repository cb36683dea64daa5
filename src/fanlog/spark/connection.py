"""The broker as a Spark program talks to it: `fanlog.v1.Log` and `fanlog.v1.Sink`.

A driver makes a connection for each question, a task one for its life: neither can be sent to
another process. Every failure is a `CallFailed` whose sentence a person can act on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import grpc

from fanlog.errors import FanlogError
from fanlog.v1 import log_pb2, sink_pb2

TIMEOUT_S: Final = 60.0
#: How long a broker that was there before may be away, and how long to wait between attempts.
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.5
_LOG: Final = "fanlog.v1.Log"
_SINK: Final = "fanlog.v1.Sink"


class CallFailed(FanlogError):
    """A call was refused or did not arrive; the sentence says which, `status` is gRPC's name."""

    code = "CALL_FAILED"

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class Connection:
    """One connection to one broker. Close it, or use `with`.

    With `patience_s`, a call waits so long for a broker that is away; all that are made here may be
    made twice. Without, whoever forgot to start one hears it at once.
    """

    def __init__(
        self, endpoint: str, *, timeout_s: float = TIMEOUT_S, patience_s: float = 0.0
    ) -> None:
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._channel = grpc.insecure_channel(
            endpoint,
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.enable_http_proxy", 0),
                # One that waits before it connects again would make its neighbours wait, too.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    # The log.

    def offsets(self, selection: log_pb2.TopicSelection) -> Any:
        request = log_pb2.GetOffsetsRequest(selection=selection)
        return self._call(_LOG, "GetOffsets", request, log_pb2.GetOffsetsResponse)

    def ranges(
        self,
        selection: log_pb2.TopicSelection,
        after_sequence: int,
        to_sequence: int,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
    ) -> Any:
        request = log_pb2.GetRangesRequest(
            selection=selection,
            after_sequence=after_sequence,
            to_sequence=to_sequence,
            max_messages=max_messages,
            max_bytes=max_bytes,
        )
        return self._call(_LOG, "GetRanges", request, log_pb2.GetRangesResponse)

    def find(self, selection: log_pb2.TopicSelection, time_us: int) -> dict[int, int]:
        """Give the first offset published at or after a time, by partition."""
        request = log_pb2.FindOffsetsRequest(selection=selection)
        seconds, micros = divmod(time_us, 1_000_000)
        request.time.seconds, request.time.nanos = seconds, micros * 1_000
        found = self._call(_LOG, "FindOffsets", request, log_pb2.FindOffsetsResponse)
        return {each.partition: each.offset for each in found.offsets}

    def read(self, ranges: Sequence[log_pb2.Range]) -> Iterator[Any]:
        """Read the batches that hold some offsets; as slow as the caller."""
        call = self._channel.unary_stream(
            f"/{_LOG}/Read",
            request_serializer=log_pb2.ReadRequest.SerializeToString,
            response_deserializer=log_pb2.ReadResponse.FromString,
        )(log_pb2.ReadRequest(ranges=ranges))
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._failure(error) from error
        finally:
            call.cancel()

    # The sink.

    def stage(self, requests: Iterable[bytes]) -> Any:
        """Stage the rows of serialised StageRequests."""
        call: Any = self._channel.stream_unary(
            f"/{_SINK}/Stage", response_deserializer=sink_pb2.StageResponse.FromString
        )
        if self._patience_s:
            # Before the first row is taken: there is no going back to it.
            with suppress(grpc.FutureTimeoutError):
                grpc.channel_ready_future(self._channel).result(self._patience_s)
        try:
            return call(iter(requests))
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def commit_epoch(
        self, query: str, epoch: int, stages: Sequence[sink_pb2.StageKey]
    ) -> sink_pb2.CommitEpochResponse:
        request = sink_pb2.CommitEpochRequest(query=query, epoch=epoch, stages=stages)
        done: sink_pb2.CommitEpochResponse = self._call(
            _SINK, "CommitEpoch", request, sink_pb2.CommitEpochResponse
        )
        return done

    def abort_epoch(self, query: str, epoch: int) -> None:
        request = sink_pb2.AbortEpochRequest(query=query, epoch=epoch)
        self._call(_SINK, "AbortEpoch", request, sink_pb2.AbortEpochResponse)

    def call(self, service: str, method: str, request: Any, reply_type: Any) -> Any:
        """Make any other call that has one answer."""
        return self._call(service, method, request, reply_type)

    # Private.

    def _call(self, service: str, method: str, request: Any, reply_type: Any) -> Any:
        call = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply_type.FromString,
        )
        late_s = time.monotonic() + self._patience_s
        while True:
            try:
                return call(request, timeout=self._timeout_s)
            except grpc.RpcError as error:
                failure = self._failure(error)
                if failure.status != "UNAVAILABLE" or time.monotonic() >= late_s:
                    raise failure from error
            time.sleep(PAUSE_S)

    def _failure(self, error: Any) -> CallFailed:
        status = error.code().name
        details = error.details() or ""
        if status == "UNAVAILABLE":
            return CallFailed(
                f"the broker at {self.endpoint} cannot be reached ({details}); start one with"
                " `fanlog serve`, or name another with the option endpoint",
                status,
            )
        if status == "DEADLINE_EXCEEDED":
            return CallFailed(
                f"the broker at {self.endpoint} did not answer within {self._timeout_s:g} s", status
            )
        return CallFailed(
            details or f"the broker at {self.endpoint} answered {status} and no reason", status
        )
