"""A look at the server: the facts that the rules of problems and of alerts are about."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.broker.metrics import Metrics
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.core.problems import ServerFacts
from fanlog.log.api import Log


@dataclass(eq=False)
class ServerLook:
    """Facts of one server. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _metrics: Metrics
    _tiers: Tiers
    _reserve_bytes: int

    def __post_init__(self) -> None:
        #: How far the archive was, and when it was seen to be there first.
        self._archived: tuple[int, float] | None = None

    def facts(self, now: float) -> ServerFacts:
        archived, committed = self._tiers.archived_sequence, self._ledger.committed_sequence
        has_lake = bool(self._tiers.lake_uri)
        if self._archived is None or self._archived[0] != archived:
            self._archived = archived, now
        return ServerFacts(
            degraded=self._ledger.refusals.degraded(),
            lake_alarm=self._tiers.alarm,
            damaged=self._metrics.batches_damaged,
            commits_failed=self._metrics.commits_failed,
            room_bytes=self._store.stats().room_bytes,
            reserve_bytes=self._reserve_bytes,
            unarchived=max(0, committed - archived) if has_lake else 0,
            archive_idle_s=now - self._archived[1],
        )
