"""The push service of a broker: a sender or a forwarder for each push subscription."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.core.hard_state import HardState
from fanlog.errors import FanlogError
from fanlog.model.resources import Subscription, SubscriptionId
from fanlog.push.rules.breaker import State
from fanlog.push.rules.kinds import is_pushed, kind_of
from fanlog.push.senders.acknowledger import Acknowledger
from fanlog.push.senders.connection_limiter import ConnectionLimiter
from fanlog.push.senders.forward_counts import ForwardCounts
from fanlog.push.senders.forwarder import Forwarder
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.memory_limiter import MemoryLimiter
from fanlog.push.senders.sender import Sender, Shared
from fanlog.push.senders.tokens import Tokens
from fanlog.push.senders.transport import Transport
from fanlog.push.senders.web_transport import WebTransport

log = logging.getLogger("fanlog.push")


#: Moves the messages of one subscription on.
Mover = Sender | Forwarder


class PushService:
    """The senders and forwarders of one broker. They listen to its changes, on its loop.

    Tests and benchmarks give another transport for HTTP.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        resolver: HostResolver,
        tokens: Tokens,
        *,
        connections: int = limits.PUSH_CONNECTIONS_MAX,
        web: Transport | None = None,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self.tokens = tokens
        self._resolver = resolver
        self._web = web or WebTransport(self._resolver, clock, connections)
        #: Made with the first subscription that has a gRPC endpoint.
        self._grpc: Transport | None = None
        self.connections = ConnectionLimiter(limits.PUSH_CONNECTIONS_PER_HOST_MAX, connections)
        self.memory = MemoryLimiter(limits.PUSH_BYTES_TOTAL_MAX)
        self._acknowledger = Acknowledger(broker, self.connections.calm)
        self._shared = Shared(
            broker, clock, self.connections, self.memory, tokens, self._acknowledger
        )
        self._forward_counts = ForwardCounts(broker, clock)
        self._movers: dict[SubscriptionId, Mover] = {}
        # Ended, with requests under way.
        self._leaving: set[Mover] = set()
        self._is_running = False
        broker.shares.on_change.listen(self._change)
        broker.ledger.on_load.listen(self._load)

    def __iter__(self) -> Iterator[Sender]:
        """The senders, without the forwarders."""
        return (one for one in self._movers.values() if isinstance(one, Sender))

    # Life.

    def start(self, issuer: str) -> None:
        """Begin to push for all subscriptions there are; `issuer` is that of their tokens."""
        self.tokens.issuer = issuer
        self._is_running = True
        self._load(self._broker.hard)

    async def stop(self, patience_s: float) -> None:
        """Take no more messages, wait for answers, then let go."""
        self._is_running = False
        movers = [*self._movers.values(), *self._leaving]
        for mover in movers:
            mover.consumer.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                # Answers first, then the acknowledgements that follow from them.
                while tasks := [task for mover in movers for task in mover.under_way]:
                    await asyncio.wait(tasks)
                await asyncio.gather(*self._acknowledger.under_way)
        for mover in movers:
            await mover.consumer.stop(mover.under_way)
        await self._acknowledger.stop()
        for subscription_id in self._movers:
            self._broker.movers.remove(subscription_id)
        self._movers.clear()
        self._leaving.clear()
        self.tokens.close()
        await self._web.close()
        if self._grpc is not None:
            await self._grpc.close()
        await self._resolver.close()

    # For metrics.

    def breaker_state(self, sender: Sender) -> State:
        return sender.breaker.state(self._clock.now())

    def list_turned_off(self) -> list[str]:
        """Names of the subscriptions whose push is off."""
        found = self._broker.hard.catalog.subscriptions()
        return [one.name for one in found if one.push_off and one.push is not None]

    # Events of the broker.

    def _change(self, subscription: Subscription) -> None:
        """A subscription is new, or has other settings."""
        if not self._is_running:
            return
        present = self._broker.hard.catalog.subscription_by_id(subscription.id)
        mover = self._movers.get(subscription.id)
        if mover is not None and not _may_stay(mover, present):
            self._let_go(subscription.id)
            mover = None
        if present is None or not is_pushed(present):
            return
        if mover is not None:
            mover.change(present)
        else:
            self._begin(present)

    def _load(self, hard: HardState) -> None:
        """Hard state was loaded again: any subscription may be another."""
        if not self._is_running:
            return
        for subscription_id in list(self._movers):
            present = hard.catalog.subscription_by_id(subscription_id)
            if present is None or not is_pushed(present):
                self._let_go(subscription_id)
        for subscription in list(hard.catalog.subscriptions()):
            if subscription.push is not None:
                self._change(subscription)

    def _begin(self, subscription: Subscription) -> None:
        try:
            mover = self._movers[subscription.id] = self._new_mover(subscription)
        except FanlogError as error:
            # An endpoint that an earlier version took. One of them must not keep all from starting.
            log.error("action=push_impossible subscription=%s error=%s", subscription.name, error)
            return
        self._broker.movers.add(subscription, mover)
        mover.consumer.start(lambda: self._end(subscription.id, mover))

    def _new_mover(self, subscription: Subscription) -> Mover:
        match kind_of(subscription.push):
            case "topic":
                return Forwarder(self._broker, self._clock, self._forward_counts, subscription)
            case "grpc":
                return Sender(self._shared, self._grpc_transport(), subscription)
            case "web":
                return Sender(self._shared, self._web, subscription)

    def _grpc_transport(self) -> Transport:
        if self._grpc is None:
            # Imported here: gRPC's client is slow to import, and few servers push by it.
            from fanlog.push.senders.grpc_transport import GrpcTransport

            self._grpc = GrpcTransport(self._resolver, self._clock)
        return self._grpc

    def _end(self, subscription_id: SubscriptionId, mover: Mover) -> None:
        """A consumer has ended: its subscription is deleted or detached."""
        if self._movers.get(subscription_id) is mover:
            self._let_go(subscription_id)

    def _let_go(self, subscription_id: SubscriptionId) -> None:
        mover = self._movers.pop(subscription_id)
        self._broker.movers.remove(subscription_id)
        mover.consumer.end()
        if mover.under_way:
            self._leaving.add(mover)
            for task in mover.under_way:
                task.add_done_callback(lambda _: self._forget(mover))

    def _forget(self, mover: Mover) -> None:
        """Forget a mover that ended, once it has nothing under way."""
        if not mover.under_way:
            with suppress(KeyError):
                self._leaving.remove(mover)


def _may_stay(mover: Mover, present: Subscription | None) -> bool:
    """Whether a mover can go on with the present settings of its subscription."""
    if mover.consumer.is_done or present is None or not is_pushed(present):
        return False
    return kind_of(present.push) == kind_of(mover.consumer.subscription.push)
