"""The shard of one term of a node: built on the cluster's log, behind the guard of its tenure."""

from __future__ import annotations

from collections.abc import Callable

from fanlog import limits
from fanlog.broker.collector import let_collect, without_collector
from fanlog.broker.logged_spool import LoggedSpool
from fanlog.broker.ports import Cluster
from fanlog.broker.transaction import TakeReady
from fanlog.cluster.gateway import Backend
from fanlog.cluster.guard import TenureGuard
from fanlog.cluster.tenure import OwnerTenure
from fanlog.cluster.term_clock import TermClock
from fanlog.config import Config
from fanlog.errors import FanlogError
from fanlog.log.replicated.api import ReplicaClock, ReplicatedEngine
from fanlog.server import engine
from fanlog.server.http_api import shard_app
from fanlog.server.otlp.spans_export import SpansExport
from fanlog.server.resource_file import Resources
from fanlog.server.rest import errors
from fanlog.server.shard import Shard
from fanlog.transport.counts import TransportCounts

#: Answered whatever the owner is sure of: they say how the cluster is.
_UNGUARDED_METHODS = ("/fanlog.v1.Cluster/",)
_UNGUARDED_PATHS = ("/v1/cluster",)


class OwnedShard:
    """A `ServedShard`. Lives on the loop."""

    def __init__(
        self, shard: Shard, guard: TenureGuard, on_close: Callable[[OwnedShard], object]
    ) -> None:
        self.shard = shard
        self._guard = guard
        self._on_close = on_close
        self._is_lost = False
        self.metrics = shard.metrics()
        shard.broker.ledger.on_end.listen(self._lose)
        self.backend = Backend(
            guard.methods(shard.methods(), _UNGUARDED_METHODS),
            guard.app(shard_app(shard.routes(), shard.middleware()), _UNGUARDED_PATHS),
        )

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def _lose(self, _: FanlogError) -> None:
        self._is_lost = True

    async def ease(self, patience_s: float) -> None:
        await self.shard.finish(patience_s)

    def drain(self) -> None:
        self.shard.drain()

    async def settle(self, patience_s: float) -> None:
        await self._guard.settle(patience_s)

    async def close(self) -> None:
        self._on_close(self)
        await self.shard.close()
        # What was built for the term may be looked at by the collector again, and goes.
        let_collect()


async def open_shard(
    config: Config,
    log: ReplicatedEngine,
    clock: ReplicaClock,
    tenure: OwnerTenure,
    *,
    cluster: Cluster,
    take_ready: TakeReady,
    counts: TransportCounts,
    spans: SpansExport | None,
    wanted: Resources | None,
    issuer: str,
    on_close: Callable[[OwnedShard], object],
) -> OwnedShard:
    """Build the shard of a term; one that fails, or is cancelled, leaves nothing behind.

    Raises:
        FanlogError: It cannot be served here; the sentence says why.
    """
    shard = Shard(
        config,
        engine.with_lake(log, config),
        TermClock(clock, log.standing.clock_ahead_s),
        staged=LoggedSpool(log, limits.STAGED_BYTES_MAX),
        counts=counts,
        spans=spans,
        tenure=tenure,
        cluster=cluster,
        take_ready=take_ready,
    )
    try:
        with without_collector():
            await shard.start(wanted)
            owned = OwnedShard(shard, TenureGuard(tenure, errors.answer), on_close)
        shard.begin(issuer)
    except BaseException:
        await shard.close()
        raise
    return owned
