"""How those who make and change resources call: once, or until it works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError
from simulator.chronicle import Op
from simulator.network import call
from simulator.world import Lost, World


async def insist(world: World, work: Callable[[], Awaitable[None]]) -> None:
    """Try a few times, before anything else happens."""
    for _ in range(5):
        await world.up()
        try:
            await work()
            return
        except (FanlogError, Lost):
            await world.sleep(0.01)


async def called(
    world: World,
    verb: str,
    name: str,
    detail: Any,
    work: Callable[[Broker], Awaitable[Any]],
) -> Any:
    """Call a verb of a resource; gives its answer."""

    async def served(broker: Broker) -> Any:
        world.operations += 1
        return await work(broker)

    return await call(world, lambda: Op(verb, name, detail), served)
