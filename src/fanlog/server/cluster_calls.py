"""`fanlog.v1.Cluster` at any node: the owner answers, and a node by itself where none owns.

Where callers are authenticated, only the owner knows who may ask: then a call waits for one, as all
do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fanlog.config import Config
from fanlog.server.calls import Call, Unary
from fanlog.server.cluster_api import cluster_pb
from fanlog.server.cluster_view import ClusterView
from fanlog.server.rest import google_json
from fanlog.server.rest.app import RestApp
from fanlog.server.rest.binding import HttpBinding
from fanlog.server.rest.route import Router
from fanlog.transport.methods import RpcMethod

DESCRIBE = "/fanlog.v1.Cluster/DescribeCluster"
_PATH = "/v1/cluster"


class ClusterCalls:
    """In front of a gateway. Lives on the loop."""

    def __init__(
        self, view: ClusterView, gateway: ASGIApp, config: Config, has_owner: Callable[[], bool]
    ) -> None:
        """`gateway` is the application of all other requests."""
        self._view = view
        self._gateway = gateway
        self._answers_alone = config.auth == "none"
        self._has_owner = has_owner
        binding = HttpBinding("GET", _PATH, "Cluster.DescribeCluster")
        self._own_app = RestApp(
            Router([google_json.route(binding)]),
            {"Cluster.DescribeCluster": self._describe},
            project=config.project,
            bytes_max=config.http_max_bytes,
            facts=None,
            answered=Counter(),
        )

    def methods(self, methods: Iterable[RpcMethod]) -> list[RpcMethod]:
        """The methods of a gateway, of which one is answered here where it must be."""
        return [
            replace(one, unary=self._or_here(one.unary)) if one.path == DESCRIBE else one
            for one in methods
        ]

    def routes(self) -> list[Route]:
        """Routes that stand before those of the gateway."""
        return [Route(_PATH, self, methods=["GET"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._own_app if self._is_here else self._gateway
        await app(scope, receive, send)

    @property
    def _is_here(self) -> bool:
        return self._answers_alone and not self._has_owner()

    def _or_here(self, verb: Unary | None) -> Unary:
        assert verb is not None

        async def describe(raw: bytes, call: Call) -> bytes:
            return await (self._describe(raw, call) if self._is_here else verb(raw, call))

        return describe

    async def _describe(self, _: bytes, __: Call) -> bytes:
        return cluster_pb(await self._view.describe()).SerializeToString()
