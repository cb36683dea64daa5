"""`/oauth2/token`: the exchange of a signed assertion for an access token, RFC 7523."""

from __future__ import annotations

import math
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fanlog.auth.authenticator import TOKEN_PATH
from fanlog.auth.exchange import Exchange
from fanlog.errors import RateExceeded, Unauthenticated
from fanlog.server.http_callers import address_of

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_BODY_BYTES_MAX = 32 * 1024
_HEADERS = {"cache-control": "no-store"}


def token_route(exchange: Exchange) -> Route:
    async def grant(request: Request) -> Response:
        try:
            body = await _read(request)
        except ClientDisconnect:
            return Response(status_code=499)
        if body is None:
            return _refuse("invalid_request", "the body is too long")
        try:
            form = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=20)
        except ValueError:
            return _refuse("invalid_request", "the body is no form")
        if form.get("grant_type") != [_GRANT]:
            return _refuse("unsupported_grant_type", f"grant_type must be {_GRANT}")
        assertions = form.get("assertion", [])
        if len(assertions) != 1:
            return _refuse("invalid_request", "one assertion is needed")
        try:
            token, life_s = await exchange.grant(assertions[0], address_of(request.scope))
        except Unauthenticated as error:
            return _refuse("invalid_grant", error.message)
        except RateExceeded as error:
            wait = {"retry-after": str(math.ceil(error.retry_after_s))}
            return _refuse("slow_down", error.message, status=429, headers=wait)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": life_s}
        return JSONResponse(answer, headers=_HEADERS)

    return Route(TOKEN_PATH, grant, methods=["POST"])


async def _read(request: Request) -> bytes | None:
    """The body; None when it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            return None
    return body


def _refuse(
    error: str, description: str, *, status: int = 400, headers: dict[str, str] | None = None
) -> Response:
    content = {"error": error, "error_description": description}
    return JSONResponse(content, status_code=status, headers=_HEADERS | (headers or {}))
