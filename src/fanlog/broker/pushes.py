"""What the broker asks of whoever pushes messages to endpoints, and does for it.

Pushing is a consumer like any other: it attaches to the feed of a subscription, takes leases and
settles them. It lives with the servers, which know HTTP; a broker without it refuses push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fanlog.broker import onward
from fanlog.core.catalog import Catalog
from fanlog.errors import FailedPrecondition, TopicNotFound, Unimplemented
from fanlog.model import endpoints
from fanlog.model.resources import PushConfig, Subscription

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker


class Pushes(Protocol):
    async def check(self, push: PushConfig) -> str:
        """Look at a push config before it is kept; a hint, if its endpoint is not there yet.

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

    async def check(self, push: PushConfig) -> str:
        raise Unimplemented(f"{endpoints.FIELD}: this broker does not push; leave it unset")

    def changed(self, subscription: Subscription) -> None:
        pass

    def reloaded(self) -> None:
        pass

    def trouble(self, subscription: Subscription) -> str:
        return ""


async def check_reach(broker: Broker, push: PushConfig | None) -> list[str]:
    """Look at where a push config leads before it is kept; hints for whoever sets it.

    Raises:
        InvalidArgument: Its endpoint may not be reached.
    """
    hint = "" if push is None else await broker.pushes.check(push)
    return [hint] if hint else []


def check_forward(broker: Broker, name: str, topic: str, push: PushConfig | None) -> None:
    """Look at what a subscription on `topic` forwards to, in the turn in which it is kept.

    Two that are made at the same time could otherwise close a loop that neither sees.

    Raises:
        InvalidArgument: What it forwards would come back.
        TopicNotFound: It forwards to a topic that does not exist.
    """
    target = None if push is None else endpoints.forward_topic(push.endpoint, name)
    if target is not None:
        catalog = broker.hard.catalog
        if catalog.find_topic(target) is None:
            raise TopicNotFound(f"{endpoints.FIELD}: topic {target!r} does not exist")
        way = onward.Way(topic, target, is_forward=True)
        onward.check(catalog, name, way, field=endpoints.FIELD)


def check_pull(catalog: Catalog, name: str) -> None:
    """Refuse to hand out by pull what is pushed or exported.

    Raises:
        FailedPrecondition: The subscription has an endpoint, a table or a bucket.
    """
    subscription = catalog.subscription(name)
    if subscription.mode == "export":
        what = "bigquery_config" if subscription.table is not None else "cloud_storage_config"
        raise FailedPrecondition(
            f"subscription {name!r} exports its messages and cannot be pulled from; an empty "
            f"{what} makes it a subscription to pull from"
        )
    if subscription.push is not None:
        raise FailedPrecondition(
            f"subscription {name!r} pushes its messages and cannot be pulled from; an empty "
            "push_config makes it a subscription to pull from"
        )


def switched(broker: Broker, before: Subscription, after: Subscription) -> None:
    """Send consumers away that pulled what is now pushed or exported, or the other way round."""
    if before.mode == after.mode:
        return
    how = {"pull": "pulled", "push": "pushed", "export": "exported"}[after.mode]
    error = FailedPrecondition(f"messages of subscription {after.name!r} are now {how}")
    broker.close_feed(after, error)
    if "export" in (before.mode, after.mode):
        # Exports take no leases, and would not notice those that are left.
        for share in broker.hard.shares_of(after):
            share.start()
