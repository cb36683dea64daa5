"""A connection to a server: every call of the command line, of Spark and of the pipeline.

It knows endpoints, time-outs, retries, metadata and errors, and no method of any service: those are
`fanlog.client.client` for Google's services, and one module each for ours. It is synchronous, and
cannot be sent to another process: programs send the endpoint and connect there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
from google.protobuf.message import Message

from fanlog.client.address import ServerAddress, resolve_endpoint
from fanlog.client.credentials import credentials_of
from fanlog.client.failures import COMMAND_LINE, CallFailed, Wording, failure_of
from fanlog.model import attributes

TIMEOUT_S_DEFAULT: Final = 30.0
#: How long to wait before a server that is away is called again.
PAUSE_S: Final = 0.5

_OPTIONS: Final = [
    # A single message may be larger than gRPC's default limit of 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # One that waits before it connects again would make its neighbours wait, too.
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC's own is two minutes: a server that is back for so long would still be called away.
    ("grpc.max_reconnect_backoff_ms", 5_000),
]

ReplyT = TypeVar("ReplyT", bound=Message)
Metadata = tuple[tuple[str, str], ...]
#: Names that end in `-bin` have bytes.
SentMetadata = tuple[tuple[str, str | bytes], ...]


class Connection:
    """One connection to one server. Safe to share between threads. Close it, or use `with`.

    Args:
        endpoint: An address, see `fanlog.client.address`; None for the environment's, or this
            machine's.
        timeout_s: How long a call may take, unless it says otherwise.
        patience_s: How long calls with one reply go on trying while the server is away: they must
            be calls that may be made twice. 0 fails at once, as for a server not started yet.
        on_hint: Called, in the caller's thread, with each hint of the server about a call that was
            done and may not be meant so, such as a pattern that matches no topic.
        wording: How sentences of errors are worded.
        token_file: The file of an API token; instead of the address's or the environment's.
        credentials: The key file of a service account; likewise, and not both.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S_DEFAULT,
        patience_s: float = 0.0,
        on_hint: Callable[[str], None] | None = None,
        wording: Wording = COMMAND_LINE,
        token_file: str | None = None,
        credentials: str | None = None,
    ) -> None:
        self.endpoint = resolve_endpoint(endpoint, token_file=token_file, credentials=credentials)
        address = ServerAddress.parse(self.endpoint)
        self._credentials = credentials_of(address)
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._on_hint = on_hint
        self._wording = wording
        self._channel = _open(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def call(
        self,
        method: str,
        request: Message,
        reply_type: type[ReplyT],
        *,
        timeout_s: float | None = None,
    ) -> ReplyT:
        """Call a method that has one reply, such as `fanlog.v1.Jobs/GetJob`.

        Raises:
            CallFailed: It was refused, or did not arrive.
        """
        reply, metadata = self.exchange(method, request, reply_type, timeout_s=timeout_s)
        self.tell_hints(metadata)
        return reply

    def tell_hints(self, metadata: Metadata) -> None:
        """Hand the hints of an answer to the one who asked for them."""
        if self._on_hint is not None:
            for key, value in metadata:
                if key == attributes.HINT:
                    self._on_hint(value)

    def pages(self, method: str, request: Any, reply_type: type[ReplyT]) -> Iterator[ReplyT]:
        """Call a method that lists, page after page; yield the replies."""
        while True:
            page: Any = self.call(method, request, reply_type)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def exchange(
        self,
        method: str,
        request: Message,
        reply_type: type[ReplyT],
        *,
        timeout_s: float | None = None,
        metadata: SentMetadata = (),
    ) -> tuple[ReplyT, Metadata]:
        """Call a method with metadata; give the reply and the metadata that follows it.

        Raises:
            CallFailed: It was refused, or did not arrive.
        """
        timeout_s = timeout_s or self._timeout_s
        call = self._channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply_type.FromString,
        )
        late_s = time.monotonic() + self._patience_s
        while True:
            try:
                reply, done = call.with_call(
                    request, timeout=timeout_s, metadata=metadata + self._caller()
                )
            except grpc.RpcError as error:
                failure = self._failure(error, timeout_s)
                if failure.status != "UNAVAILABLE" or time.monotonic() >= late_s:
                    raise failure from error
            else:
                trailing = done.trailing_metadata() or ()
                return reply, tuple((str(key), str(value)) for key, value in trailing)
            time.sleep(PAUSE_S)

    def stream(self, method: str, request: Message, reply_type: type[ReplyT]) -> Iterator[ReplyT]:
        """Call a method that has many replies, and yield them no faster than they are taken.

        Raises:
            CallFailed: It was refused, did not arrive, or broke off.
        """
        call = self._channel.unary_stream(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply_type.FromString,
        )(request, metadata=self._caller())
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._failure(error, self._timeout_s) from error
        finally:
            call.cancel()

    def upload(
        self,
        method: str,
        requests: Iterable[bytes],
        reply_type: type[ReplyT],
        *,
        timeout_s: float | None = None,
    ) -> ReplyT:
        """Call a method with many requests, which are serialised already; give its one reply.

        It may take as long as its requests do, unless a time-out is given.

        Raises:
            CallFailed: It was refused, did not arrive, or broke off.
        """
        call: grpc.StreamUnaryMultiCallable[bytes, ReplyT] = self._channel.stream_unary(
            f"/{method}", response_deserializer=reply_type.FromString
        )
        if self._patience_s:
            # Before the first request is taken: there is no going back to it.
            with suppress(grpc.FutureTimeoutError):
                grpc.channel_ready_future(self._channel).result(self._patience_s)
        try:
            return call(iter(requests), timeout=timeout_s, metadata=self._caller())
        except grpc.RpcError as error:
            raise self._failure(error, timeout_s or self._timeout_s) from error

    def _caller(self) -> Metadata:
        # With each call, not with the channel: gRPC sends those of a channel on TLS alone.
        if self._credentials is None:
            return ()
        return (("authorization", self._credentials.authorization()),)

    def _failure(self, error: grpc.RpcError, timeout_s: float) -> CallFailed:
        return failure_of(
            error,
            endpoint=self.endpoint,
            timeout_s=timeout_s,
            wording=self._wording,
            credentials="" if self._credentials is None else self._credentials.name,
        )


def _open(address: ServerAddress) -> grpc.Channel:
    """Raises InvalidArgument when a file of the address cannot be read."""
    if not address.is_tls:
        return grpc.insecure_channel(address.host_port, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        address.read("ca"), address.read("key"), address.read("cert")
    )
    return grpc.secure_channel(address.host_port, credentials, options=_OPTIONS)
