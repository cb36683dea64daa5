"""The rate of a sample, as an attribute of the messages that are in it.

A subscription that falls behind gets a sample of what is published (`fanlog.broker.pressure`). Each
message says one of how many it is, so that readers can count what they do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from fanlog.broker.delivery.delivery import Delivery
from fanlog.core.drops import Drops
from fanlog.log.batch import Batch
from fanlog.model.attributes import SAMPLE_RATE
from fanlog.model.resources import PartitionId

_NOTHING = Drops()


def rate_of(level: int) -> str:
    """The part of the messages that a sample of a level has: `1`, `0.5`, `0.25` and so on."""
    return f"{2.0**-level:.{level}f}"


def with_rates(
    deliveries: Iterable[Delivery], drops_on: Callable[[PartitionId], Drops | None]
) -> list[Delivery]:
    """The same deliveries, each of their messages with the rate of its sample."""
    return [
        replace(one, runs=list(_rated(one, drops_on(one.partition) or _NOTHING)))
        for one in deliveries
    ]


def _rated(delivery: Delivery, drops: Drops) -> Iterator[tuple[Batch, int, int]]:
    for batch, first, end in delivery.runs:
        base = batch.base_offset
        edges = [start for start, _ in drops.levels if base + first < start < base + end]
        if not edges:
            parts = [(drops.level_at(base + first), first, end)]
        else:
            levels = ((drops.level_at(base + index), index) for index in range(first, end))
            parts = []
            for level, some in groupby(levels, lambda pair: pair[0]):
                indexes = [index for _, index in some]
                parts.append((level, indexes[0], indexes[-1] + 1))
        for level, start, stop in parts:
            said = {**batch.attributes, SAMPLE_RATE: rate_of(level)}
            yield replace(batch, attributes=said), start, stop
