"""`/v1/live`: the live numbers as server-sent events, for browsers."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from starlette.routing import Route

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.config import Config
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.calls import StreamingCall
from fanlog.server.event_stream import EventStream
from fanlog.server.gate import Gate
from fanlog.server.overview_api import watch
from fanlog.transport.calls import Streaming
from fanlog.v1 import overview_pb2 as pb

PATH: Final = "/v1/live"
_METHOD: Final = "fanlog.v1.Overview.Watch"
_BOOLEANS: Final = {"true": True, "false": False}


def live_route(broker: Broker, config: Config, gate: Gate | None) -> Route:
    async def serve(call: StreamingCall) -> None:
        request = await call.read()
        assert isinstance(request, bytes)
        await watch(broker, request, call)

    guarded: Streaming = serve if gate is None else gate.guard_stream(_METHOD, serve)
    return Route(PATH, EventStream(guarded, partial(_read, config.project), pb.LiveSample))


def _read(project: str, query: bytes) -> bytes:
    """The request that query parameters say."""
    request = pb.WatchRequest()
    try:
        given = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=limits.LIVE_NAMED_MAX + 10,
        )
    except ValueError as error:
        raise InvalidArgument("the query is not UTF-8, or has too many parameters") from error
    for key, text in given:
        match key:
            case "topics":
                request.topics.append(text if "/" in text else names.topic_name(project, text))
            case "subscriptions":
                whole = text if "/" in text else names.subscription_name(project, text)
                request.subscriptions.append(whole)
            case "onlyNamed":
                if text not in _BOOLEANS:
                    raise InvalidArgument(f"{key}: must be true or false, not {names.shown(text)}")
                request.only_named = _BOOLEANS[text]
            case _:
                raise InvalidArgument(
                    f"{names.shown(key)}: is no parameter; there are topics, subscriptions and "
                    "onlyNamed"
                )
    return request.SerializeToString()
