"""An endpoint for push over gRPC: a real server that answers as a test tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from fanlog.v1.receiver_pb2 import ReceiveRequest, ReceiveResponse, Refusal
from server.receiver import PATIENCE_S

#: Refusals, or None to take all; or a status, raised by `abort` on the context.
Answer = Callable[[Any, Any], "list[Refusal] | None"]


class GrpcReceiver:
    """Keeps the calls that came. `answer` decides, in the thread of the call."""

    def __init__(self, answer: Answer, credentials: Any = None, port: int = 0) -> None:
        self.answer = answer
        self.calls: list[Any] = []
        self.metadata: list[dict[str, Any]] = []
        self._came = threading.Condition()
        self.closing = threading.Event()
        handler = grpc.unary_unary_rpc_method_handler(
            self._receive,
            request_deserializer=ReceiveRequest.FromString,
            response_serializer=ReceiveResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("fanlog.v1.Receiver", {"Receive": handler})
        self._server = grpc.server(ThreadPoolExecutor(32))
        self._server.add_generic_rpc_handlers((service,))
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        self._server.start()

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def _receive(self, request: Any, context: Any) -> Any:
        with self._came:
            self.calls.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            self._came.notify_all()
        return ReceiveResponse(refusals=self.answer(request, context) or [])

    @property
    def received(self) -> list[Any]:
        return [one for call in list(self.calls) for one in call.messages]

    @property
    def data(self) -> list[bytes]:
        return [one.message.data for one in self.received]

    def wait(self, messages: int) -> list[Any]:
        """The messages that came, once there are so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.received) >= messages, PATIENCE_S), (
                self.data
            )
            return self.received

    def hang(self) -> None:
        self.closing.wait(60)

    def close(self) -> None:
        self.closing.set()
        self._server.stop(None).wait(PATIENCE_S)


@contextmanager
def receiving(
    answer: Answer = lambda request, context: None, **options: Any
) -> Iterator[GrpcReceiver]:
    receiver = GrpcReceiver(answer, **options)
    try:
        yield receiver
    finally:
        receiver.close()
