"""Those who make and delete alerts, and kill the process around their messages; and their end."""

from __future__ import annotations

from functools import partial
from typing import Any

from fanlog.core.alerts import is_met
from fanlog.errors import FanlogError
from fanlog.model import names
from fanlog.model.alerts import Alert
from simulator.alarms import LATE_S
from simulator.calling import called, insist
from simulator.clients import some_subscription
from simulator.meanings import PROJECT
from simulator.world import Lost, World

#: Names that they choose from.
ALERTS = 4


async def alerter(world: World) -> None:
    """Make and delete alerts until the world is over."""
    rng = world.alarms.rng
    for _ in range(2):
        await insist(world, partial(create_some, world))
    while await world.pause(3.0):
        if world.chance(0.2):
            # Where a message and its record could come apart, or a state be forgotten.
            world.loop.call_later(rng.random() * 6, world.crash, "alert_crashes")
        try:
            await rng.choice((create_some, create_some, create_some, delete_some))(world)
        except (FanlogError, Lost):
            continue


def _some_name(world: World) -> str:
    return names.alert_name(PROJECT, f"alert-{world.alarms.rng.randrange(ALERTS)}")


async def create_some(world: World) -> None:
    rng, name = world.alarms.rng, _some_name(world)
    settings: dict[str, Any] = rng.choice(
        (
            {"condition": "BACKLOG_MESSAGES", "limit": rng.choice((1, 2, 5)), "clear": 0},
            {"condition": "BACKLOG_MESSAGES", "limit": rng.choice((1, 3))},
            {"condition": "BACKLOG_AGE", "limit": rng.choice((1, 10, 60))},
            {"condition": "CONSUMER_GONE"},
        )
    )
    alert = Alert(
        name=name,
        subscription=some_subscription(world),
        minimum_s=rng.choice((0.0, 0.0, 7.0, 30.0)),
        **settings,
    )
    await called(world, "create alert", name, str(settings), lambda b: b.alerts.create(alert))


async def delete_some(world: World) -> None:
    name = _some_name(world)
    await called(world, "delete alert", name, "", lambda b: b.alerts.delete(name))


async def finish(world: World) -> None:
    """See that every rule says what its condition says; then have them end."""
    await world.up()
    await world.sleep(2 * LATE_S)
    life = await world.up()
    table, alerting = life.broker.hard.alerts, life.broker.alerting
    for name in table.names():
        alert, state = table.alert(name), table.state(name)
        # Those whose number is at rest while nobody does anything.
        if alert.condition == "BACKLOG_MESSAGES" and not alerting.error(name):
            reading = await life.begin(alerting._read(alert))
            met = is_met(alert, reading.value, is_holding=state.is_holding)
            if met != state.is_holding and state.turning_s is None:
                world.broken.append(f"alert: {name} is {state}, and {reading.sentence}")
        await life.begin(life.broker.alerts.delete(name))
