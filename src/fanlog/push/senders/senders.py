"""All push subscriptions of a broker: who has a sender, and when it begins and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model import endpoints
from fanlog.model.resources import PushConfig, Subscription, SubscriptionId
from fanlog.push.rules import Guard
from fanlog.push.rules.breaker import State
from fanlog.push.senders.addresses import Addresses, AddressRefused, NameUnresolved
from fanlog.push.senders.branches import Branches
from fanlog.push.senders.channels import Caller, Channels
from fanlog.push.senders.client import Client, Poster
from fanlog.push.senders.consumer import Consumer, Tools
from fanlog.push.senders.forwarder import Forwarder
from fanlog.push.senders.gate import Gate
from fanlog.push.senders.grpc_sender import GrpcSender
from fanlog.push.senders.memory import Memory
from fanlog.push.senders.pushed import is_pushed
from fanlog.push.senders.sender import Sender
from fanlog.push.senders.tokens import Tokens
from fanlog.push.senders.web_sender import WebSender

log = logging.getLogger("fanlog.push")


class Senders:
    """What `fanlog.broker.pushes.Pushes` asks for. Lives on the broker's loop."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        guard: Guard,
        tokens: Tokens,
        *,
        connections: int = limits.PUSH_CONNECTIONS_MAX,
        client: Poster | None = None,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self.tokens = tokens
        self._addresses = Addresses(guard, clock.now)
        self._client = client or Client(self._addresses, clock)
        self._caller: Caller = Channels(self._addresses, clock)
        gate = Gate(limits.PUSH_CONNECTIONS_PER_HOST_MAX, connections)
        self.memory = Memory(limits.PUSH_BYTES_TOTAL_MAX)
        self._tools = Tools(
            *(broker, clock, self._client, self._caller, gate, self.memory, tokens),
            Branches(broker, clock),
        )
        self._senders: dict[SubscriptionId, Consumer] = {}
        # Ended, with requests under way.
        self._leaving: set[Consumer] = set()
        self._is_running = False

    def __iter__(self) -> Iterator[Sender]:
        """Those that send to endpoints."""
        return (one for one in self._senders.values() if isinstance(one, Sender))

    # Life.

    def start(self, issuer: str) -> None:
        """Begin to push for all subscriptions there are; `issuer` is that of their tokens."""
        self.tokens.issuer = issuer
        self._client.start()
        self._is_running = True
        self.reloaded()

    async def stop(self, patience_s: float) -> None:
        """Take no more messages, wait for answers, then let go."""
        self._is_running = False
        senders = [*self._senders.values(), *self._leaving]
        for sender in senders:
            sender.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                # Answers first, then the acknowledgements that follow from them.
                while tasks := [task for sender in senders for task in sender.under_way]:
                    await asyncio.wait(tasks)
        for sender in senders:
            await sender.stop()
        self._senders.clear()
        self._leaving.clear()
        await self._client.close()
        await self._caller.close()
        await self._addresses.close()

    # For metrics.

    def breaker_state(self, sender: Sender) -> State:
        return sender.breaker.state(self._clock.now())

    def turned_off(self) -> list[str]:
        """Subscriptions whose push is off, by name."""
        found = self._broker.hard.catalog.subscriptions()
        return [one.name for one in found if one.push_off and one.push is not None]

    # For the broker.

    async def check(self, push: PushConfig) -> str:
        if push.endpoint.startswith(endpoints.TOPIC_SCHEME):
            return ""
        endpoint = endpoints.parse_web(push.endpoint)
        try:
            await self._addresses.check(endpoint)
        except AddressRefused as error:
            raise InvalidArgument(
                f"{endpoints.FIELD}: {error}: it is private, local or reserved. Who runs the "
                "service may allow its network with --push-allow"
            ) from error
        except NameUnresolved as error:
            return (
                f"the host of the push endpoint, {endpoint.host!r}, does not resolve: "
                f"{error.strerror}; it is looked up again at every attempt"
            )
        except OSError as error:
            raise InvalidArgument(f"{endpoints.FIELD}: {endpoint.host!r} is {error}") from error
        return ""

    def changed(self, subscription: Subscription) -> None:
        if not self._is_running:
            return
        present = self._broker.hard.catalog.subscription_by_id(subscription.id)
        sender = self._senders.get(subscription.id)
        if sender is not None and sender.is_done:
            self._let_go(subscription.id)
            sender = None
        if present is None or not is_pushed(present):
            if sender is not None:
                self._let_go(subscription.id)
        else:
            kind = _kind(present)
            if sender is not None and type(sender) is not kind:
                self._let_go(subscription.id)
                sender = None
            if sender is not None:
                sender.changed(present)
            else:
                self._begin(kind, present)

    def reloaded(self) -> None:
        for subscription_id in list(self._senders):
            present = self._broker.hard.catalog.subscription_by_id(subscription_id)
            if present is None or not is_pushed(present):
                self._let_go(subscription_id)
        for subscription in list(self._broker.hard.catalog.subscriptions()):
            if subscription.push is not None:
                self.changed(subscription)

    def trouble(self, subscription: Subscription) -> str:
        if subscription.push_off:
            return f"push is off: {subscription.push_off}; set push_config to turn it on again"
        sender = self._senders.get(subscription.id)
        return "" if sender is None else sender.trouble

    def _begin(self, kind: type[Consumer], subscription: Subscription) -> None:
        try:
            sender = self._senders[subscription.id] = kind(self._tools, subscription)
        except FanlogError as error:
            # An endpoint that an earlier version took. One of them must not keep all from starting.
            log.error("action=push_impossible subscription=%s error=%s", subscription.name, error)
            return
        sender.start(lambda: self._ended(subscription.id, sender))

    def _ended(self, subscription_id: SubscriptionId, sender: Consumer) -> None:
        """One has nothing more to do: its subscription is deleted or detached."""
        if self._senders.get(subscription_id) is sender:
            self._let_go(subscription_id)

    def _let_go(self, subscription_id: SubscriptionId) -> None:
        sender = self._senders.pop(subscription_id)
        sender.end()
        if sender.under_way:
            self._leaving.add(sender)
            for task in sender.under_way:
                task.add_done_callback(lambda _: self._left(sender))

    def _left(self, sender: Consumer) -> None:
        if not sender.under_way:
            with suppress(KeyError):
                self._leaving.remove(sender)


def _kind(subscription: Subscription) -> type[Consumer]:
    """Who moves a subscription's messages on."""
    assert subscription.push is not None
    endpoint = subscription.push.endpoint
    if endpoint.startswith(endpoints.TOPIC_SCHEME):
        return Forwarder
    return GrpcSender if endpoints.is_grpc(endpoint) else WebSender
