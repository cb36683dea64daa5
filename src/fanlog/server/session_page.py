"""`/v1/session`: a browser signs in with a token, asks who it is, and signs out."""

from __future__ import annotations

import math
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.authority import ANONYMOUS
from fanlog.errors import FailedPrecondition, FanlogError, InvalidArgument, TooLarge
from fanlog.model.identity import Principal
from fanlog.model.json_value import JsonObject
from fanlog.server.gate import Gate
from fanlog.server.http_callers import SESSION, PageRequest
from fanlog.server.rest import json_weight
from fanlog.server.rest.app import failed
from fanlog.server.session_door import check_origin, check_place, cookie_of, set_cookie
from fanlog.server.sessions import Session, Sessions
from fanlog.wire.fields import timestamp

PATH = "/v1/session"
_NO_STORE = {"cache-control": "no-store"}


class SessionPage:
    """The three verbs of sessions. Without a gate there is nothing to sign in to."""

    def __init__(self, broker: Broker, sessions: Sessions, gate: Gate | None) -> None:
        self._broker = broker
        self._sessions = sessions
        self._gate = gate

    def route(self) -> Route:
        return Route(PATH, self.serve, methods=["GET", "POST", "DELETE"])

    async def serve(self, request: Request) -> Response:
        try:
            match request.method:
                case "POST":
                    return await self._sign_in(request)
                case "DELETE":
                    return self._sign_out(request)
                case _:
                    return await self._show(request)
        except ClientDisconnect:
            return Response(status_code=499)
        except FanlogError as error:
            code, headers, body = failed(error)
            shown = {key.decode(): value.decode() for key, value in headers}
            return Response(body, code, _NO_STORE | shown, media_type="application/json")

    async def _show(self, request: Request) -> Response:
        if self._gate is None:
            return _answer(self._described(None, None))
        caller = await self._gate.admit(PageRequest(request.scope))
        return _answer(self._described(caller.principal, _session_of(request)))

    async def _sign_in(self, request: Request) -> Response:
        # A page elsewhere must not sign a browser in as somebody else.
        check_origin(request.scope, changes=True)
        check_place(request.scope)
        if self._gate is None:
            raise FailedPrecondition(
                "this server does not authenticate its callers; there is nothing to sign in to"
            )
        authorization = f"Bearer {await _token_of(request)}"
        evidence = PageRequest(request.scope, authorization)
        caller = await self._gate.sign_in(evidence, PATH)
        self._sessions.close(cookie_of(request.scope))
        value, session = self._sessions.open(authorization)
        answer = _answer(self._described(caller.principal, session))
        answer.raw_headers.append((b"set-cookie", set_cookie(request.scope, value)))
        return answer

    def _sign_out(self, request: Request) -> Response:
        self._sessions.close(cookie_of(request.scope))
        answer = Response(status_code=204, headers=_NO_STORE)
        answer.raw_headers.append((b"set-cookie", set_cookie(request.scope, "")))
        return answer

    def _described(self, principal: Principal | None, session: Session | None) -> JsonObject:
        found: JsonObject = {
            "auth": "none" if self._gate is None else "required",
            "signedIn": session is not None,
            "serverId": self._broker.accounts.server_id,
        }
        if principal is not None and principal is not ANONYMOUS:
            found["member"] = principal.member
            found["groups"] = list[Any](sorted(principal.groups))
            if not math.isinf(principal.expires_s):
                found["expireTime"] = timestamp(principal.expires_s).ToJsonString()
        if session is not None:
            found["csrfToken"] = session.csrf_token
        return found


def _session_of(request: Request) -> Session | None:
    found: Session | None = request.scope.get("extensions", {}).get(SESSION)
    return found


def _answer(found: JsonObject) -> Response:
    return Response(orjson.dumps(found), headers=_NO_STORE, media_type="application/json")


async def _token_of(request: Request) -> str:
    """The token in the body of a request to sign in; raises InvalidArgument."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise InvalidArgument("content-type: must be application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > limits.SESSION_BYTES_MAX:
            raise TooLarge(f"the body has more than {limits.SESSION_BYTES_MAX} bytes")
    given = json_weight.loads(body)
    token = given.get("token") if isinstance(given, dict) else None
    if not isinstance(token, str) or not token or len(given) != 1:  # type: ignore[arg-type]
        raise InvalidArgument('the body: must be {"token": "…"}')
    return token
