"""The alert rules of a broker and whether each holds, all hard state; and the rule of what is next.

A rule begins to hold when its condition has lasted for the minimum time, and ends when it has been
over for as long. Between the limit and `clear` a rule stays as it is (hysteresis).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from fanlog.core.names_table import NamesTable
from fanlog.core.problems import ServerFacts, in_bytes, lasting
from fanlog.core.records.alerts import AlertRecord, AlertStateRecord, AnyAlertRecord
from fanlog.errors import AlertNotFound
from fanlog.model.alerts import Alert, AlertState
from fanlog.model.names import project_of
from fanlog.model.quotas import Usage


class AlertTable:
    """Rules by name. Not safe to share between threads."""

    def __init__(self) -> None:
        self._alerts: dict[str, Alert] = {}
        self._states: dict[str, AlertState] = {}
        # Derived: names in order, and how many there are, for quotas.
        self._names = NamesTable[str]()
        self.usage = Usage()

    def __len__(self) -> int:
        return len(self._alerts)

    def find(self, name: str) -> Alert | None:
        return self._alerts.get(name)

    def alert(self, name: str) -> Alert:
        """Raises AlertNotFound."""
        found = self._alerts.get(name)
        if found is None:
            raise AlertNotFound(f"alert {name!r} does not exist")
        return found

    def state(self, name: str) -> AlertState:
        return self._states[name]

    def names_after(self, prefix: str, after: str) -> Iterator[str]:
        return self._names.names_after(prefix, after)

    def names(self) -> list[str]:
        return list(self._alerts)

    def holding(self) -> list[str]:
        """Names of the rules that hold."""
        return [name for name, state in self._states.items() if state.is_holding]

    def apply(self, record: AnyAlertRecord) -> None:
        match record:
            case AlertRecord(name=name, alert=alert):
                self._count(name, -1)
                if alert is not None:
                    self._alerts[name] = alert
                    self._names.add(name, name)
                elif self._alerts.pop(name, None) is not None:
                    self._names.remove(name)
                self._count(name, 1)
            case AlertStateRecord(name=name, stored=stored):
                if stored is None:
                    self._states.pop(name, None)
                else:
                    self._states[name] = stored.state
            case _:
                assert_never(record)

    def check(self) -> None:
        """Raises ValueError: A rule without its state, or the reverse, as nothing writes."""
        if self._alerts.keys() != self._states.keys():
            [one, *_] = self._alerts.keys() ^ self._states.keys()
            raise ValueError(f"of alert {one!r} only one of two records is there")

    def _count(self, name: str, sign: int) -> None:
        if name in self._alerts:
            self.usage.change(project_of(name), {"alerts": 1}, sign)


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """A condition as it was found: the number that is compared with the limit, and a sentence.

    A condition without a limit is 1 while it is there, and 0 otherwise.
    """

    value: float
    sentence: str


def is_met(alert: Alert, value: float, *, is_holding: bool) -> bool:
    """Whether the condition is there; for a rule that holds, whether it is not over yet."""
    if not alert.kind.unit:
        return value > 0
    bound = alert.clear_at if is_holding else float(alert.limit or 0)
    return value < bound if alert.kind.is_below else value > bound


def next_state(alert: Alert, state: AlertState, value: float, now_s: float) -> AlertState:
    """The state of a rule after a look at its condition; the same when nothing changes.

    A state with another number is one that a message tells of.
    """
    met = is_met(alert, value, is_holding=state.is_holding)
    if met == state.is_holding:
        return replace(state, turning_s=None)
    # The clock may have been set back since.
    since_s = now_s if state.turning_s is None else min(state.turning_s, now_s)
    if now_s - since_s < alert.minimum_s:
        return replace(state, turning_s=since_s)
    return replace(state, is_holding=met, since_s=now_s, turning_s=None, number=state.number + 1)


#: Problems that an alert is about, by its condition.
_ENDPOINT_CODES: Final = ("push_off", "push_failing", "export_failing")


def of_subscription(
    alert: Alert,
    *,
    messages: int,
    age_s: float,
    consumers: int | None,
    problems: Mapping[str, str],
) -> ConditionFinding:
    """The condition of a rule about a subscription.

    Args:
        messages, age_s: How many messages wait, and the age of the oldest.
        consumers: None for a subscription that is detached, which needs none.
        problems: Sentences of the problems of the subscription, by their code.
    """
    short = alert.subscription.rpartition("/")[2]
    match alert.condition:
        case "BACKLOG_MESSAGES":
            wait = "message waits" if messages == 1 else "messages wait"
            return ConditionFinding(
                messages, f"{messages:,} {wait} for {short} (limit {alert.limit:,})"
            )
        case "BACKLOG_AGE":
            return ConditionFinding(
                age_s,
                f"the oldest message of {short} waits for {lasting(age_s)} "
                f"(limit {lasting(alert.limit or 0)})",
            )
        case "CONSUMER_GONE":
            has_none = consumers == 0
            return ConditionFinding(has_none, f"{short} has {'no' if has_none else 'a'} consumer")
        case "ENDPOINT_FAILING":
            return _first(problems, _ENDPOINT_CODES, f"{short} delivers again")
        case "DEAD_LETTERS":
            otherwise = f"no message of {short} became a dead letter lately"
            return _first(problems, ("dead_letters_arriving",), otherwise)
        case _:
            raise AssertionError(f"{alert.condition} is not about a subscription")


def of_server(alert: Alert, facts: ServerFacts) -> ConditionFinding:
    """The condition of a rule about the server."""
    match alert.condition:
        case "PUBLISHES_REFUSED":
            return ConditionFinding(
                bool(facts.degraded), facts.degraded or "publishes are taken again"
            )
        case "DISK_LOW":
            room = max(0, facts.room_bytes - facts.reserve_bytes)
            return ConditionFinding(
                room,
                f"{in_bytes(room)} can still be written before publishes are refused "
                f"(limit {in_bytes(alert.limit or 0)})",
            )
        case "LAKE_ALARM":
            alarm = facts.lake_alarm
            return ConditionFinding(
                bool(alarm), f"the lake: {alarm}" if alarm else "the lake is well"
            )
        case "ARCHIVE_LAG":
            lag_s = facts.archive_idle_s if facts.unarchived else 0.0
            return ConditionFinding(
                lag_s,
                f"the archive has not come further for {lasting(lag_s)}; {facts.unarchived:,} "
                f"commits are not in the lake (limit {lasting(alert.limit or 0)})",
            )
        case _:
            raise AssertionError(f"{alert.condition} is about a subscription")


def _first(problems: Mapping[str, str], codes: Sequence[str], otherwise: str) -> ConditionFinding:
    for code in codes:
        if code in problems:
            return ConditionFinding(1, problems[code])
    return ConditionFinding(0, otherwise)
