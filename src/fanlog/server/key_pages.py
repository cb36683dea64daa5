"""The pages on which receivers of OIDC tokens find the key: OpenID's discovery, and the key set."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fanlog.errors import FanlogError
from fanlog.push.senders.tokens import Tokens

JWKS_PATH = "/.well-known/jwks.json"
_DISCOVERY_PATH = "/.well-known/openid-configuration"
#: The key changes only with the data folder.
_CACHED = {"Cache-Control": "public, max-age=3600"}


def key_routes(tokens: Tokens) -> list[Route]:
    async def jwks(_: Request) -> Response:
        try:
            return JSONResponse(await tokens.jwks(), headers=_CACHED)
        except FanlogError as error:
            return PlainTextResponse(f"{error.message}\n", status_code=error.http_status)

    async def discovery(_: Request) -> Response:
        found = {
            "issuer": tokens.issuer,
            "jwks_uri": f"{tokens.issuer}{JWKS_PATH}",
            "id_token_signing_alg_values_supported": ["RS256"],
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
        }
        return JSONResponse(found, headers=_CACHED)

    return [Route(JWKS_PATH, jwks), Route(_DISCOVERY_PATH, discovery)]
