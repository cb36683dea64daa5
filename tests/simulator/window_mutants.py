"""Planted bugs of windows: what is outstanding is counted wrong."""

from __future__ import annotations

from typing import Any

from fanlog.core.flow import Credit
from fanlog.core.share.lease import LeaseTable
from fanlog.core.subscription_window import SubscriptionWindow
from simulator.planting import mutant


@mutant("a window bounds each consumer alone", 40, (SubscriptionWindow, "bound"), needs="windows")
def _(bound: Any) -> Any:
    def alone(self: SubscriptionWindow, budget: Any, consumer: Credit) -> Any:
        before, self.messages = self.messages, consumer.messages
        try:
            return bound(self, budget, consumer)
        finally:
            self.messages = before

    return alone


@mutant("a window forgets leases of before its feed", 60, (LeaseTable, "count_in"), needs="windows")
def _(count_in: Any) -> Any:
    def forgetful(self: LeaseTable, window: Any) -> None:
        count_in(self, None)
        self.window = window
        if window is not None:
            # What was never counted is not given back either.
            window.messages += sum(len(lease.open) for lease in self)
            window.max_messages += sum(len(lease.open) for lease in self)

    return forgetful


@mutant("a window is one of each answer", 40, (SubscriptionWindow, "take"), needs="windows")
def _(_: Any) -> Any:
    def taken(self: SubscriptionWindow, messages: int, size_bytes: int) -> None:
        self.messages = max(self.messages, messages)
        self.size_bytes = max(self.size_bytes, size_bytes)

    return taken


@mutant("nothing is given back to a window", 40, (SubscriptionWindow, "give"), needs="windows")
def _(_: Any) -> Any:
    return lambda self, messages, size_bytes: None
