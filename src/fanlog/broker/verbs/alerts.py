"""The verbs of alerts. They answer when the state that they saw and changed is durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.alerting import Alerting
from fanlog.core.records.alerts import AlertRecord, AlertStateRecord, state_record
from fanlog.errors import AlreadyExists, InvalidArgument
from fanlog.model import names
from fanlog.model.alerts import Alert, AlertState, AlertView
from fanlog.model.quotas import Quotas


@dataclass(eq=False)
class Alerts:
    """Alert verbs of one broker."""

    _ledger: Ledger
    _clock: Clock
    _alerting: Alerting
    _quotas: Quotas

    async def create(self, alert: Alert) -> AlertView:
        """Make a rule that does not hold yet, and the topic of its messages if there is none.

        Raises:
            AlreadyExists: There is one of that name.
            InvalidArgument: A field is wrong, or the subscription can never meet the condition.
            SubscriptionNotFound: There is no such subscription.
            ResourceExhausted: The project has as many as it may.
        """
        alert.check()
        self._check_subscription(alert)
        self._check_new(alert)
        await self._alerting.ensure_topic(names.project_of(alert.name))
        # Others may have come while the topic was made.
        self._check_new(alert)
        now = self._clock.now()
        alert, state = replace(alert, created_s=now), AlertState(since_s=now)
        committed = self._ledger.commit(
            [AlertRecord(alert.name, alert), state_record(alert.name, state)]
        )
        self._alerting.watch(alert.name)
        await committed
        return AlertView(alert, state)

    async def get(self, name: str) -> AlertView:
        """Raises AlertNotFound."""
        view = self._view(self._ledger.hard.alerts.alert(name))
        await self._ledger.sync()
        return view

    async def list_all(self, project: str, after: str, limit: int) -> list[AlertView]:
        """Rules of a project by name, after one of them."""
        table = self._ledger.hard.alerts
        found = table.names_after(names.alert_name(project, ""), after)
        views = [self._view(table.alert(name)) for name in islice(found, limit)]
        await self._ledger.sync()
        return views

    async def update(self, name: str, changes: Mapping[str, Any]) -> AlertView:
        """Change fields of a rule; whether it holds is judged with them at the next look.

        Raises:
            AlertNotFound: There is no such rule.
            InvalidArgument: A field is wrong.
        """
        alert = replace(self._ledger.hard.alerts.alert(name), **changes)
        alert.check()
        committed = self._ledger.commit([AlertRecord(name, alert)])
        self._alerting.watch(name)
        view = self._view(alert)
        await committed
        return view

    async def delete(self, name: str) -> None:
        """Raises AlertNotFound."""
        self._ledger.hard.alerts.alert(name)
        committed = self._ledger.commit([AlertRecord(name, None), AlertStateRecord(name, None)])
        self._alerting.watch(name)
        await committed

    def _check_new(self, alert: Alert) -> None:
        table = self._ledger.hard.alerts
        if table.find(alert.name) is not None:
            raise AlreadyExists(f"alert {alert.name!r} exists already")
        self._quotas.check("alerts", names.project_of(alert.name), table.usage)

    def _check_subscription(self, alert: Alert) -> None:
        if not alert.subscription:
            return
        subscription = self._ledger.hard.catalog.subscription(alert.subscription)
        if alert.condition == "ENDPOINT_FAILING" and subscription.mode == "pull":
            raise InvalidArgument(
                f"subscription: {names.shown(alert.subscription)} is pulled and has no endpoint "
                "that could fail"
            )

    def _view(self, alert: Alert) -> AlertView:
        table = self._ledger.hard.alerts
        return AlertView(alert, table.state(alert.name), self._alerting.error(alert.name))
