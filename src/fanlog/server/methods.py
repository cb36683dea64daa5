"""Methods of services as rows of tables: all that the surfaces and the checks know of a call.

Each `*_api` module has the verbs of a service and their rows; `fanlog.server.services` has all of
them. A row made by `method` has its request parsed and its answer serialised. The few methods that
carry messages or ack ids are rows of bytes to bytes, which need no message objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.server import request_bounds, system_project
from fanlog.server.calls import Call, CallStream, Unary
from fanlog.server.gate import Gate
from fanlog.wire import fields

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class Method:
    """A method with one request and one answer."""

    name: str
    request: type[Message]
    answer: type[Message]
    serve: Callable[[Broker, bytes, Call], Awaitable[bytes]]
    #: Fields of the request that name the resources it changes; see `system_project`.
    changes: tuple[str, ...] = ()
    #: The largest request, looked at before it is parsed; see `request_bounds`.
    request_bytes_max: int = limits.REQUEST_BYTES_MAX

    @property
    def is_large(self) -> bool:
        """Whether its requests may be larger than those of most methods."""
        return self.request_bytes_max > limits.REQUEST_BYTES_MAX

    def bind(self, broker: Broker) -> Unary:
        """The verb behind the checks that all surfaces share, the cheapest first."""
        verb: Unary = partial(self.serve, broker)
        if self.changes:
            verb = system_project.guard(verb, self.request, self.changes)
        if self.request_bytes_max < limits.GRPC_RECEIVE_BYTES_MAX:
            verb = request_bounds.limit(verb, self.request_bytes_max)
        return verb


@dataclass(frozen=True, slots=True)
class StreamingMethod:
    """A method with many requests, many answers or both; it makes its checks itself."""

    name: str
    request: type[Message]
    answer: type[Message]
    #: Is given the request, empty where requests are read from the stream; returns the answer
    #: where there is one.
    serve: Callable[[Broker, bytes, CallStream], Awaitable[bytes | None]]
    has_many_requests: bool
    has_many_answers: bool


@dataclass(frozen=True, slots=True)
class Service:
    """A service on the gRPC port, by its full name."""

    name: str
    methods: tuple[Method, ...]
    streams: tuple[StreamingMethod, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    def full_name(self, method: Method | StreamingMethod) -> str:
        return f"{self.name}.{method.name}"


def method(
    name: str,
    request: type[Request],
    answer: type[Answer],
    verb: Callable[[Broker, Request], Awaitable[Answer]],
    *changes: str,
) -> Method:
    """The row of a verb that takes a message and returns one."""

    async def serve(broker: Broker, raw: bytes, _: Call) -> bytes:
        return (await verb(broker, fields.parse(request, raw))).SerializeToString()

    return Method(name, request, answer, serve, changes)


def method_with_call(
    name: str,
    request: type[Request],
    answer: type[Answer],
    verb: Callable[[Broker, Request, Call], Awaitable[Answer]],
    *changes: str,
) -> Method:
    """As `method`, for a verb that reads or sets metadata."""

    async def serve(broker: Broker, raw: bytes, call: Call) -> bytes:
        return (await verb(broker, fields.parse(request, raw), call)).SerializeToString()

    return Method(name, request, answer, serve, changes)


def name_methods(services: Iterable[Service]) -> dict[str, Method]:
    """All unary methods, by names such as `Publisher.Publish`."""
    return {
        f"{service.short_name}.{method.name}": method
        for service in services
        for method in service.methods
    }


def bind_all(
    services: Iterable[Service], broker: Broker, gate: Gate | None = None
) -> dict[str, Unary]:
    """The verbs of all unary methods, by names such as `Publisher.Publish`, for any surface.

    With a gate, behind it.
    """
    return {
        f"{service.short_name}.{method.name}": bind(service, method, broker, gate)
        for service in services
        for method in service.methods
    }


def bind(service: Service, method: Method, broker: Broker, gate: Gate | None) -> Unary:
    """The verb of a method: bytes to bytes."""
    verb = method.bind(broker)
    if gate is not None:
        # The size of a request is looked at before it is parsed, and so before the gate parses it.
        verb = gate.guard(service.full_name(method), verb, method.request)
        if method.request_bytes_max < limits.GRPC_RECEIVE_BYTES_MAX:
            verb = request_bounds.limit(verb, method.request_bytes_max)
    return verb
