"""gRPC channels to the endpoints of push subscriptions.

A channel is bound to addresses that were judged: gRPC resolves nothing and asks no proxy. The
subscriptions of one endpoint share it; a host whose addresses change gets a new one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from fanlog import limits
from fanlog.model.endpoints import WebEndpoint
from fanlog.push.rules.web_content import USER_AGENT
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.wire.receiver import METHOD

#: A channel that has no calls for so long closes its connection.
_IDLE_S = 30
#: The breaker says when an endpoint is tried again; a channel must not wait for longer than it.
_RECONNECT_S = 1

_Key = tuple[str, str, int, tuple[str, ...]]


@dataclass(slots=True)
class ReceiverChannel:
    """A channel to one endpoint, and its method of `fanlog.v1.Receiver`: bytes to bytes."""

    channel: grpc.aio.Channel
    receive: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = field(init=False)
    #: Calls under way; a channel with any is not closed.
    users: int = 0

    def __post_init__(self) -> None:
        self.receive = self.channel.unary_unary(METHOD)


class Channels:
    """Lives on one loop."""

    def __init__(self, resolver: HostResolver) -> None:
        self._resolver = resolver
        self._credentials: grpc.ChannelCredentials | None = None
        # In the order of their last use.
        self._channels: dict[_Key, ReceiverChannel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*self._closing, *(one.channel.close() for one in channels))

    async def open(self, endpoint: WebEndpoint) -> ReceiverChannel:
        """The channel to an endpoint; raises as `HostResolver.check` does."""
        # In the same order each time: they name the channel.
        addresses = sorted(await self._resolver.addresses_of(endpoint))
        if endpoint.scheme == "grpcs" and self._credentials is None:
            roots = await asyncio.to_thread(_read_roots)
            self._credentials = grpc.ssl_channel_credentials(roots)
        key = (endpoint.scheme, endpoint.host, endpoint.port, tuple(addresses))
        found = self._channels.pop(key, None)
        if found is None:
            found = ReceiverChannel(self._connect(endpoint, key[3]))
        self._channels[key] = found
        return found

    def close_excess(self) -> None:
        """Close channels without calls, the one not used for longest first, above the limit."""
        excess = len(self._channels) - limits.PUSH_CHANNELS_MAX
        if excess <= 0:
            return
        idle = [key for key, one in self._channels.items() if not one.users]
        for key in idle[:excess]:
            closing = asyncio.create_task(self._channels.pop(key).channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _connect(self, endpoint: WebEndpoint, addresses: Sequence[str]) -> grpc.aio.Channel:
        target, host = _target(addresses, endpoint.port), endpoint.host
        authority = f"[{host}]" if ":" in host else host
        options: list[tuple[str, int | str]] = [
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


def _read_roots() -> bytes | None:
    """Authorities that certificates may be signed by: the machine's, or those gRPC comes with."""
    file = ssl.get_default_verify_paths().cafile
    return Path(file).read_bytes() if file else None


def _target(addresses: Sequence[str], port: int) -> str:
    """Addresses as gRPC takes them: all of one kind, to be tried in turn."""
    fours = [f"{address}:{port}" for address in addresses if ":" not in address]
    if fours:
        return f"ipv4:{','.join(fours)}"
    return f"ipv6:{','.join(f'[{address}]:{port}' for address in addresses)}"
