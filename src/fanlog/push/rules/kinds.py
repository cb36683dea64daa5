"""Whether and how the server itself moves a subscription's messages on."""

from __future__ import annotations

from typing import Literal

from fanlog.model import endpoints
from fanlog.model.resources import PushConfig, Subscription

#: Over HTTP, over gRPC, or forwarded to a topic of this broker.
Kind = Literal["web", "grpc", "topic"]


def is_pushed(subscription: Subscription | None) -> bool:
    """Whether a subscription's messages are to be moved on now."""
    return (
        subscription is not None
        and subscription.push is not None
        and not subscription.push_off
        and not subscription.detached
    )


def kind_of(push: PushConfig | None) -> Kind:
    """How messages move on, by the scheme of the endpoint."""
    assert push is not None
    if push.endpoint.startswith(endpoints.TOPIC_SCHEME):
        return "topic"
    return "grpc" if endpoints.is_grpc(push.endpoint) else "web"
