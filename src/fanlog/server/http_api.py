"""The HTTP port: REST under `/v1`, health, readiness, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from fanlog import names
from fanlog.broker.broker import Broker
from fanlog.config import Config
from fanlog.errors import FanlogError, MethodNotAllowed, RouteNotFound
from fanlog.log.api import Log
from fanlog.server import grpc_api
from fanlog.server.metrics_page import metrics_page
from fanlog.server.rest import google_json, path_form, short_form
from fanlog.server.rest.app import RestApp, failed
from fanlog.server.rest.positions import position_verbs
from fanlog.server.rest.route import Route as RestRoute
from fanlog.server.rest.route import Router


def http_app(broker: Broker, store: Log, is_ready: Callable[[], bool], config: Config) -> Starlette:
    """The routes of the HTTP port."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        if is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", status_code=503)

    async def metrics(_: Request) -> Response:
        page = await metrics_page(broker, store)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Mount("/v1", app=rest_app(broker, config)),
        ],
        exception_handlers={HTTPException: _refused},
    )


def rest_app(broker: Broker, config: Config) -> RestApp:
    """REST in front of all verbs of a broker."""
    verbs = {
        f"{service.rpartition('.')[2]}.{name}": verb
        for service, methods in grpc_api.unary_verbs(broker).items()
        for name, verb in methods.items()
    }
    verbs |= position_verbs(broker, verbs)
    return RestApp(
        Router(rest_routes()), verbs, project=config.project, bytes_max=config.http_max_bytes
    )


def rest_routes() -> list[RestRoute]:
    """Every route under `/v1`; where two forms have the same one, the later has it."""
    forms = (google_json.routes(), short_form.routes(), path_form.routes())
    return list({(one.http, one.path): one for form in forms for one in form}.values())


def _refused(request: Request, error: Exception) -> Response:
    """Paths and methods that Starlette does not find, in the form of all other errors."""
    assert isinstance(error, HTTPException)
    path = names.shown(request.url.path)
    refusal: FanlogError = RouteNotFound(f"nothing is served at {path}")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET")
        refusal = MethodNotAllowed(f"{path} takes {allowed}, not {request.method}", allowed)
    code, headers, body = failed(refusal)
    shown = {key.decode(): value.decode() for key, value in headers}
    return Response(body, code, shown, media_type="application/json")


class HttpServer(uvicorn.Server):
    """Uvicorn in our loop; signals are the application's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return int(self.servers[0].sockets[0].getsockname()[1])
