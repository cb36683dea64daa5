"""Access to subscriptions: whether the broker serves, which can be read, when each was used.

Soft state. `Retention` writes the times of use down now and then, so that idle subscriptions
expire.
"""

from __future__ import annotations

from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.errors import FailedPrecondition, Unavailable
from fanlog.model.attributes import LABEL_ASSIGNMENT
from fanlog.model.resources import Subscription, SubscriptionId


class Access:
    """The subscriptions of one broker, as verbs ask for them. Lives on the loop."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._closed: Unavailable | None = None
        #: When each subscription was last used in this life of the broker.
        self.last_used: dict[SubscriptionId, float] = {}

    def close(self) -> Unavailable:
        """Take no new requests; returns the error that consumers are sent away with."""
        self._closed = Unavailable("the broker is stopping; connect again")
        return self._closed

    def check_serving(self) -> None:
        """Raises Unavailable once the broker is stopping."""
        if self._closed is not None:
            raise self._closed

    def find(self, name: str) -> Subscription:
        """A subscription that reads a topic or a pattern.

        Raises:
            SubscriptionNotFound: There is no such subscription.
            FailedPrecondition: It is detached.
        """
        subscription = self._ledger.hard.catalog.subscription(name)
        if subscription.detached:
            raise FailedPrecondition(f"subscription {name!r} is detached from its topic")
        return subscription

    def enter(self, name: str) -> Subscription:
        """As `find`; the subscription counts as used."""
        subscription = self.find(name)
        self.use(subscription)
        return subscription

    def check_pull(self, name: str) -> None:
        """Refuse to hand out by pull messages that are pushed or exported.

        Raises:
            FailedPrecondition: The subscription has an endpoint, a table or a bucket.
        """
        subscription = self._ledger.hard.catalog.subscription(name)
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

    def check_unary_pull(self, name: str) -> None:
        """Refuse a pull where consumers have key slots: it is over before it could have any.

        Raises:
            FailedPrecondition: The subscription has key slots.
        """
        if self._ledger.hard.catalog.subscription(name).key_slots:
            raise FailedPrecondition(
                f"subscription {name!r} gives each stream key slots of its own (label "
                f"{LABEL_ASSIGNMENT}); a single pull has no place among them: use StreamingPull, "
                "as the clients' subscribers do"
            )

    def present(self, subscription: Subscription) -> Subscription:
        """The subscription with its settings of now; one that is gone, as it was."""
        return self._ledger.hard.catalog.subscription_by_id(subscription.id) or subscription

    def use(self, subscription: Subscription) -> None:
        """A subscription is used: it is not idle."""
        self.last_used[subscription.id] = self._clock.now()

    def use_all(self, subscriptions: list[SubscriptionId]) -> None:
        """Subscriptions are in use for as long as they have consumers."""
        self.last_used |= dict.fromkeys(subscriptions, self._clock.now())

    def forget(self, subscription: Subscription) -> None:
        """A subscription is deleted."""
        self.last_used.pop(subscription.id, None)
