"""Those who make, change, pause, run and delete schedules; and the end of them all."""

from __future__ import annotations

from functools import partial
from typing import Any

from fanlog.errors import FanlogError
from fanlog.model import names
from fanlog.model.schedules import MISSED_POLICIES, Schedule
from simulator.calling import called, insist
from simulator.clients import some_topic
from simulator.meanings import PROJECT
from simulator.schedules import LATE_S, PERIODS
from simulator.world import Lost, World

#: Names that they choose from.
SCHEDULES = 3


async def scheduler(world: World) -> None:
    """Make, change and delete schedules until the world is over."""
    rng = world.ticks.rng
    await insist(world, partial(create_some, world))
    deeds = (create_some, create_some, update_some, update_some, pause_some, run_some, delete_some)
    while await world.pause(3.0):
        if world.chance(0.2):
            # Where a tick and its record could come apart.
            world.loop.call_later(rng.random() * 2, world.crash, "tick_crashes")
        try:
            await rng.choice(deeds)(world)
        except (FanlogError, Lost):
            continue


def _some_name(world: World) -> str:
    return names.schedule_name(PROJECT, f"schedule-{world.ticks.rng.randrange(SCHEDULES)}")


def _some_cron(world: World) -> str:
    """A period that a world of this pace sees many times, and other things, too."""
    pace_s = world.temper.pace_s
    fitting = [cron for s, cron in PERIODS.items() if pace_s / 2 <= s <= pace_s * 200 + 10]
    return world.ticks.rng.choice(fitting)


async def create_some(world: World) -> None:
    rng, name = world.ticks.rng, _some_name(world)
    schedule = Schedule(
        name=name,
        topic=some_topic(world),
        cron=_some_cron(world),
        data=b"tick",
        ordering_key=rng.choice(("", "k")),
        missed=rng.choice(MISSED_POLICIES),
        is_paused=rng.random() < 0.1,
    )
    await called(
        world, "create schedule", name, schedule.cron, lambda b: b.schedules.create(schedule)
    )


async def update_some(world: World) -> None:
    rng, name = world.ticks.rng, _some_name(world)
    changes: dict[str, Any] = rng.choice(
        (
            {"cron": _some_cron(world)},
            {"topic": some_topic(world)},
            {"missed": rng.choice(MISSED_POLICIES)},
            {"data": b"other"},
        )
    )
    await _update(world, name, changes)


async def pause_some(world: World) -> None:
    name = _some_name(world)
    for is_paused in (True, False):
        await _update(world, name, {"is_paused": is_paused})
        await world.pause(0.5)


async def _update(world: World, name: str, changes: dict[str, Any]) -> None:
    await called(
        world, "update schedule", name, str(changes), lambda b: b.schedules.update(name, changes)
    )


async def run_some(world: World) -> None:
    name = _some_name(world)
    await called(world, "run schedule", name, "", lambda b: b.schedules.run(name))


async def delete_some(world: World) -> None:
    name = _some_name(world)
    await called(world, "delete schedule", name, "", lambda b: b.schedules.delete(name))


async def finish(world: World) -> None:
    """See that all of them tick, and then have them stop: what is drained must come to an end."""
    await world.up()
    await world.sleep(2 * LATE_S)
    # A crash that was to come around a tick may have come meanwhile.
    life = await world.up()
    table = life.broker.hard.schedules
    present = [(table.schedule(name), table.progress(name)) for name in table.names()]
    world.ticks.end(world, present)
    for schedule, _ in present:
        await life.begin(life.broker.schedules.update(schedule.name, {"is_paused": True}))
