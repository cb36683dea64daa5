"""The plot of a world: it is settled, lived in, and at last everything is fetched and checked.

When the actors are done all faults end, the broker serves, and every subscription that is left is
drained: pulled and acknowledged until nothing is left, over leases and back-offs that must run out
first. While the others are drained, one subscription may be left to a consumer that never does
anything: it must not hold up anybody (P6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from fanlog.core.catalog import Catalog
from fanlog.errors import FanlogError
from fanlog.model import endpoints
from fanlog.model.attributes import LABEL_BACKLOG_POLICY
from fanlog.model.resources import Subscription
from simulator import alerters, faults, probes, schedulers, surfaces
from simulator.admins import admin, change_filter, settle_in
from simulator.alerters import alerter
from simulator.archivers import archiver, finish, lake_chaos
from simulator.chaos import chaos
from simulator.chronicle import Delivered, Turn
from simulator.clients import (
    publish,
    publisher,
    pull,
    puller,
    settle,
    streamer,
)
from simulator.inspectors import inspector
from simulator.life import Life
from simulator.limiters import limiter
from simulator.limits import limited, sweep_at_leisure
from simulator.meanings import is_matched, is_pattern, is_wanted, some_filter
from simulator.network import Received, Stream
from simulator.pressers import presser
from simulator.schedulers import scheduler
from simulator.sequences import is_numbered, sequencer
from simulator.singles import single
from simulator.sinkers import sinker
from simulator.world import Lost, World

#: A drain is over by then: a lease of 600 s, a back-off of 600 s, and as much to spare.
DRAIN_S = 2_000.0
#: Whatever is asked is answered by then.
ANSWER_S = 60.0
#: So many messages are published, at most, before one is of use to a filter.
TRIES = 20
#: How often a drain looks again when nothing is to be had.
LOOK_S = 20.0

Actor = Callable[[World], Coroutine[Any, Any, None]]


def live(world: World) -> None:
    """Run a world from its beginning to its end."""
    loop = world.loop
    with limited(world):
        try:
            loop.run_until_complete(_plot(world))
        except AssertionError as error:
            world.mistaken(error)
        finally:
            _bury(world)


async def _plot(world: World) -> None:
    await world.start()
    await settle_in(world)
    temper = world.temper
    actors: list[Actor] = [
        *[publisher] * temper.publishers,
        *[puller] * temper.pullers,
        *[streamer] * temper.streams,
        *[admin] * temper.admins,
        chaos,
        *[archiver] * temper.archivers,
        *[lake_chaos] * temper.lake,
        *[sinker] * temper.sinks,
        *[single] * temper.singles,
        *[sequencer] * temper.sequencers,
        *[presser] * temper.pressers,
        *[limiter] * temper.limiters,
        *[inspector] * temper.inspectors,
        *[scheduler] * temper.schedulers,
        *[alerter] * temper.alerters,
    ]
    tasks = [world.loop.create_task(actor(world)) for actor in actors]
    for task in tasks:
        await task
    await _end(world)


async def _end(world: World) -> None:
    await world.end_faults()
    how = world.rng.randrange(3)
    if how == 0:
        world.crash()
    elif how == 1:
        await world.stop()
    life = await world.up()
    while epochs := list(life.broker.sink._commits.values()):
        await asyncio.wait(epochs)
    probes.check_recovery(world)
    if world.temper.schedulers:
        await schedulers.finish(world)
    if world.temper.alerters:
        await alerters.finish(world)
    world.is_draining = True
    world.chronicle.turn(Turn("drain", life.number), world.now)
    for receiver in world.receivers().values():
        receiver.settle_down()
    present = _present(life)
    stuck = world.rng.choice(present) if present and world.rng.random() < 0.3 else None
    if stuck is not None:
        get_free = _get_stuck(world, stuck)
        await _drain(world, [s for s in present if s is not stuck])
        get_free()
    await _drain(world, present)
    await _check_wake_up(world, present)
    await finish(world)
    # A request that was sent twice may have made another one meanwhile.
    await _drain(world, _present(life))
    # A process that was told to stop may have gone on for a while, and another one begun since.
    life = await world.up()
    # The first one lets go of topics and passes over what filters leave out, the next one trims.
    for _ in range(2):
        await asyncio.wait([life.begin(life.broker.sweep())])
    probes.check_nothing_is_held(world)
    world.sinks.check_whole(world, is_end=True)
    if world.tiering is not None:
        world.broken += [*world.tiering.check_lake(), *world.tiering.check_hot()]
    probes.check_recovery(world)
    probes.check_bounds(world)
    for op, reply in life.running.items():
        # The longest wait of a pull is 20 s; drains take longer than that.
        if reply is not None and not reply.done() and world.now - op.begun_s > ANSWER_S:
            world.broken.append(f"P2: {op.verb} of {op.name} begun at {op.begun_at} never ended")


def _present(life: Life) -> list[Subscription]:
    return [s for s in life.broker.hard.catalog.subscriptions() if not s.detached]


def _get_stuck(world: World, subscription: Subscription) -> Callable[[], None]:
    """A consumer that takes all it is given and never says a word; gives what sets it free."""
    if subscription.push is not None:
        receiver = world.receiver(subscription.push.endpoint)
        receiver.settle_down("hanging")
        return receiver.settle_down
    stream = Stream(world, subscription.name, credit=0, credit_bytes=0, deadline_s=600)
    return stream.cut


async def _drain(world: World, subscriptions: list[Subscription]) -> None:
    """Fetch everything; dead letters may still be made of some while others are drained."""
    until_s = world.now + DRAIN_S
    sweep_at_leisure()
    ways = [
        _drain_by_stream if world.rng.random() < (0.7 if s.is_pattern else 0.3) else _drain_by_pull
        for s in subscriptions
    ]
    # Where consumers have key slots there are no pulls.
    ways = [
        _drain_by_stream if s.key_slots else way for s, way in zip(subscriptions, ways, strict=True)
    ]
    while world.now < until_s and not world.mistakes:
        for subscription, drain in zip(subscriptions, ways, strict=True):
            with suppress(FanlogError, Lost):
                if await _is_pulled(world, subscription):
                    await drain(world, subscription)
        if not any(_backlog(world, subscription) for subscription in subscriptions):
            return
        await asyncio.sleep(LOOK_S)


async def _is_pulled(world: World, subscription: Subscription) -> bool:
    """Whether somebody must come for its messages; who pushes is helped to do so."""
    catalog = (await world.up()).broker.hard.catalog
    present = catalog.subscription_by_id(subscription.id)
    if present is None or present.push is None:
        return True
    target = endpoints.forward_topic(present.push.endpoint, present.name)
    if present.push_off:
        await surfaces.turn_on(world, present.name)
    elif target is not None and catalog.find_topic(target) is None:
        await surfaces.create_target(world, target)
    return False


async def _check_wake_up(world: World, subscriptions: list[Subscription]) -> None:
    """P2: who waits for a message is told when one is published, also if its filter is changed."""
    catalog, rng = (await world.up()).broker.hard.catalog, world.rng
    found = [catalog.subscription_by_id(s.id) for s in subscriptions]
    alive = [s for s in found if s is not None and s.push is None and not s.key_slots]
    # A sample may leave the message out.
    alive = [s for s in alive if s.labels.get(LABEL_BACKLOG_POLICY) != "sample"]
    waiting = [(s, t) for s in alive if (t := _topics_of(catalog, s))]
    if not waiting:
        return
    chosen, topics = rng.choice(waiting)
    pulling = world.loop.create_task(pull(world, chosen.name, 10, 30.0))
    await asyncio.sleep(1.0)
    with suppress(FanlogError, Lost):
        if world.chance(world.temper.filters):
            await change_filter(world, chosen.name, some_filter(rng))
        before, is_told = world.chronicle.at, pulling.done()
        for _ in range(TRIES):
            topic = rng.choice(topics)
            await publish(world, topic, 1, is_new=True)
            log = world.chronicle.log.get(catalog.topic(topic).partitions[0])
            chosen = catalog.subscription(chosen.name)
            if log and is_wanted(chosen.filter, log[-1]):
                break
        else:
            is_told = True
        await asyncio.sleep(1.0)
        # A request that was sent twice may have come in before; a stream whose client is gone may
        # have been faster.
        if not is_told and not any(
            isinstance(entry.what, Delivered) and entry.what.subscription == chosen.id
            for entry in world.chronicle.entries[before:]
        ):
            world.broken.append(f"P2: nobody told {chosen.name} of a message it waits for")
        await _acknowledge(world, chosen, await pulling)


def _topics_of(catalog: Catalog, subscription: Subscription) -> list[str]:
    """Topics that a subscription reads and that can be published to."""
    if not is_pattern(subscription.topic):
        return [] if subscription.topic_id is None else [subscription.topic]
    found = [t for t in catalog.topics() if is_matched(subscription.topic, t.name)]
    return [topic.name for topic in found if not is_numbered(topic)]


def _backlog(world: World, subscription: Subscription) -> int:
    life = world.life
    if life is None or life.broker.hard.catalog.subscription_by_id(subscription.id) is None:
        return 0
    shares = life.broker.hard.shares_of(subscription)
    return sum(share.stats(life.broker.ledger.end(share.partition)).backlog for share in shares)


async def _drain_by_pull(world: World, subscription: Subscription) -> None:
    while received := await pull(world, subscription.name, 100, 0.0):
        await _acknowledge(world, subscription, received)


async def _drain_by_stream(world: World, subscription: Subscription) -> None:
    """With little credit, so that what leaks is missed."""
    stream = Stream(world, subscription.name, credit=5, credit_bytes=0, deadline_s=60)
    count = 0
    while (said := await stream.receive(1.0)) is not None:
        if isinstance(said, list):
            count += len(said)
            await _acknowledge(world, subscription, said)
    if count >= 5 and not stream.is_over and not subscription.key_slots:
        left = await pull(world, subscription.name, 1, 0.0)
        if left:
            world.broken.append(
                f"P2: a stream of {subscription.name} settled all it had and was given no more"
            )
            await _acknowledge(world, subscription, left)
    stream.cut()


async def _acknowledge(world: World, subscription: Subscription, received: list[Received]) -> None:
    await settle(world, subscription.name, [one.ref for one in received], None)


def _bury(world: World) -> None:
    """End what still runs, quietly, and close the loop."""
    loop = world.loop
    mistakes = list(world.mistakes)
    world.odds = faults.KIND
    if world.life is not None:
        world.life.kill()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks and not loop.is_closed():
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
    world.mistakes = mistakes
