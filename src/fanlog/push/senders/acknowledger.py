"""Acknowledgements of all senders: those of one turn of the loop are made by one task.

A task for each request would cost more than the acknowledgement itself. While requests wait for a
connection, they go first: a message to thousands of endpoints is at the last of them sooner.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError
from fanlog.model.resources import Subscription, SubscriptionId

log = logging.getLogger("fanlog.push")

#: Acknowledgements let requests go first for no longer: well within the leases.
LATE_S: Final = 1.0
assert LATE_S < limits.PUSH_LEASE_MARGIN_S / 2


class Acknowledger:
    """Lives on one loop."""

    def __init__(self, broker: Broker, calm: asyncio.Event) -> None:
        """`calm` is set while no request waits for a connection."""
        self._broker = broker
        self._calm = calm
        # With the settings of the latest acknowledgement.
        self._acked: dict[SubscriptionId, tuple[Subscription, list[str]]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> set[asyncio.Task[None]]:
        """The task to wait for before the broker stops, if there is one."""
        return set() if self._task is None else {self._task}

    def acknowledge(self, subscription: Subscription, ack_id: str) -> None:
        """Acknowledge a message soon; leases that are gone by then are no error."""
        found = self._acked.get(subscription.id)
        ack_ids = [] if found is None else found[1]
        ack_ids.append(ack_id)
        self._acked[subscription.id] = subscription, ack_ids
        if self._task is None:
            self._task = asyncio.create_task(self._acknowledge_all())

    async def stop(self) -> None:
        """Acknowledge no more: the leases run out."""
        tasks = self.under_way
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _acknowledge_all(self) -> None:
        try:
            while self._acked:
                if not self._calm.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LATE_S):
                            await self._calm.wait()
                acked, self._acked = self._acked, {}
                for subscription, ack_ids in acked.values():
                    await self._acknowledge(subscription, ack_ids)
        finally:
            self._task = None

    async def _acknowledge(self, subscription: Subscription, ack_ids: list[str]) -> None:
        try:
            await self._broker.settle_some(subscription, ack_ids, None)
        except FanlogError:
            # The subscription is gone, or hard state was loaded again; so are the leases.
            pass
        except Exception:
            # Nothing is lost: the leases run out. The others are acknowledged all the same.
            log.exception("action=push_ack_broken subscription=%s", subscription.name)
