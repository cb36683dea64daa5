"""grpc.health.v1: one status for the whole server, and one for its publisher.

While publishing is refused for want of room the publisher is NOT_SERVING and everything else is
served; a node of a cluster whose calls wait serves nothing. Nothing tells of either, so that both
are looked at for each `Check`, and for a `Watch` once a second.

Watchers are told NOT_SERVING when the server drains and then sent away, so that a client that only
watches does not hold up the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from fanlog import limits
from fanlog.server.calls import Call, CallStream
from fanlog.transport.methods import RpcMethod
from fanlog.transport.statuses import INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE, CallRefused, Status

_SERVING = HealthCheckResponse.SERVING
_NOT_SERVING = HealthCheckResponse.NOT_SERVING
_UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN

SERVICE_NAME = "grpc.health.v1.Health"

#: The service that does not serve while publishing is refused.
PUBLISHER = "google.pubsub.v1.Publisher"
#: How often what is watched is looked at.
LOOK_S = 1.0


class Health:
    """Not serving until `serving` is called, nor after `drain`.

    `degraded` says why publishing is refused, `obstacle` why calls are not served; nothing while
    it is not so.
    """

    def __init__(
        self,
        services: Iterable[str],
        degraded: Callable[[], str],
        obstacle: Callable[[], str] = str,
    ) -> None:
        #: The empty name is the server as a whole.
        self._services = {"", *services}
        self._degraded = degraded
        self._obstacle = obstacle
        self._status: int = _NOT_SERVING
        self._is_over = False
        self._changed = asyncio.Event()

    def serving(self) -> None:
        self._change(_SERVING)

    def drain(self) -> None:
        self._is_over = True
        self._change(_NOT_SERVING)

    def methods(self) -> list[RpcMethod]:
        most = limits.HEALTH_REQUEST_BYTES_MAX
        return [
            RpcMethod(f"/{SERVICE_NAME}/Check", most, unary=self._check),
            RpcMethod(f"/{SERVICE_NAME}/Watch", most, streaming=self._watch),
        ]

    async def _check(self, raw: bytes, _: Call) -> bytes:
        service = _service_of(raw)
        if service not in self._services:
            why = f"service: {service!r} is not served here"
            raise CallRefused(Status(NOT_FOUND, why))
        return HealthCheckResponse(status=self._status_of(service)).SerializeToString()

    async def _watch(self, call: CallStream) -> None:
        service = _service_of(await call.read())
        told = None
        while True:
            # A drain that begins while this is written is told of first, like any other change.
            changed, is_over = self._changed, self._is_over
            status = self._status_of(service)
            if status != told:
                told = status
                await call.write(HealthCheckResponse(status=status).SerializeToString())
            if is_over:
                raise CallRefused(Status(UNAVAILABLE, "the server is stopping"))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await changed.wait()

    def _status_of(self, service: str) -> int:
        if service not in self._services:
            # The protocol wants an unknown service watched, too: it may come later.
            return _UNKNOWN
        if self._status != _SERVING or self._obstacle():
            return _NOT_SERVING
        if service == PUBLISHER and self._degraded():
            return _NOT_SERVING
        return _SERVING

    def _change(self, status: int) -> None:
        self._status = status
        self._changed.set()
        self._changed = asyncio.Event()


def _service_of(raw: object) -> str:
    """The service that a request names. Raises CallRefused."""
    assert isinstance(raw, bytes)
    try:
        return HealthCheckRequest.FromString(raw).service
    except DecodeError as error:
        raise CallRefused(Status(INVALID_ARGUMENT, f"no HealthCheckRequest: {error}")) from None
