"""One StreamingPull stream, read in a thread of its own."""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import grpc

from bench.api import Api, StreamingPullRequest

OUTSTANDING_MESSAGES = 10_000
_JOIN_S = 10


class Stream:
    """An open stream; ends with its `with` block.

    `on_messages` is called in the reading thread, with the received messages of each answer.
    """

    def __init__(self, api: Api, subscription: str, on_messages: Callable[[Any], None]) -> None:
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outgoing.put(
            StreamingPullRequest(
                subscription=subscription,
                stream_ack_deadline_seconds=600,
                client_id=uuid.uuid4().hex,
                max_outstanding_messages=OUTSTANDING_MESSAGES,
            )
        )
        self._on_messages = on_messages
        self._error: grpc.RpcError | None = None
        self._call = api.streaming_pull(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Stream:
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._outgoing.put(None)
        self._call.cancel()
        self._reader.join(_JOIN_S)

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Acknowledge on the stream; nothing confirms it."""
        self._outgoing.put(StreamingPullRequest(ack_ids=ack_ids))

    def raise_if_ended(self) -> None:
        if self._error is not None:
            raise self._error

    def _read(self) -> None:
        try:
            for answer in self._call:
                if answer.received_messages:
                    self._on_messages(answer.received_messages)
        except grpc.RpcError as error:
            if self._call.code() is not grpc.StatusCode.CANCELLED:
                self._error = error
