"""Push over gRPC: calls of `fanlog.v1.Receiver`, each with as many messages as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import grpc

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.model import attributes
from fanlog.push.rules.answers import first_words
from fanlog.push.rules.outcome import (
    Outcome,
    of_answer,
    of_error,
    of_grpc,
    of_timeout,
    retry_after_s,
)
from fanlog.push.rules.packing import Request, pack_grpc
from fanlog.push.senders.channels import Channels
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.wire.receiver import retry_info_s


class GrpcTransport:
    """A `Transport`; its channels are opened by the calls that need them."""

    messages_max = limits.PUSH_CALL_MESSAGES_MAX
    bytes_max = limits.PUSH_CALL_BYTES_MAX
    pack = staticmethod(pack_grpc)

    def __init__(self, resolver: HostResolver, clock: Clock) -> None:
        self._clock = clock
        self._channels = Channels(resolver)

    async def send(self, request: Request) -> Outcome:
        loop = asyncio.get_running_loop()
        until = loop.time() + request.timeout_s
        try:
            async with asyncio.timeout_at(until):
                channel = await self._channels.open(request.endpoint)
        except TimeoutError:
            return of_timeout(request.timeout_s)
        except OSError as error:
            return of_error(type(error).__name__)
        channel.users += 1
        try:
            left_s = max(0.0, until - loop.time())
            answer = await channel.receive(
                request.body, timeout=left_s, metadata=tuple(request.headers.items())
            )
        except grpc.aio.AioRpcError as error:
            return self._judge(error, request.timeout_s)
        finally:
            channel.users -= 1
            self._channels.close_excess()
        return of_answer(answer, {one.ack_id for one in request.messages})

    async def close(self) -> None:
        await self._channels.close()

    def _judge(self, error: grpc.aio.AioRpcError, timeout_s: float) -> Outcome:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return of_timeout(timeout_s)
        metadata = dict(error.trailing_metadata() or ())
        return of_grpc(
            error.code().name,
            self._delay_s(metadata),
            is_gone=_text(metadata, attributes.GONE).lower() == "true",
            said=first_words(error.details() or ""),
            words=tuple(error.trailing_metadata() or ()),
        )

    def _delay_s(self, metadata: Mapping[str, str | bytes]) -> float | None:
        """The delay that an endpoint asks for: as RetryInfo, as gRPC's push-back, or as in HTTP."""
        details = metadata.get("grpc-status-details-bin")
        if isinstance(details, bytes):
            delay_s = retry_info_s(details)
            if delay_s is not None:
                return delay_s
        pushback_ms = _text(metadata, "grpc-retry-pushback-ms")
        if pushback_ms.isascii() and pushback_ms.isdigit():
            return float(pushback_ms[:10]) / 1000
        return retry_after_s(_text(metadata, "retry-after"), self._clock.wall_ns() / 1e9)


def _text(metadata: Mapping[str, str | bytes], name: str) -> str:
    # gRPC gives bytes only for names that end in `-bin`.
    value = metadata.get(name, "")
    return value if isinstance(value, str) else ""
