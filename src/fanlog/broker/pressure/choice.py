"""The choice of what a full backlog lets go of, among the shares of one subscription.

Offsets of two partitions say nothing about which message is older, so what is too much is divided
among them; `fanlog.core.share.relief` has the choice within one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.agenda import AgendaTable
from fanlog.core.share import Share, relief
from fanlog.model.resources import PartitionId
from fanlog.model.terms import PRIORITY_MAX

#: Messages of shares that nobody has.
Free = dict[Share, BitMap64]


def choose(
    way: str,
    free: Free,
    count: int,
    *,
    appended: Container[PartitionId],
    agendas: AgendaTable,
) -> Iterator[tuple[Share, BitMap64]]:
    """The messages that go, by share.

    Args:
        way: The policy, one that drops.
        free: The messages of each share that may go.
        count: How many are to go.
        appended: Partitions whose newest messages are the newest of all.
        agendas: What messages ask for: among it, their priorities.
    """
    if way == "drop-newest":
        for share in sorted(free, key=lambda one: one.partition not in appended):
            found = relief.newest(free[share], count)
            count -= len(found)
            yield share, found
    elif way == "drop-random":
        count = min(count, limits.RELIEF_STEPS_MAX)
        for share, some in shared_out(free, count).items():
            yield share, relief.drawn(free[share], some, share.partition)
    elif way == "drop-by-priority":
        yield from _least_urgent(free, count, agendas)
    else:
        for share, some in shared_out(free, count).items():
            yield share, relief.oldest(free[share], some)


def _least_urgent(free: Free, count: int, agendas: AgendaTable) -> Iterator[tuple[Share, BitMap64]]:
    ranked = {
        share: relief.by_priority(some, {} if agenda is None else agenda.urgent)
        for share, some in free.items()
        for agenda in [agendas.find(share.partition)]
    }
    for priority in range(PRIORITY_MAX + 1):
        layer = {share: found for share, by in ranked.items() if (found := by.get(priority))}
        if count <= 0 or not layer:
            continue
        for share, some in shared_out(layer, count).items():
            count -= some
            yield share, relief.oldest(layer[share], some)


def shared_out(free: Free, count: int) -> dict[Share, int]:
    """How many of `count` each share drops: in proportion to what it has, the longest the rest.

    Offsets of two partitions say nothing about which message is older.
    """
    total = sum(map(len, free.values()))
    count = min(count, total)
    if not total:
        return {}
    found = {share: count * len(some) // total for share, some in free.items()}
    left = count - sum(found.values())
    for share in sorted(free, key=lambda one: -len(free[one])):
        more = min(left, len(free[share]) - found[share])
        found[share] += more
        left -= more
    return found
