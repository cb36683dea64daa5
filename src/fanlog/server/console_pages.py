"""The files of the console, served from memory: `/`, and everything below `/console/`.

They are read once, when the server starts. A browser asks each time whether it has the file as it
is (`ETag`), so that a new version of the server is a new console at once. Nothing in them is
secret; all that is, comes from the API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fanlog.errors import FanlogError, RouteNotFound
from fanlog.model import names
from fanlog.server.rest.app import failed

_INDEX: Final = "index.html"
#: Scripts, styles and images of this server alone; no page of another may frame it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    content: bytes
    media_type: str
    etag: str


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files of the console, by their path below its folder."""
    found: dict[str, ConsoleFile] = {}
    for path, file in _walk(files("fanlog.server") / "console", ""):
        kind = _TYPES.get(path.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path] = ConsoleFile(content, kind, etag)
    return found


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def console_routes() -> list[Route]:
    known = console_files()

    async def index(request: Request) -> Response:
        return _serve(request, known.get(_INDEX))

    async def file(request: Request) -> Response:
        return _serve(request, known.get(request.path_params["path"]))

    return [Route("/", index), Route("/console/{path:path}", file)]


def _serve(request: Request, found: ConsoleFile | None) -> Response:
    if found is None:
        return _answer(RouteNotFound(f"nothing is served at {names.shown(request.url.path)}"))
    headers = _HEADERS | {"etag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


def _answer(error: FanlogError) -> Response:
    code, _, body = failed(error)
    return Response(body, code, _HEADERS, media_type="application/json")
