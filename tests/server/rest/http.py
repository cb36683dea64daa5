"""HTTP requests by hand, and what came of them."""

from __future__ import annotations

from typing import Any

import requests

from fanlog.server.rest.errors import HTTP_CODES
from server.conftest import PATIENCE_S, RunningServer


class Http:
    """A caller of one server."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._session = requests.Session()

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        if body is not None:
            options["json"] = body
        return self._session.request(method, self._server.http(path), timeout=PATIENCE_S, **options)

    def refused(self, code: int, method: str, path: str, body: Any = None, **options: Any) -> str:
        """The sentence of a request that is refused with `code`."""
        response = self(method, path, body, **options)
        assert response.status_code == code, response.text
        error = response.json()["error"]
        assert error["code"] == code
        assert error["status"] in HTTP_CODES
        [detail] = error["details"]
        assert detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert detail["domain"] == "fanlog"
        return str(error["message"])

    def close(self) -> None:
        self._session.close()
