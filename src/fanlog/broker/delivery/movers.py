"""Movers: the consumers inside the server that move messages of subscriptions on, such as senders.

A mover is in the table while it runs, so that whoever shows a subscription can say why its messages
do not move.
"""

from __future__ import annotations

from typing import Protocol

from fanlog.model.resources import Subscription, SubscriptionId


class Mover(Protocol):
    @property
    def trouble(self) -> str:
        """Why messages do not move just now, in a sentence; empty when they do."""


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
