"""What the broker asks of whoever pushes messages to endpoints, and does for it.

Pushing is a consumer like any other: it attaches to the feed of a subscription, takes leases and
settles them. It lives with the servers, which know HTTP; a broker without it refuses push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fanlog import endpoints
from fanlog.core.catalog import Catalog
from fanlog.errors import FailedPrecondition, Unimplemented
from fanlog.model import PushConfig, Subscription

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker


class Pushes(Protocol):
    async def check(self, push: PushConfig) -> None:
        """Look at a push config before it is kept.

        Raises:
            InvalidArgument: The endpoint may not be reached.
            Unimplemented: Nobody pushes here.
        """

    def changed(self, subscription: Subscription) -> None:
        """A subscription is new, or has other settings. Called on the loop; must not wait."""

    def reloaded(self) -> None:
        """Hard state was loaded again: any subscription may be another."""

    def trouble(self, subscription: Subscription) -> str:
        """Why nothing is pushed just now, in a sentence; empty when all is well."""


class NoPushes:
    """Nobody pushes."""

    async def check(self, push: PushConfig) -> None:
        raise Unimplemented(f"{endpoints.FIELD}: this broker does not push; leave it unset")

    def changed(self, subscription: Subscription) -> None:
        pass

    def reloaded(self) -> None:
        pass

    def trouble(self, subscription: Subscription) -> str:
        return ""


def check_pull(catalog: Catalog, name: str) -> None:
    """Refuse to hand out by pull what is pushed.

    Raises:
        FailedPrecondition: The subscription has an endpoint.
    """
    if catalog.subscription(name).push is not None:
        raise FailedPrecondition(
            f"subscription {name!r} pushes its messages and cannot be pulled from; an empty "
            "push_config makes it a subscription to pull from"
        )


def switched(broker: Broker, before: Subscription, after: Subscription) -> None:
    """Send consumers away that pulled what is now pushed, or pushed what is now pulled."""
    if (before.push is None) != (after.push is None):
        how = "pulled" if after.push is None else "pushed"
        error = FailedPrecondition(f"messages of subscription {after.name!r} are now {how}")
        broker.close_feed(after, error)
