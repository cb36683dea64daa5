"""Those who publish through the sink: tasks stage rows, a driver commits an epoch of them, once.

A task may be tried twice, and what the attempt that lost has staged stays there. A driver may end
anywhere; the one after it asks how far the query is, and stages and commits again what it does not
know to be done.
"""

from __future__ import annotations

from collections.abc import Sequence

from fanlog.broker.broker import Broker
from fanlog.core.sinks import StageKey
from fanlog.errors import FanlogError
from fanlog.wire.publish import build_body
from simulator.calling import called
from simulator.clients import some_topic
from simulator.meanings import some_message
from simulator.sinks import ROW, Epoch, Task
from simulator.world import Lost, World

#: Times that a driver tries an epoch before it leaves it for the next one.
TRIES = 4
#: Chance that the process is killed while an epoch is committed (often enough that a bug there is
#: found in one world of twelve), and how long that takes.
CRASHES = 0.3
COMMIT_S = 0.002


async def sinker(world: World) -> None:
    """A query: publish one epoch after another until the world is over."""
    sinks = world.sinks
    sinks.queries += 1
    query, number = f"query-{sinks.queries}", 0
    while await world.pause(2.0):
        epoch = Epoch(query, number, _tasks(world, f"{query}/{number}"))
        sinks.epochs.append(epoch)
        for _ in range(TRIES):
            try:
                await _publish(world, epoch)
                break
            except (FanlogError, Lost):
                if not await world.pause():
                    return
                if await _is_done(world, epoch):
                    break
        number += 1


async def _publish(world: World, epoch: Epoch) -> None:
    keys = []
    for partition, task in enumerate(epoch.tasks):
        attempts = [
            StageKey(epoch.query, epoch.number, partition, f"{world.chronicle.at}-{attempt}")
            for attempt in range(world.rng.choice((1, 1, 2)))
        ]
        for key in attempts:
            await _stage(world, epoch, key, task)
        keys.append(world.rng.choice(attempts))
    for _ in range(world.rng.choice((1, 1, 2))):
        # Once more: whoever asks again is told that it is done.
        await _commit(world, epoch, keys)


async def _stage(world: World, epoch: Epoch, key: StageKey, task: Task) -> None:
    async def verb(broker: Broker) -> int:
        topic = broker.hard.catalog.find_topic(task.topic)
        staging = await broker.sink.stage(key)
        try:
            await staging.add(task.topic, build_body(task.rows), range(len(task.rows)))
            staged = await staging.finish()
        finally:
            await staging.discard()
        if topic is None or staged.messages < len(task.rows):
            epoch.is_vague = True
        else:
            epoch.staged |= {attributes[ROW]: topic.id for _, attributes, _ in task.rows}
        return staged.messages

    await called(world, "stage", epoch.query, f"{key.epoch} {key.partition} {key.attempt}", verb)


async def _commit(world: World, epoch: Epoch, keys: Sequence[StageKey]) -> None:
    async def verb(broker: Broker) -> int:
        messages, _ = await broker.sink.commit(epoch.query, epoch.number, keys)
        epoch.is_answered = True
        world.sinks.check_whole(world)
        return messages

    if world.chance(CRASHES):
        after_s = world.rng.random() * COMMIT_S
        world.loop.call_later(after_s, world.crash, "epoch_crashes")
    await called(world, "commit epoch", epoch.query, epoch.number, verb)


async def _is_done(world: World, epoch: Epoch) -> bool:
    """What a driver asks that takes up a query."""
    try:
        last = await called(
            world, "last epoch", epoch.query, "", lambda b: b.sink.last_epoch(epoch.query)
        )
    except (FanlogError, Lost):
        return False
    return bool(last >= epoch.number)


def _tasks(world: World, name: str) -> list[Task]:
    tasks = []
    for partition in range(world.rng.randint(1, 3)):
        rows = []
        for index in range(world.rng.randint(1, 4)):
            world.published += 1
            data, attributes, key = some_message(world.rng, world.published, world.temper.keys)
            rows.append((data, {**attributes, ROW: f"{name}/{partition}/{index}"}, key))
        tasks.append(Task(some_topic(world), rows))
    return tasks
