"""Whether a subscription's messages are moved on by the server itself."""

from __future__ import annotations

from fanlog.model.resources import Subscription


def is_pushed(subscription: Subscription | None) -> bool:
    """Whether a subscription's messages are to be moved on now."""
    return (
        subscription is not None
        and subscription.push is not None
        and not subscription.push_off
        and not subscription.detached
    )
