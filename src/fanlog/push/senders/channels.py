"""gRPC channels to the endpoints of push subscriptions: a call goes out, an outcome comes back.

A channel is bound to addresses that were judged: gRPC resolves nothing and asks no proxy. The
subscriptions of one endpoint share it, and it is made anew when the name has other addresses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.model import attributes
from fanlog.model.endpoints import WebEndpoint
from fanlog.push.rules import (
    ANSWERED,
    Outcome,
    first_words,
    of_error,
    of_grpc,
    of_timeout,
    retry_after_s,
)
from fanlog.push.rules.request import USER_AGENT
from fanlog.push.senders.addresses import Addresses
from fanlog.wire.receiver import METHOD, retry_info_s

#: Without calls for so long, a channel lets go of its connection.
_IDLE_S = 30
#: The breaker says when an endpoint is tried again; a channel must not wait for longer than it.
_RECONNECT_S = 1

Metadata = Sequence[tuple[str, str]]
_Key = tuple[str, str, int, tuple[str, ...]]


class Caller(Protocol):
    """Calls receivers; tests have others than `Channels`."""

    async def close(self) -> None: ...

    async def receive(
        self, endpoint: WebEndpoint, request: bytes, metadata: Metadata, timeout_s: float
    ) -> tuple[Outcome, bytes]:
        """Make one call; whatever happens is an outcome, with the answer if there is one."""


@dataclass(slots=True)
class _Channel:
    channel: grpc.aio.Channel
    call: Any = field(init=False)
    users: int = 0

    def __post_init__(self) -> None:
        self.call = self.channel.unary_unary(METHOD)


class Channels:
    """Lives on one loop."""

    def __init__(self, addresses: Addresses, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self._credentials: grpc.ChannelCredentials | None = None
        # The one used last comes last.
        self._channels: dict[_Key, _Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*self._closing, *(one.channel.close() for one in channels))

    async def receive(
        self, endpoint: WebEndpoint, request: bytes, metadata: Metadata, timeout_s: float
    ) -> tuple[Outcome, bytes]:
        """Make one call; whatever happens is an outcome, with the answer if there is one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(until):
                addresses = await self._addresses.of(endpoint)
                if endpoint.scheme == "grpcs" and self._credentials is None:
                    roots = await asyncio.to_thread(_trusted)
                    self._credentials = grpc.ssl_channel_credentials(roots)
        except TimeoutError:
            return of_timeout(timeout_s), b""
        except OSError as error:
            return of_error(type(error).__name__), b""
        channel = self._channel(endpoint, addresses)
        channel.users += 1
        try:
            left_s = max(0.0, until - loop.time())
            answer = await channel.call(request, timeout=left_s, metadata=tuple(metadata))
            return ANSWERED, answer
        except grpc.aio.AioRpcError as error:
            return self._judged(error, timeout_s), b""
        finally:
            channel.users -= 1
            self._let_go()

    def _judged(self, error: grpc.aio.AioRpcError, timeout_s: float) -> Outcome:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return of_timeout(timeout_s)
        said = dict(error.trailing_metadata() or ())
        return of_grpc(
            error.code().name,
            self._delay_s(said),
            is_gone=said.get(attributes.GONE, "").lower() == "true",
            said=first_words(error.details() or ""),
        )

    def _delay_s(self, said: dict[str, Any]) -> float | None:
        """When to come again: as RetryInfo, as gRPC's own push-back, or as HTTP says it."""
        if "grpc-status-details-bin" in said:
            delay_s = retry_info_s(said["grpc-status-details-bin"])
            if delay_s is not None:
                return delay_s
        pushback_ms = said.get("grpc-retry-pushback-ms", "")
        if pushback_ms.isascii() and pushback_ms.isdigit():
            return float(pushback_ms[:10]) / 1000
        return retry_after_s(said.get("retry-after", ""), self._clock.wall_ns() / 1e9)

    def _channel(self, endpoint: WebEndpoint, addresses: Iterable[str]) -> _Channel:
        key = (endpoint.scheme, endpoint.host, endpoint.port, tuple(addresses))
        found = self._channels.pop(key, None)
        if found is None:
            found = _Channel(self._open(endpoint, key[3]))
        self._channels[key] = found
        return found

    def _open(self, endpoint: WebEndpoint, addresses: Sequence[str]) -> grpc.aio.Channel:
        target, host = _target(addresses, endpoint.port), endpoint.host
        authority = f"[{host}]" if ":" in host else host
        options: list[tuple[str, Any]] = [
            ("grpc.default_authority", f"{authority}:{endpoint.port}"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", limits.PUSH_CALL_ANSWER_BYTES_MAX),
            ("grpc.client_idle_timeout_ms", _IDLE_S * 1000),
            ("grpc.initial_reconnect_backoff_ms", _RECONNECT_S * 100),
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_S * 1000),
            ("grpc.primary_user_agent", USER_AGENT),
        ]
        if endpoint.scheme == "grpc":
            return grpc.aio.insecure_channel(target, options=options)
        # The certificate must be the host's, not the address's.
        options.append(("grpc.ssl_target_name_override", host))
        assert self._credentials is not None
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    def _let_go(self) -> None:
        """Close channels that nobody uses, the one not used for longest first."""
        excess = len(self._channels) - limits.PUSH_CHANNELS_MAX
        if excess <= 0:
            return
        idle = [key for key, one in self._channels.items() if not one.users]
        for key in idle[:excess]:
            closing = asyncio.create_task(self._channels.pop(key).channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


def _trusted() -> bytes | None:
    """Authorities that certificates may be signed by: the machine's, or those gRPC comes with."""
    file = ssl.get_default_verify_paths().cafile
    return Path(file).read_bytes() if file else None


def _target(addresses: Sequence[str], port: int) -> str:
    """Addresses as gRPC takes them: all of one kind, to be tried in turn."""
    fours = [f"{address}:{port}" for address in addresses if ":" not in address]
    if fours:
        return f"ipv4:{','.join(fours)}"
    return f"ipv6:{','.join(f'[{address}]:{port}' for address in addresses)}"
