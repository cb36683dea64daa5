"""Pressure: how full backlogs are, and publishers who are pushed back on. Lives on the loop.

The *gauge* of a subscription is how full its backlog is, from 0 to 1; that of a topic is the
highest of those who read it. Critical subscriptions push back on all topics that they read while
they are high: a publish is refused, or waits for a while. A forward pushes back while its target
does, so that pressure travels to where messages come from: one that says nothing of its own backlog
(`fanlog.broker.pressure.forwards`), or is critical itself. No loop of forwards can be made
(`fanlog.core.onward`), so nobody waits for himself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.pressure.bounds import Bound
from fanlog.broker.pressure.forwards import Forwards, target_of
from fanlog.broker.pressure.relief import Crossed, Relief
from fanlog.broker.transaction import Ledger
from fanlog.errors import BacklogFull
from fanlog.model import names
from fanlog.model.resources import Subscription, Topic

#: What is told of a publisher that is to come again; backlogs are looked at more often.
RETRY_S = 1.0
#: A publish that waits looks again this often: acknowledgements tell nobody.
_WAIT_S = 0.1
#: Publishers are told the gauge of a topic above this.
TOLD_ABOVE = 0.5


class Pressure:
    """The gauges of one broker, and who may publish."""

    def __init__(
        self, ledger: Ledger, clock: Clock, metrics: Metrics, shares: Shares, relief: Relief
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._relief = relief
        self._forwards = Forwards(ledger)
        self._waiting_bytes = 0
        self._waiters: dict[asyncio.Future[None], None] = {}
        relief.on_cross.listen(self._cross)
        shares.on_change.listen(self._forwards.put)
        shares.on_join.listen(lambda share: self._forwards.join(share.settings, share.partition))
        shares.on_remove.listen(self._forwards.remove)
        ledger.on_load.listen(lambda _: self._forwards.load())

    # Gauges.

    def of_subscription(self, subscription: Subscription) -> float | None:
        """The gauge of a subscription; None where its backlog has no limits."""
        bound = self._relief.bounds.find(subscription.id)
        if bound is None:
            return None
        self._relief.bounds.measure(bound)
        return min(1.0, bound.fill)

    def of_topic(self, topic: Topic) -> float | None:
        """The gauge of a topic; None where nobody who reads it has limits."""
        found = [min(1.0, bound.fill) for bound in self._on(topic)]
        return max(found, default=None)

    @property
    def has_bounds(self) -> bool:
        """Whether the backlog of any subscription has limits."""
        return self._ledger.relief is not None

    def _on(self, topic: Topic) -> Iterable[Bound]:
        for partition in topic.partitions:
            yield from self._relief.bounds.on(partition)

    # Push-back.

    def pushing(self, topic: Topic, seen: frozenset[str] = frozenset()) -> Bound | None:
        """A subscription that pushes back on a topic now, if one does.

        It reads the topic, or one that messages are forwarded to from there.
        """
        seen |= {topic.name}
        for bound in self._on(topic):
            if bound.policy.pushes_back and self._is_pushing(bound, seen):
                return bound
        for partition in topic.partitions:
            for target in self._forwards.on(partition):
                found = self._pushing_at(target, seen)
                if found is not None:
                    return found
        return None

    def _pushing_at(self, target: str, seen: frozenset[str]) -> Bound | None:
        topic = self._ledger.hard.catalog.find_topic(target)
        return None if topic is None or topic.name in seen else self.pushing(topic, seen)

    def _is_pushing(self, bound: Bound, seen: frozenset[str]) -> bool:
        if bound.mark.is_high:
            # Something may have been acknowledged since the last look.
            self._relief.bounds.measure(bound)
            self._relief.observe(bound)
        if bound.mark.is_high:
            return True
        target = target_of(bound.subscription)
        return target is not None and self._pushing_at(target, seen) is not None

    def check(self, topic: Topic) -> None:
        """Raises BacklogFull: A subscription pushes back on the topic."""
        if self.has_bounds:
            bound = self.pushing(topic)
            if bound is not None:
                self._metrics.of(bound.id).pushed_back += 1
                raise _refusal(bound, topic)

    async def admit(self, topic_name: str, size_bytes: int) -> None:
        """Return when nobody pushes back on a topic; wait for it where that is asked for.

        Raises:
            BacklogFull: A subscription pushes back, and does not let a publish wait, or not longer.
        """
        topic = self._ledger.hard.catalog.find_topic(topic_name)
        bound = None if topic is None else self.pushing(topic)
        if topic is None or bound is None:
            return
        until_s = self._clock.now() + bound.policy.block_s
        room = limits.WRITER_BACKLOG_BYTES_MAX - self._waiting_bytes
        if not bound.policy.block_s or size_bytes > room:
            self.check(topic)
            return
        self._metrics.of(bound.id).blocked += 1
        self._waiting_bytes += size_bytes
        try:
            while self._clock.now() < until_s:
                await self._wait(min(until_s, self._clock.now() + _WAIT_S))
                topic = self._ledger.hard.catalog.find_topic(topic_name)
                if topic is None or self.pushing(topic) is None:
                    return
        finally:
            self._waiting_bytes -= size_bytes
        self.check(topic)

    async def _wait(self, until_s: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = self._clock.call_at(until_s, wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def _cross(self, crossed: Crossed) -> None:
        if crossed.crossing == "low":
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _refusal(bound: Bound, topic: Topic) -> BacklogFull:
    is_here = any(partition in bound.partitions for partition in topic.partitions)
    which = "its subscription" if is_here else "it is forwarded, and there subscription"
    return BacklogFull(
        f"topic {names.shown(topic.name)}: {which} {names.shown(bound.name)} is behind "
        f"and pushes back ({bound.fill:.0%} of its limit); publish again later",
        retry_after_s=RETRY_S,
    )
