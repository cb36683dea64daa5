"""The options of `subscribe`: a spec of the subscription, as every surface makes one.

A subscription with a name outlives the program, and goes on where it was; its settings are those of
the program that subscribed last. One without is the program's own, and goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

from fanlog import limits
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import (
    LABEL_DEAD_LETTER,
    LABEL_DELIVERY,
    LABEL_START,
    LABEL_TTL,
)
from fanlog.model.resources import AT_MOST_ONCE, DeadLetterPolicy, RetryPolicy, Subscription
from fanlog.model.specs import SubscriptionSpec, subscription_spec_of

DeliveryMode = Literal["at-least-once", "exactly-once", "at-most-once"]
_MODES = ("at-least-once", "exactly-once", "at-most-once")

#: Marks a subscription without a name; one that a crash left is removed at the next start.
TEMPORARY_LABEL = "in-process"
TEMPORARY = "temporary"
TEMPORARY_PREFIX = "callback-"

#: Waits between deliveries of a message that fails, in seconds: a callback that always raises must
#: not keep a processor busy.
RETRY = (0.1, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """What `subscribe` was asked for, as far as the core is to know of it."""

    name: str | None
    topic: str
    filter: str
    ordered: bool
    delivery: DeliveryMode
    ack_deadline: int | None
    start: str | datetime
    max_delivery_attempts: int | None
    dead_letter_topic: str | None
    retry: tuple[float, float] | None
    ttl: float | None
    retention: float | None
    labels: Mapping[str, str]

    def spec(self, project: str, temporary_id: str) -> SubscriptionSpec:
        """The subscription that is asked for.

        Raises:
            InvalidArgument: An option is out of range, or contradicts another one.
        """
        if self.delivery not in _MODES:
            raise InvalidArgument(
                f"delivery: {names.shown(repr(self.delivery))} is none of {', '.join(_MODES)}"
            )
        is_at_most_once = self.delivery == AT_MOST_ONCE
        subscription_id = self.name or TEMPORARY_PREFIX + temporary_id
        full = (
            subscription_id
            if "/" in subscription_id
            else names.subscription_name(project, subscription_id)
        )
        names.parse_subscription(full, field="name")
        names.refuse_system(full, field="name")
        retry = self.retry
        if retry is None and not is_at_most_once:
            retry = RETRY
        return SubscriptionSpec(
            name=full,
            topic=self.topic,
            filter=self.filter,
            ack_deadline_s=(
                limits.ACK_DEADLINE_S_DEFAULT if self.ack_deadline is None else self.ack_deadline
            ),
            message_retention_s=(
                limits.RETENTION_S_DEFAULT if self.retention is None else self.retention
            ),
            labels=self._labels(),
            enable_message_ordering=self.ordered,
            enable_exactly_once=self.delivery == "exactly-once",
            # A program may be away for long; what it has without a name goes with it anyway.
            expiration_ttl_s=None,
            dead_letter=self._dead_letter(project, full),
            retry=(
                None
                if retry is None
                else RetryPolicy(minimum_backoff_s=retry[0], maximum_backoff_s=retry[1])
            ),
        )

    def _labels(self) -> dict[str, str]:
        labels = dict(self.labels)
        ours: dict[str, str] = {}
        if self.name is None:
            ours[TEMPORARY_LABEL] = TEMPORARY
        if self.delivery == AT_MOST_ONCE:
            ours[LABEL_DELIVERY] = AT_MOST_ONCE
        start = self.start
        if isinstance(start, datetime):
            if start.tzinfo is None:
                raise InvalidArgument("start: a datetime without a time zone")
            start = start.astimezone(UTC).isoformat().replace("+00:00", "Z")
        if start != "now":
            ours[LABEL_START] = start
        if self.ttl is not None:
            ours[LABEL_TTL] = f"{self.ttl:g}"
        if self.max_delivery_attempts is not None and self.dead_letter_topic is None:
            ours[LABEL_DEAD_LETTER] = "auto"
        for label in ours:
            if label in labels:
                raise InvalidArgument(
                    f"labels: {label} is given as an argument, too; leave one of them out"
                )
        return labels | ours

    def _dead_letter(self, project: str, name: str) -> DeadLetterPolicy | None:
        topic = self.dead_letter_topic
        if self.max_delivery_attempts is None and topic is None:
            return None
        if topic is None:
            if self.name is None:
                raise InvalidArgument(
                    "max_delivery_attempts: needs a name, which the dead letters are kept under, "
                    "or a dead_letter_topic"
                )
            topic = names.dead_letter_topic_of(name)
        elif "/" not in topic:
            topic = names.topic_name(project, topic)
        attempts = self.max_delivery_attempts
        return DeadLetterPolicy(
            dead_letter_topic=topic,
            max_delivery_attempts=(
                limits.DELIVERY_ATTEMPTS_DEFAULT if attempts is None else attempts
            ),
        )


#: Of a subscription that exists, these cannot be other than they are.
_FIXED = {"topic": "topic", "enable_message_ordering": "ordered"}


def changes_to(present: Subscription, wanted: SubscriptionSpec) -> dict[str, Any]:
    """The changes that make a subscription that exists what is asked for.

    Where it starts was decided when it was made.

    Raises:
        FailedPrecondition: It cannot become that.
    """
    there = subscription_spec_of(present)
    changes: dict[str, Any] = {}
    for part in fields(SubscriptionSpec):
        if part.name in ("maker", "push", "table", "files", "retain_acked"):
            continue
        asked, found = getattr(wanted, part.name), getattr(there, part.name)
        if part.name == "labels":
            asked = {**asked}
            asked.pop(LABEL_START, None)
            if LABEL_START in found:
                asked[LABEL_START] = found[LABEL_START]
        if asked == found:
            continue
        if part.name in _FIXED:
            raise FailedPrecondition(
                f"subscription {wanted.name!r} exists, and its {_FIXED[part.name]} is {found!r}, "
                f"not {asked!r}; choose another name, or delete it first"
            )
        changes[part.name] = asked
    return changes


def is_temporary(subscription: Subscription) -> bool:
    """Whether it was made without a name."""
    own = names.parse_subscription(subscription.name).id
    return (
        own.startswith(TEMPORARY_PREFIX) and subscription.labels.get(TEMPORARY_LABEL) == TEMPORARY
    )
