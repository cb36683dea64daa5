"""The services over gRPC, by grpc.aio: the only module of verbs and streams that knows it.

Handlers take and return bytes: publish, pull and acknowledge are too hot for message objects, and
everything else is parsed behind `Method.bind`, where a malformed request is answered properly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NoReturn, TypeVar

import grpc
from grpc_status import rpc_status

from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError, Internal
from fanlog.server.call_counter import CallCounter
from fanlog.server.methods import Service, StreamingMethod
from fanlog.wire.status import rich_status

log = logging.getLogger("fanlog.grpc")

Context = grpc.aio.ServicerContext[bytes, bytes]
Given = TypeVar("Given")

#: Raised by `Stream.write` when the call is over: its caller has left, or it was ended here.
CALL_OVER = grpc.aio.BaseError

#: The logger of gRPC that is told of calls.
LOGGER = "grpc._cython.cygrpc"


def make_handlers(
    services: Iterable[Service], broker: Broker, counter: CallCounter
) -> list[grpc.GenericRpcHandler]:
    """The generic handlers of all services."""
    return [
        grpc.method_handlers_generic_handler(
            service.name,
            {
                method.name: grpc.unary_unary_rpc_method_handler(
                    _answer(method.bind(broker), counter)
                )
                for method in service.methods
            }
            | {stream.name: _make_stream(stream, broker, counter) for stream in service.streams},
        )
        for service in services
    ]


def _make_stream(
    stream: StreamingMethod, broker: Broker, counter: CallCounter
) -> grpc.RpcMethodHandler[bytes, bytes]:
    serve = partial(stream.serve, broker)
    if not stream.has_many_requests:
        return grpc.unary_stream_rpc_method_handler(_answer(serve, counter))
    make = grpc.stream_unary_rpc_method_handler
    if stream.has_many_answers:
        make = grpc.stream_stream_rpc_method_handler
    return make(_answer(lambda _, context: serve(b"", context), counter))


def _answer(
    verb: Callable[[bytes, Context], Awaitable[Given]], counter: CallCounter
) -> Callable[[bytes, Context], Awaitable[Given]]:
    """A verb as gRPC calls it: counted, and with a status for every error."""

    async def call(request: bytes, context: Context) -> Given:
        counter.count += 1
        try:
            return await verb(request, context)
        except Exception as error:
            # Of any kind: behind this is only gRPC, which would show the exception's text to the
            # caller. `abort` logs those that are not ours.
            await abort(context, error)

    return call


async def abort(context: Context, error: Exception) -> NoReturn:
    """End a call with an error's status and details. Raises; never returns."""
    if _is_departure(error):
        raise error
    if not isinstance(error, FanlogError):
        log.error("action=call_failed; the call ends with INTERNAL", exc_info=error)
        error = Internal("an unexpected error; the broker's log says more")
    await context.abort_with_status(rpc_status.to_status(rich_status(error)))


# A caller that goes away before its answer has left is no error. gRPC says so in one of two ways,
# by chance: it cancels the call, or it fails to send the answer and writes that to its log as an
# error, with all of its frames.


def mute_departures() -> None:
    """Keep gRPC from logging callers that left; it still logs everything else."""
    logging.getLogger(LOGGER).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and _is_departure(record.exc_info[1]))


def _is_departure(error: BaseException | None) -> bool:
    """Whether an answer could not be sent because its caller is gone."""
    return isinstance(error, grpc.aio.InternalError)
