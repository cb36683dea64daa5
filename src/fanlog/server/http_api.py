"""The HTTP port: REST under `/v1` and its description, the console, health, readiness, metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import Protocol
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from fanlog.broker.broker import Broker
from fanlog.config import Config
from fanlog.errors import FanlogError, MethodNotAllowed, RouteNotFound
from fanlog.model import names
from fanlog.model.origins import Doorkeeper, parse_host
from fanlog.push.senders.tokens import Tokens
from fanlog.server.access_control import AccessControl
from fanlog.server.console_pages import console_routes
from fanlog.server.doorkeeping import Door
from fanlog.server.gate import Gate
from fanlog.server.http_callers import PageRequest
from fanlog.server.key_pages import key_routes
from fanlog.server.live_page import live_route
from fanlog.server.methods import bind_all
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.text import CONTENT_TYPE, write_text
from fanlog.server.rest import events, google_json, own_json, path_form, short_form
from fanlog.server.rest.app import RestApp, failed
from fanlog.server.rest.docs_page import docs_page
from fanlog.server.rest.facts import Facts
from fanlog.server.rest.openapi import document
from fanlog.server.rest.positions import position_verbs
from fanlog.server.rest.route import Route as RestRoute
from fanlog.server.rest.route import Router
from fanlog.server.services import SERVICES
from fanlog.server.session_page import SessionPage
from fanlog.server.sessions import Sessions
from fanlog.server.token_page import token_route
from fanlog.transport.counts import TransportCounts

#: The page needs nothing but its own style.
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class NodePages(Protocol):
    """What a server says of itself, whatever it serves just now."""

    @property
    def obstacle(self) -> str:
        """Why it is not ready to serve; empty when it is."""

    @property
    def remarks(self) -> Sequence[str]:
        """Lines for whoever asks whether it is ready."""

    async def check_metrics(self, request: PageRequest) -> None:
        """Raises FanlogError: The caller may not have the metrics."""

    def metrics(self) -> AsyncIterator[Reading]:
        """All metrics, as they are now."""


def http_app(
    config: Config,
    pages: NodePages,
    routes: Sequence[BaseRoute],
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """The application of the HTTP port: the pages of the server itself, and routes behind them."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        obstacle = pages.obstacle
        first = f"not ready: {obstacle}" if obstacle else "ready"
        told = [f"{line}\n" for line in (first, *pages.remarks)]
        return PlainTextResponse("".join(told), status_code=503 if obstacle else 200)

    async def metrics(request: Request) -> Response:
        try:
            await pages.check_metrics(PageRequest(request.scope))
        except FanlogError as error:
            return _answer(error)
        page = write_text(pages.metrics())
        return StreamingResponse(page, headers={"content-type": CONTENT_TYPE})

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            *routes,
        ],
        middleware=[Middleware(Door, keeper=_keeper(config)), *middleware],
        exception_handlers={HTTPException: _refused},
    )


def shard_app(routes: Sequence[BaseRoute], middleware: Sequence[Middleware]) -> Starlette:
    """The application of a shard that is reached through a gateway, which has let callers in."""
    return Starlette(
        routes=list(routes),
        middleware=list(middleware),
        exception_handlers={HTTPException: _refused},
    )


def shard_routes(
    broker: Broker,
    config: Config,
    tokens: Tokens,
    counts: TransportCounts,
    sessions: Sessions,
    access: AccessControl | None = None,
) -> list[BaseRoute]:
    """The routes of a shard; with `access`, all but those of keys and files behind its gate."""
    gate = None if access is None else access.gate

    async def openapi(_: Request) -> Response:
        return Response(_documents()[0], media_type="application/json")

    async def docs(_: Request) -> Response:
        return HTMLResponse(_documents()[1], headers={"content-security-policy": _DOCS_POLICY})

    return [
        *key_routes(tokens),
        *([] if access is None else [token_route(access.exchange)]),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        *console_routes(),
        SessionPage(broker, sessions, gate).route(),
        live_route(broker, config, gate),
        Mount("/v1", app=rest_app(broker, config, gate, counts)),
    ]


def _keeper(config: Config) -> Doorkeeper:
    hosts = set(config.http_hosts)
    if config.is_on_loopback and config.push_issuer:
        # Receivers of tokens fetch the keys by that name.
        hosts.add(parse_host(urlsplit(config.push_issuer).netloc)[0])
    return Doorkeeper(
        on_loopback=config.is_on_loopback,
        hosts=frozenset(hosts),
        origins=frozenset(config.cors_origins),
    )


def rest_app(
    broker: Broker,
    config: Config,
    gate: Gate | None = None,
    counts: TransportCounts | None = None,
) -> RestApp:
    """REST in front of all verbs of a broker; `counts` is told of its answers."""
    verbs = bind_all(SERVICES, broker, gate)
    verbs |= position_verbs(broker, verbs, gate)
    verbs |= events.event_verbs(verbs, config, gate)
    return RestApp(
        Router(route for routes in rest_routes().values() for route in routes),
        verbs,
        project=config.project,
        bytes_max=config.http_max_bytes,
        facts=Facts(broker),
        answered=(counts or TransportCounts()).answered,
    )


def rest_routes() -> dict[str, list[RestRoute]]:
    """Every route under `/v1`, by form; where two forms have the same one, the later has it."""
    forms = {
        "Google's JSON API": google_json.routes(),
        "The short form": short_form.routes(),
        "The path form": path_form.routes(),
        "CloudEvents": events.routes(),
        "Beyond Google's API": own_json.routes(),
    }
    owners = {(one.http, one.path): form for form, routes in forms.items() for one in routes}
    return {
        form: [one for one in routes if owners[one.http, one.path] == form]
        for form, routes in forms.items()
    }


@cache
def _documents() -> tuple[bytes, str]:
    """The OpenAPI document, for programs and for people."""
    from importlib.metadata import version

    found = document(rest_routes(), version("fanlog"))
    return orjson.dumps(found), docs_page(found)


def _refused(request: Request, error: Exception) -> Response:
    """Paths and methods that Starlette does not find, in the form of all other errors."""
    assert isinstance(error, HTTPException)
    path = names.shown(request.url.path)
    refusal: FanlogError = RouteNotFound(f"nothing is served at {path}")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET")
        refusal = MethodNotAllowed(f"{path} takes {allowed}, not {request.method}", allowed)
    return _answer(refusal)


def _answer(error: FanlogError) -> Response:
    code, headers, body = failed(error)
    shown = {key.decode(): value.decode() for key, value in headers}
    return Response(body, code, shown, media_type="application/json")
