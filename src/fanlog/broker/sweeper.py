"""The sweeper: expires and trims every few seconds, for as long as the broker lives.

A sweep looks at every subscription and topic. Where nothing happens it comes once a minute, so that
subscriptions that only wait cost next to nothing, however many they are.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from fanlog.broker.access import Access
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.due_times import DueTimes
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.retention.retention import Retention
from fanlog.broker.retention.spare import Spare
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.sink import Sink
from fanlog.broker.verbs.subscriptions import Subscriptions
from fanlog.errors import FanlogError, LakeUnavailable
from fanlog.log.api import Log

log = logging.getLogger("fanlog.broker")

#: How often retention is looked after; more often while trimmed bytes wait to be freed.
SWEEP_S = 5.0
SWEEP_GARBAGE_S = 0.1
#: The same where nothing is committed: a sweep looks at all there is, and would find what the last
#: one left, but for what time alone brings. That comes this much later.
SWEEP_QUIET_S = 60.0
#: After a sweep, requests for another one have to wait for so long.
SWEEP_REST_S = 0.5


class Sweeper:
    """Sweeps again and again; a sweep that fails is tried again.

    It comes earlier when there may be too many spare messages.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: Log,
        clock: Clock,
        access: Access,
        feeds: Feeds,
        filtering: Filtering,
        decisions: Decisions,
        subscriptions: Subscriptions,
        sink: Sink,
        retention: Retention,
        spare: Spare,
        tiers: Tiers,
        due_times: DueTimes,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._access = access
        self._feeds = feeds
        self._filtering = filtering
        self._decisions = decisions
        self._subscriptions = subscriptions
        self._sink = sink
        self._retention = retention
        self._spare = spare
        self._tiers = tiers
        #: No sweep is needed while this is the log's last commit, and until then.
        self._quiet_at: int | None = None
        self._quiet_until_s = 0.0
        self._due_times = due_times
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        spare.on_many.listen(lambda _: self._asked.set())

    async def sweep(self) -> None:
        """Expire and trim once, now."""
        self._access.use_all(list(self._feeds))
        # While the lake is away, the rest goes on: `Retention` looks whether it is back.
        with suppress(LakeUnavailable):
            await self._filtering.sweep(self._decisions.decide)
            for subscription in list(self._ledger.hard.catalog.subscriptions()):
                if subscription.filter_changes:
                    await self._subscriptions.forget_filters(subscription.id)
        await self._due_times.sweep()
        await self._sink.sweep()
        await self._retention.sweep(self._clock.now())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._wait(SWEEP_GARBAGE_S if self._store.has_garbage else SWEEP_S)
            self._asked.clear()
            if self._is_quiet:
                continue
            # What is committed while it sweeps may come too late for it.
            sequence, self._quiet_at = self._store.last_sequence, None
            self._quiet_until_s = self._clock.now() + SWEEP_QUIET_S
            try:
                await self.sweep()
            except FanlogError as error:
                log.error("action=sweep_failed error=%s; trying again in %d s", error, SWEEP_S)
            else:
                self._quiet_at = sequence

    @property
    def _is_quiet(self) -> bool:
        """Whether the last sweep came to its end, and nothing was committed since it began.

        A lake may change without a commit.
        """
        return (
            self._store.last_sequence == self._quiet_at
            and self._clock.now() < self._quiet_until_s
            and not (self._filtering.is_behind or self._spare.is_weighing or self._tiers.lake_uri)
            and not self._due_times.is_behind
        )

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or less when an earlier sweep is asked for."""
        until_s = self._clock.now() + seconds
        await sleep(self._clock, min(seconds, SWEEP_REST_S))
        if self._clock.now() >= until_s:
            return
        timer = self._clock.call_at(until_s, self._asked.set)
        try:
            await self._asked.wait()
        finally:
            timer.cancel()
