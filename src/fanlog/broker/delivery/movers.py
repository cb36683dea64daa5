"""Movers: the consumers inside the server that move messages of subscriptions on, such as senders.

A mover is in the table while it runs, so that whoever shows a subscription can say why its messages
do not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fanlog.model.resources import Subscription, SubscriptionId


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverFailure:
    """A request, or a forward, that failed."""

    time_s: float
    reason: str
    messages: int
    #: The first of them.
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverHealth:
    """How a mover stands with its endpoint."""

    #: closed, open or half-open.
    breaker: str = "closed"
    #: When it is tried again; only while the breaker is not closed.
    next_try_s: float | None = None
    window: int = 0
    under_way: int = 0
    attempts: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    #: The latest first.
    failures: Sequence[MoverFailure] = ()


class Mover(Protocol):
    @property
    def trouble(self) -> str:
        """Why messages do not move just now, in a sentence; empty when they do."""

    @property
    def health(self) -> MoverHealth: ...


class Movers:
    """The movers that run, by subscription. Soft state."""

    def __init__(self) -> None:
        self._running: dict[SubscriptionId, Mover] = {}

    def add(self, subscription: Subscription, mover: Mover) -> None:
        self._running[subscription.id] = mover

    def remove(self, subscription_id: SubscriptionId) -> None:
        self._running.pop(subscription_id, None)

    def trouble(self, subscription: Subscription) -> str:
        """Why messages of a subscription are not pushed just now; empty when they are."""
        if subscription.push_off:
            return f"push is off: {subscription.push_off}; set push_config to turn it on again"
        mover = self._running.get(subscription.id)
        return "" if mover is None else mover.trouble

    def health(self, subscription: Subscription) -> MoverHealth | None:
        """How the mover of a subscription stands; None while none runs."""
        mover = self._running.get(subscription.id)
        return None if mover is None else mover.health

    def has(self, subscription: Subscription) -> bool:
        """Whether a mover runs for a subscription."""
        return subscription.id in self._running
