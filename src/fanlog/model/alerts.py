"""Alerts: rules about the server and its subscriptions, and whether each holds.

Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.names import shown

Condition = Literal[
    "DEAD_LETTERS",
    "BACKLOG_MESSAGES",
    "BACKLOG_AGE",
    "ENDPOINT_FAILING",
    "CONSUMER_GONE",
    "PUBLISHES_REFUSED",
    "DISK_LOW",
    "LAKE_ALARM",
    "ARCHIVE_LAG",
]
CONDITION_NAMES: Final[tuple[Condition, ...]] = get_args(Condition)

#: The id of the topic of each project that messages of its alerts are published to.
TOPIC_ID: Final = "fanlog.alerts"


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """A row of the table of conditions."""

    meaning: str
    #: About one subscription; others are about the server.
    has_subscription: bool = False
    #: Unit of the number that is compared with a limit; empty for a condition without a limit.
    unit: str = ""
    #: The condition holds below its limit, not above it.
    is_below: bool = False


CONDITIONS: Final[Mapping[Condition, ConditionKind]] = {
    "DEAD_LETTERS": ConditionKind(
        "A message became a dead letter within the last 15 minutes.", has_subscription=True
    ),
    "BACKLOG_MESSAGES": ConditionKind(
        "More messages wait than the limit.", has_subscription=True, unit="messages"
    ),
    "BACKLOG_AGE": ConditionKind(
        "The oldest message that waits is older than the limit.",
        has_subscription=True,
        unit="seconds",
    ),
    "ENDPOINT_FAILING": ConditionKind(
        "The endpoint, the topic that is forwarded to, or the export fails.",
        has_subscription=True,
    ),
    "CONSUMER_GONE": ConditionKind("There is no consumer.", has_subscription=True),
    "PUBLISHES_REFUSED": ConditionKind("There is no room for publishes."),
    "DISK_LOW": ConditionKind(
        "Fewer bytes than the limit can still be written.", unit="bytes", is_below=True
    ),
    "LAKE_ALARM": ConditionKind("The lake is not as it should be."),
    "ARCHIVE_LAG": ConditionKind(
        "The archive lacks messages, and has not come further for longer than the limit.",
        unit="seconds",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    #: projects/p/alerts/a
    name: str
    condition: Condition
    #: Full name; empty for a condition of the server.
    subscription: str = ""
    #: None for a condition without one.
    limit: int | None = None
    #: Where a rule that holds ends; see `check`.
    clear: int | None = None
    #: The condition lasts so long before the rule begins to hold, and is over so long before it
    #: ends.
    minimum_s: float = limits.ALERT_MINIMUM_S
    created_s: float = 0.0

    @property
    def kind(self) -> ConditionKind:
        return CONDITIONS[self.condition]

    @property
    def topic(self) -> str:
        """The topic that its messages are published to."""
        return topic_of(names.project_of(self.name))

    @property
    def clear_at(self) -> float:
        """The number at which a rule that holds is over: given, or a fifth within the limit."""
        if self.clear is not None:
            return self.clear
        limit = self.limit or 0
        return limit * 1.25 if self.kind.is_below else limit * 0.8

    def check(self) -> None:
        """Check one that is made; stored ones are what they are.

        Raises:
            InvalidArgument: A field is missing, out of range, or not of this condition.
        """
        word, kind = self.condition, self.kind
        if kind.has_subscription and not self.subscription:
            raise InvalidArgument(f"subscription: {word} needs the name of a subscription")
        if self.subscription and not kind.has_subscription:
            raise InvalidArgument(
                f"subscription: {word} is about the server and takes no subscription"
            )
        if not kind.unit:
            for field, value in (("limit", self.limit), ("clear", self.clear)):
                if value is not None:
                    raise InvalidArgument(
                        f"{field}: {word} holds or does not, and takes no {field}"
                    )
        else:
            self._check_limit()
        if not 0 <= self.minimum_s <= limits.ALERT_MINIMUM_S_MAX:
            raise InvalidArgument(
                f"minimum_time: {self.minimum_s:g} s is out of range; 0 to "
                f"{limits.ALERT_MINIMUM_S_MAX:g} s"
            )

    def _check_limit(self) -> None:
        word, kind = self.condition, self.kind
        if self.limit is None:
            raise InvalidArgument(f"limit: {word} needs a limit, in {kind.unit}")
        if not 1 <= self.limit <= limits.ALERT_LIMIT_MAX:
            raise InvalidArgument(
                f"limit: {self.limit} is out of range; 1 to {limits.ALERT_LIMIT_MAX} {kind.unit}"
            )
        if self.clear is None:
            return
        if not 0 <= self.clear <= limits.ALERT_LIMIT_MAX:
            raise InvalidArgument(
                f"clear: {self.clear} is out of range; 0 to {limits.ALERT_LIMIT_MAX} {kind.unit}"
            )
        if kind.is_below and self.clear < self.limit:
            raise InvalidArgument(
                f"clear: {self.clear} is below the limit of {self.limit}; {word} begins below its "
                "limit and ends at `clear`, which is the limit or above it"
            )
        if not kind.is_below and self.clear > self.limit:
            raise InvalidArgument(
                f"clear: {self.clear} is above the limit of {self.limit}; {word} begins above its "
                "limit and ends at `clear`, which is the limit or below it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """Whether a rule holds. Hard state: what was published of it is never published again."""

    is_holding: bool = False
    #: Since when that is so; that of a new rule is when it was made.
    since_s: float
    #: Since when the condition says otherwise, without a break; None while it does not.
    turning_s: float | None = None
    #: How often the rule began or ended to hold: the number of its last message; 0 before one.
    number: int = 0
    last_message_id: str = ""
    #: Of the last message.
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class AlertView:
    """A rule as it is now."""

    alert: Alert
    state: AlertState
    #: Why a message could not be published when it was tried last; empty when it was.
    error: str = ""


def topic_of(project: str) -> str:
    """The topic of a project's alerts."""
    return names.topic_name(project, TOPIC_ID)


def check_condition(text: str, field: str = "condition") -> Condition:
    """Raises InvalidArgument: No condition has that name."""
    for condition in CONDITION_NAMES:
        if condition == text:
            return condition
    raise InvalidArgument(f"{field}: {shown(text)} is not one of {', '.join(CONDITION_NAMES)}")
