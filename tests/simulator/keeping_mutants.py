"""Planted bugs of retention: what is let go of, and what is kept, by default or by somebody."""

from __future__ import annotations

import sys
from typing import Any

from fanlog.broker.retention import needs as rules
from fanlog.broker.retention.needs import NeededOffsets, TopicRetention
from fanlog.broker.retention.retention import Retention
from fanlog.broker.retention.spare import Spare
from fanlog.core.cursor import Cursor
from fanlog.core.hard_state import HardState
from simulator.planting import mutant


@mutant(
    "the default's trim takes what a subscription needs",
    100,
    (rules, "needed_offsets"),
    needs="topic_retention_s",
)
def _(needs: Any) -> Any:
    def greedy(ledger: Any, *rest: Any) -> NeededOffsets:
        found: NeededOffsets = needs(ledger, *rest)
        ends = {partition: ledger.end(partition) for partition in found.by_default}
        return NeededOffsets({**found.by_readers, **ends}, found.by_default)

    return greedy


@mutant("the default keeps nothing", 50, (rules, "retention_of"), needs="topic_retention_s")
def _(kept: Any) -> Any:
    def nothing(topic: Any, tiers: Any, default_s: float) -> TopicRetention:
        found: TopicRetention = kept(topic, tiers, default_s)
        return TopicRetention("nobody", 0.0) if found.by == "server" else found

    return nothing


@mutant("what the default keeps has no bound", 100, (Spare, "measure"), needs="topic_retention_s")
def _(_: Any) -> Any:
    return lambda self, spans: 0


@mutant(
    "a seek does not bring back what the default keeps",
    200,
    (Retention, "retained_from"),
    needs="topic_retention_s admins seeks",
)
def _(retained_from: Any) -> Any:
    async def of_its_own(self: Retention, share: Any, now: float) -> Any:
        default_s, self._default_s = self._default_s, 0.0
        try:
            return await retained_from(self, share, now)
        finally:
            self._default_s = default_s

    return of_its_own


@mutant("snapshots hold nothing in the log", 300, (HardState, "cursor_of"), needs="admins seeks")
def _(cursor_of: Any) -> Any:
    def too_high(self: HardState, snapshot: Any, partition: Any) -> Cursor:
        cursor: Cursor = cursor_of(self, snapshot, partition)
        is_trimming = sys._getframe(1).f_code.co_name == "needed_offsets"
        return Cursor(1 << 60) if is_trimming else cursor

    return too_high


@mutant("what is acknowledged is not retained", 200, (Retention, "_trim"), needs="admins seeks")
def _(trim: Any) -> Any:
    return lambda self, horizons, *cuts, **only: trim(
        self, dict.fromkeys(horizons, 1 << 60), *cuts, **only
    )
