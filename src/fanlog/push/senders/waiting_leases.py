"""The leases of messages that wait for a connection: kept up for as long as it takes.

Most waits are short: then there is one timer, and the lease as it was given covers the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock, Timer
from fanlog.errors import FanlogError
from fanlog.model.resources import Subscription

#: A lease that is older than this no longer covers a whole request with a margin.
_FRESH_S = limits.PUSH_LEASE_MARGIN_S / 2


class WaitingLeases:
    """The leases of one request, given at `leased_s`; the wait lasts until `leave`.

    They are extended each time that half of them has passed.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        subscription: Subscription,
        ack_ids: Sequence[str],
        lease_s: float,
        leased_s: float,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._subscription = subscription
        self._ack_ids = ack_ids
        self._lease_s = lease_s
        self._leased_s = leased_s
        self._extending: asyncio.Task[None] | None = None
        self._timer = self._new_timer()

    def leave(self) -> None:
        """The wait is over."""
        self._timer.cancel()
        if self._extending is not None:
            self._extending.cancel()

    async def renew(self) -> None:
        """Have the leases cover a request that begins now.

        Raises:
            FanlogError: The subscription is gone, and the leases with it.
        """
        if self._clock.now() - self._leased_s > _FRESH_S:
            await self._extend()

    def _new_timer(self) -> Timer:
        return self._clock.call_at(self._leased_s + self._lease_s / 2, self._fire)

    def _fire(self) -> None:
        self._extending = asyncio.create_task(self._extend_again())

    async def _extend_again(self) -> None:
        # Of a subscription that is gone nothing is sent when the wait is over.
        with suppress(FanlogError):
            await self._extend()
            self._timer = self._new_timer()

    async def _extend(self) -> None:
        await self._broker.settle_some(self._subscription, self._ack_ids, int(self._lease_s))
        self._leased_s = self._clock.now()
