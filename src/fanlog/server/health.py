"""grpc.health.v1: one status for the whole server.

Watchers are told NOT_SERVING when the server drains and then sent away, so that a client that only
watches does not hold up the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):
    """Not serving until `serving` is called, nor after `drain`."""

    def __init__(self, services: Iterable[str]) -> None:
        #: The empty name is the server as a whole.
        self._services = {"", *services}
        self._status = _NOT_SERVING
        self._is_over = False
        self._changed = asyncio.Event()

    def serving(self) -> None:
        self._change(_SERVING)

    def drain(self) -> None:
        self._is_over = True
        self._change(_NOT_SERVING)

    async def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:
        if request.service not in self._services:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"service: {request.service!r} is not served here"
            )
        return health_pb2.HealthCheckResponse(status=self._status)

    async def Watch(self, request: Any, context: Any) -> None:
        while True:
            changed = self._changed
            # The protocol wants an unknown service watched, too: it may come later.
            status = self._status if request.service in self._services else _UNKNOWN
            await context.write(health_pb2.HealthCheckResponse(status=status))
            if self._is_over:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
            await changed.wait()

    def _change(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        self._status = status
        self._changed.set()
        self._changed = asyncio.Event()
