"""The one who breaks things: at each of its turns, each fault of the world may come."""

from __future__ import annotations

from simulator import probes
from simulator.world import World


async def chaos(world: World) -> None:
    """Break something now and then until the world is over."""
    rng = world.rng
    while await world.pause(5.0):
        odds = world.odds
        probes.check_recovery(world)
        probes.check_bounds(world)
        if world.chance(odds.crash):
            crash_soon(world)
        if world.chance(odds.stop):
            await world.stop()
        if world.chance(odds.disk_full, "disk_full"):
            world.store.is_full = True
            await world.sleep(rng.random() * world.temper.pace_s * 5)
            world.store.is_full = False
        if world.chance(odds.clock_step, "clock_step"):
            world.clock.step(rng.choice((-3600.0, -1.0, 1.0, 600.0)) * rng.random())
        if world.chance(odds.freeze):
            world.freeze(rng.choice((60.0, 700.0, 7200.0, 200_000.0)) * rng.random())
        if world.chance(odds.batch_damaged, "batch_damaged") and (all_ := world.store.batches()):
            world.rot(*rng.choice(all_))


def crash_soon(world: World) -> None:
    """Now, in a moment, or after some turns of the loop: any await is as good as another."""
    rng = world.rng
    match rng.randrange(3):
        case 0:
            world.crash()
        case 1:
            world.loop.call_later(rng.random() * 0.002, world.crash)
        case _:
            _after_turns(world, rng.randint(1, 30))


def _after_turns(world: World, turns: int) -> None:
    if turns == 0:
        world.crash()
    else:
        world.loop.call_soon(_after_turns, world, turns - 1)
