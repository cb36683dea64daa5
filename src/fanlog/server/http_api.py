"""The HTTP port: REST under `/v1` and its description, health, readiness, metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from urllib.parse import urlsplit

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from fanlog.broker.broker import Broker
from fanlog.config import Config
from fanlog.core.iam import SERVER
from fanlog.errors import FanlogError, MethodNotAllowed, RouteNotFound
from fanlog.log.api import Log
from fanlog.model import names
from fanlog.model.origins import Doorkeeper, parse_host
from fanlog.push.service import PushService
from fanlog.server.access_control import AccessControl
from fanlog.server.doorkeeping import Door
from fanlog.server.gate import Gate
from fanlog.server.http_callers import PageRequest
from fanlog.server.key_pages import key_routes
from fanlog.server.methods import bind_all
from fanlog.server.metrics_page import metrics_page
from fanlog.server.permissions import METRICS
from fanlog.server.rest import events, google_json, own_json, path_form, short_form
from fanlog.server.rest.app import RestApp, failed
from fanlog.server.rest.docs_page import docs_page
from fanlog.server.rest.facts import Facts
from fanlog.server.rest.openapi import document
from fanlog.server.rest.positions import position_verbs
from fanlog.server.rest.route import Route as RestRoute
from fanlog.server.rest.route import Router
from fanlog.server.services import SERVICES
from fanlog.server.token_page import token_route
from fanlog.transport.counts import TransportCounts

#: The page needs nothing but its own style.
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def http_app(
    broker: Broker,
    store: Log,
    is_ready: Callable[[], bool],
    config: Config,
    senders: PushService,
    counts: TransportCounts,
    access: AccessControl | None = None,
) -> Starlette:
    """The routes of the HTTP port; with `access`, all but health and keys behind its gate."""
    gate = None if access is None else access.gate

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        if not is_ready():
            return PlainTextResponse("not ready\n", status_code=503)
        # It serves readers all the same, and keeps messages that are not archived.
        troubles = (
            ("degraded", broker.ledger.refusals.degraded()),
            ("lake alarm", broker.tiers.alarm),
        )
        told = [f"{kind}: {trouble}\n" for kind, trouble in troubles if trouble]
        return PlainTextResponse("".join(["ready\n", *told]))

    async def metrics(request: Request) -> Response:
        if gate is not None:
            try:
                await gate.check_page(PageRequest(request.scope), "/metrics", METRICS, SERVER)
            except FanlogError as error:
                return _answer(error)
        page = await metrics_page(broker, store, senders, counts, access)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    async def openapi(_: Request) -> Response:
        return Response(_documents()[0], media_type="application/json")

    async def docs(_: Request) -> Response:
        return HTMLResponse(_documents()[1], headers={"content-security-policy": _DOCS_POLICY})

    return Starlette(
        routes=[
            *key_routes(senders.tokens),
            *([] if access is None else [token_route(access.exchange)]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi),
            Route("/docs", docs),
            Mount("/v1", app=rest_app(broker, config, gate)),
        ],
        middleware=[Middleware(Door, keeper=_keeper(config))],
        exception_handlers={HTTPException: _refused},
    )


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


def rest_app(broker: Broker, config: Config, gate: Gate | None = None) -> RestApp:
    """REST in front of all verbs of a broker."""
    verbs = bind_all(SERVICES, broker, gate)
    verbs |= position_verbs(broker, verbs, gate)
    verbs |= events.event_verbs(verbs, config, gate)
    return RestApp(
        Router(route for routes in rest_routes().values() for route in routes),
        verbs,
        project=config.project,
        bytes_max=config.http_max_bytes,
        facts=Facts(broker),
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
