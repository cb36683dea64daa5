"""Tenants: whose messages are, who serves them in turn, and that nobody waits for too long.

What is looked at is each lease: while a tenant has a message that is free, no more messages of
others may be leased than a turn of each, and the answers that were being made.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.share import Share
from fanlog.core.share.fair import FairBacklog
from fanlog.core.share.states import State
from fanlog.model.attributes import TENANT
from simulator.asking import Draft
from simulator.world import World

#: Mostly one of them publishes.
NAMES = ("noisy", "quiet", "rare")
_WEIGHTS = (40, 2, 1)


def owned(world: World, draft: Draft) -> Draft:
    """The same message; mostly one that says whose it is. By dice of their own."""
    rng = random.Random(f"{world.seed} {world.published}: tenant")
    if rng.random() >= 0.9:
        return draft
    data, attributes, key = draft
    return data, {**attributes, TENANT: rng.choices(NAMES, _WEIGHTS)[0]}, key


def watched(world: World, lease: Callable[..., Any]) -> Callable[..., Any]:
    """`Share.lease`, looked at."""
    #: By share and tenant: messages of others that were leased since it had a free one.
    passed: dict[Share, dict[str, int]] = {}

    def observed(self: Share, consumer: Any, end: int, *args: Any, **more: Any) -> Any:
        if not self.settings.is_fair:
            return lease(self, consumer, end, *args, **more)
        free = {_tenant(world, self, offset) for offset in _free(self, consumer, end)}
        decision = lease(self, consumer, end, *args, **more)
        if decision.grant is None:
            return decision
        runs = decision.grant.runs
        got = [_tenant(world, self, o) for run in runs for o in range(run.start, run.end)]
        counts = {name: count for name, count in passed.get(self, {}).items() if name in free}
        agenda = self._soft.agenda
        others = 1 if agenda is None else 1 + len(agenda.tenants)
        most = others * limits.TENANT_TURN_MESSAGES + 2 * limits.TENANT_ANSWER_MESSAGES_MAX
        for name in free:
            counts[name] = 0 if name in got else counts.get(name, 0) + len(got)
            if counts[name] > most:
                world.broken.append(
                    f"fairness: {counts[name]} messages of others went before one of tenant "
                    f"{name!r} on subscription {self.settings.id}; {most} may"
                )
        passed[self] = counts
        return decision

    return observed


def _free(share: Share, consumer: Any, end: int) -> BitMap64:
    view, end = share._open.until(end)
    unacked = BitMap64()
    for start, stop in view.unacked_ranges(share.cursor.floor, end):
        unacked.add_range(start, stop)
    found = share._soft.offsets_by_state(unacked)[State.BACKLOG]
    backlog = share._soft.backlog
    assert isinstance(backlog, FairBacklog)
    return found - backlog._held - share._soft.aversions.of(consumer)


def _tenant(world: World, share: Share, offset: int) -> str:
    message = world.chronicle.message(share.partition, offset)
    return "" if message is None else message.attributes.get(TENANT, "")
