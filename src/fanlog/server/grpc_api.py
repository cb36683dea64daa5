"""The services as methods of the gRPC port, and errors as statuses of their calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError, Internal
from fanlog.server.calls import CallStream
from fanlog.server.gate import Gate
from fanlog.server.methods import Service, StreamingMethod, bind
from fanlog.transport.calls import Streaming
from fanlog.transport.methods import MethodForm, RpcMethod
from fanlog.transport.statuses import CallRefused, Status
from fanlog.wire.status import rich_status

log = logging.getLogger("fanlog.grpc")


def make_methods(
    services: Iterable[Service], broker: Broker, gate: Gate | None = None
) -> Iterator[RpcMethod]:
    """Every method of the services, served by a broker; with a gate, behind it."""
    for service in services:
        for method in service.methods:
            yield RpcMethod(
                path=f"/{service.name}/{method.name}",
                request_bytes_max=limits.GRPC_RECEIVE_BYTES_MAX,
                unary=bind(service, method, broker, gate),
            )
        for stream in service.streams:
            serve: Streaming = partial(_serve_stream, stream, broker)
            if gate is not None:
                serve = gate.guard_stream(service.full_name(stream), serve)
            yield RpcMethod(
                path=f"/{service.name}/{stream.name}",
                request_bytes_max=limits.GRPC_RECEIVE_BYTES_MAX,
                streaming=serve,
                has_many_requests=stream.has_many_requests,
            )


def method_forms(services: Iterable[Service]) -> Iterator[MethodForm]:
    """The methods of the services without a broker behind them."""
    bytes_max = limits.GRPC_RECEIVE_BYTES_MAX
    for service in services:
        for method in service.methods:
            yield MethodForm(f"/{service.name}/{method.name}", bytes_max, is_unary=True)
        for stream in service.streams:
            many = stream.has_many_requests
            yield MethodForm(
                f"/{service.name}/{stream.name}",
                bytes_max,
                is_unary=False,
                has_many_requests=many,
            )


async def _serve_stream(method: StreamingMethod, broker: Broker, call: CallStream) -> None:
    raw = b"" if method.has_many_requests else await call.read()
    assert isinstance(raw, bytes)
    answer = await method.serve(broker, raw, call)
    if answer is not None:
        await call.write(answer)


def status_of(error: Exception) -> Status:
    """The status that ends a call: an error's own, or INTERNAL for one that is not ours."""
    if isinstance(error, CallRefused):
        return error.status
    if not isinstance(error, FanlogError):
        log.error("action=call_failed; the call ends with INTERNAL", exc_info=error)
        error = Internal("an unexpected error; the broker's log says more")
    found = rich_status(error)
    return Status(found.code, found.message, found.SerializeToString())
