"""Readiness and metrics of a node of a cluster, which each node answers for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from fanlog.cluster.node import ClusterNode
from fanlog.errors import Unavailable
from fanlog.server.calls import Evidence
from fanlog.server.cluster_view import ClusterView
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.reader import MetricsReader
from fanlog.server.owned_shard import OwnedShard
from fanlog.server.peers import LinkPeers


class ClusterPages:
    """The `NodePages` of a node. Lives on the loop."""

    def __init__(
        self,
        node: ClusterNode[OwnedShard],
        view: ClusterView,
        numbers: MetricsReader,
        shards: Sequence[OwnedShard],
        peers: LinkPeers,
        *,
        is_guarded: bool,
    ) -> None:
        """`is_guarded`: callers must show who they are, to have the metrics too.

        `shards` has the shard that this node serves, while it does.
        """
        self._node = node
        self._view = view
        self._numbers = numbers
        self._shards = shards
        self._peers = peers
        self._is_guarded = is_guarded
        #: Set when the node begins to end: whoever balances load is to send no more.
        self.is_ending = False

    @property
    def obstacle(self) -> str:
        return "this node is stopping" if self.is_ending else self._node.obstacle

    @property
    def remarks(self) -> Sequence[str]:
        own = [line for one in self._shards for line in one.shard.remarks]
        return [*self._view.remarks, *own]

    def metrics(self) -> AsyncIterator[Reading]:
        return self._numbers.read()

    async def check_metrics(self, request: Evidence) -> None:
        """Let a caller have the metrics, or not; only the owner knows who may.

        Raises:
            FanlogError: It may not, or nobody can say.
        """
        if self._shards:
            await self._shards[-1].shard.check_metrics(request)
        elif self._is_guarded:
            owner = self._node.known_owner.card
            if owner is None or owner.name == self._node.card.name:
                raise Unavailable("no node owns the log, and only the owner knows who may ask")
            await self._peers.check_metrics(owner, request)

    async def check_here(self, request: Evidence) -> None:
        """As `check_metrics`, for a caller of another node, which has asked this one."""
        if not self._shards:
            raise Unavailable("this node does not own the log")
        await self._shards[-1].shard.check_metrics(request)
