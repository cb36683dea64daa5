"""Planted bugs of alerts; see `mutants`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fanlog.broker import parts
from fanlog.broker.verbs.alerting import Alerting
from fanlog.core.alerts import ConditionFinding
from fanlog.core.records.alerts import state_record
from fanlog.model.alerts import Alert, AlertState
from simulator.planting import mutant
from simulator.temper import ALERTS_FIRST


@mutant(
    "an alert's message and its state are two commits",
    40,
    (Alerting, "_tell"),
    needs="alerters",
    first=ALERTS_FIRST,
)
def _(_: Any) -> Any:
    async def torn(
        self: Alerting,
        alert: Alert,
        before: AlertState,
        after: AlertState,
        reading: ConditionFinding,
    ) -> None:
        body = self._body(alert, after, reading.sentence)
        await self.ensure_topic(alert.topic.split("/")[1])
        topic, body = await self._admission.check(alert.topic, body)
        transaction = self._ledger.begin()
        parts.append(transaction, topic, body)
        await transaction.commit()
        table = self._ledger.hard.alerts
        if table.find(alert.name) == alert and table.state(alert.name) == before:
            await self._ledger.commit([state_record(alert.name, after)])

    return torn


@mutant(
    "alerts that hold are forgotten at a start",
    40,
    (Alerting, "_load"),
    needs="alerters",
    first=ALERTS_FIRST,
)
def _(load: Any) -> Any:
    def forgetful(self: Alerting, hard: Any) -> None:
        for name in hard.alerts.holding():
            state = hard.alerts.state(name)
            hard.apply(state_record(name, replace(state, is_holding=False, turning_s=None)))
        load(self, hard)

    return forgetful


@mutant(
    "an alert is told of at every look",
    40,
    (Alerting, "_look_at"),
    needs="alerters",
    first=ALERTS_FIRST,
)
def _(look_at: Any) -> Any:
    async def again(self: Alerting, name: str) -> None:
        alert = self._ledger.hard.alerts.find(name)
        if alert is not None and self._ledger.hard.alerts.state(name).is_holding:
            state, reading = self._ledger.hard.alerts.state(name), await self._read(alert)
            if self._ledger.hard.alerts.find(name) == alert:
                after = replace(state, number=state.number + 1)
                await self._tell(alert, state, after, reading)
        await look_at(self, name)

    return again
