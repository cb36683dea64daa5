"""Those who archive, and who disturb the lake.

An archiver is a process of its own: it asks the table how far it is, asks the broker for what comes
after, commits that to the table, and reports. It may end between any two of these; it may report
late, twice, or what is not so; and there may be two.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.log_reads import LogRange, TopicSelection
from fanlog.errors import FanlogError
from fanlog.log import batch as codec
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.model.attributes import LABEL_ARCHIVE
from fanlog.model.updates import TopicUpdate
from simulator.calling import called
from simulator.clients import some_topic
from simulator.tiering import Tiering
from simulator.world import Lost, World

#: Times that the last archiver tries, once nothing disturbs it.
TRIES = 20


@dataclass(frozen=True, slots=True)
class _Found:
    """Whole commits of a log, up to and with one."""

    to: int
    batches: Sequence[Batch]


async def archiver(world: World) -> None:
    """Archive now and then until the world is over."""
    while await world.pause(2.0):
        try:
            await archive(world, slips=world.temper.archiver_slips)
        except (FanlogError, Lost):
            continue


async def archive(world: World, *, slips: float = 0.0) -> None:
    """Once; and say so, unless it slips."""
    rng, tiering = world.rng, _tiering(world)
    lake = tiering.lake
    view = lake.view()
    after = lake.sequence_of(view)
    found = await fetch(world, after, 0 if not slips else rng.choice((0, 0, 1, 3)))
    if world.chance(slips, "archiver_crashes"):
        return
    if world.chance(slips, "archiver_slow"):
        await world.sleep(rng.random() * world.temper.pace_s * 4)
    version = view.version
    if found.to > after:
        version = lake.commit(found.batches, after=after, to=found.to)
    if world.chance(slips, "archiver_crashes"):
        return
    if world.chance(slips, "report_late"):
        await world.sleep(rng.random() * world.temper.pace_s * 10)
    if world.chance(slips / 2, "report_false"):
        with suppress(FanlogError):
            await report(world, view.lake_id, version, (await fetch(world, after, 0)).to)
    for _ in range(2 if world.chance(slips, "report_twice") else 1):
        await report(world, view.lake_id, version, found.to)


async def fetch(world: World, after: int, max_messages: int) -> _Found:
    """What commits after one published to topics that are archived."""

    async def verb(broker: Broker) -> _Found:
        reads = broker.log_reads
        offsets = await reads.offsets(TopicSelection())
        wanted = {state.partition for state in offsets.partitions if state.is_archived}
        if offsets.sequence <= after:
            return _Found(after, ())
        plan = await reads.ranges(
            TopicSelection(),
            after_sequence=after,
            to_sequence=offsets.sequence,
            max_messages=max_messages,
        )
        ranges = [one for one in plan.ranges if one.partition in wanted]
        return _Found(plan.sequence, await _read(broker, ranges))

    found: _Found = await called(world, "fetch", "archive", after, verb)
    return found


async def _read(broker: Broker, ranges: Sequence[LogRange]) -> list[Batch]:
    batches: list[Batch] = []
    async for chunk in broker.log_reads.read(ranges):
        for item in chunk.items:
            assert not isinstance(item, Damaged), item
            batches.append(codec.decode(item.value))
    return batches


async def report(world: World, lake_id: str, version: int, sequence: int) -> None:
    await called(
        world,
        "report",
        "archive",
        f"{lake_id} {version} {sequence}",
        lambda b: b.tiers.report_archived(lake_id, version, sequence),
    )


async def lake_chaos(world: World) -> None:
    """Take the lake away for a while, or lay another one in its place."""
    rng, lake = world.rng, _tiering(world).lake
    while await world.pause(5.0):
        if world.chance(world.temper.lake_troubles, "lake_gone"):
            lake.show(rng.choice(("nothing", "an older copy", "an older copy", "an empty lake")))
            await world.sleep(rng.random() * world.temper.pace_s * 15)
            lake.show("the lake")


async def keep_some_out(world: World) -> None:
    """Switch the archive of a topic off, or on again."""
    name = some_topic(world)
    off = world.rng.random() < 0.5
    changes: dict[str, Any] = {"labels": {LABEL_ARCHIVE: "off"} if off else {}}
    update = TopicUpdate(name=name, changes=changes)
    await called(world, "update labels", name, changes, lambda b: b.topics.update(update))


async def finish(world: World) -> None:
    """Nothing disturbs any more: archive all there is, and wait until it need not be hot."""
    if world.tiering is None:
        return
    for _ in range(TRIES):
        with suppress(FanlogError, Lost):
            await archive(world)
            tiers = (await world.up()).broker.tiers
            if not tiers.alarm and tiers.archived_sequence >= world.tiering.lake.sequence:
                break
        await world.sleep(world.temper.pace_s + 1.0)
    else:
        tiers = (await world.up()).broker.tiers
        world.broken.append(f"P9: the lake is right, and not believed: {tiers.alarm!r}")
    # The clock may have been set back since the last message.
    ahead_s = max(0.0, world.store.last_publish_time_ns / 1e9 - world.now)
    await world.sleep(ahead_s + world.temper.hot_retention_s + 1.0)


def _tiering(world: World) -> Tiering:
    assert world.tiering is not None
    return world.tiering
