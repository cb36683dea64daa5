"""Those who look: they peek and trace between two turns of the loop; and now and then they purge.

A look must change nothing, so all that memory and disk say is compared before and after it. What a
trace says of a message goes into the chronicle, where the ledgers know better. Dice of their own:
worlds without them stay what they were.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.peeks import PeekPlace
from fanlog.core.share import Share, State
from fanlog.errors import FanlogError
from fanlog.model.resources import Offset, PartitionId, Subscription
from simulator.calling import called
from simulator.chronicle import SeekTo, Traced
from simulator.digest import difference, hard_lines
from simulator.pressed import is_pressed
from simulator.world import Lost, World

T = TypeVar("T")

#: Messages on a page of a peek.
PAGE = 7
#: A purge is written down as a seek to this time: it closes all there is, also messages whose time
#: is ahead of a clock that was set back.
END_OF_TIME_NS = 2**62


async def inspector(world: World) -> None:
    """Look at one thing after another until the world is over."""
    rng = random.Random(f"{world.seed}: what inspectors look at")
    while await world.pause(1.5):
        life = world.life
        if life is None or not life.is_serving:
            continue
        chosen = _some_subscription(life.broker, rng)
        if chosen is None:
            continue
        deed = rng.choices(("peek", "trace", "purge"), (5, 5, 1))[0]
        if deed == "peek":
            _peek(world, life.broker, chosen)
        elif deed == "trace":
            _trace(world, life.broker, chosen, rng)
        else:
            with suppress(FanlogError, Lost):
                await purge(world, chosen.name)


def _some_subscription(broker: Broker, rng: random.Random) -> Subscription | None:
    present = broker.hard.catalog.subscriptions()
    found = [s for s in present if not (s.detached or is_pressed(s.name))]
    return rng.choice(found) if found else None


def _at_once(work: Coroutine[Any, Any, T]) -> T | None:
    """The result of work that is done without letting others come in between; None if it waits."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    except FanlogError:
        return None
    work.close()
    return None


# Peeks.


def _peek(world: World, broker: Broker, chosen: Subscription) -> None:
    before = _state_lines(broker)
    seen: list[tuple[PartitionId, Offset, State]] = []
    place: PeekPlace | None = None
    while True:
        found = _at_once(broker.peeks.peek(chosen.name, place, None, PAGE))
        if found is None:
            break
        _, messages, place = found
        seen += [(one.batch.partition, one.offset, one.look.state) for one in messages]
        if place is None:
            _check_peek(world, broker, chosen, seen)
            break
    after = _state_lines(broker)
    if before != after:
        world.broken.append(
            f"a peek of {chosen.name} changed something: {difference(before, after)}"
        )


def _check_peek(
    world: World,
    broker: Broker,
    chosen: Subscription,
    seen: list[tuple[PartitionId, Offset, State]],
) -> None:
    """Every open message that can be read was shown once, in order, as it stands."""
    if seen != sorted(seen, key=lambda one: one[:2]) or len(seen) != len(set(seen)):
        world.broken.append(f"a peek of {chosen.name} is out of order, or shows something twice")
    for share in broker.hard.shares_of(chosen):
        end = min(broker.ledger.end(share.partition), share.routed_to)
        shown = {offset: state for p, offset, state in seen if p == share.partition}
        expected = dict(_open(world, share, end))
        wrong = {o for o in expected if shown.get(o) is not expected[o]}
        wrong |= {o for o in shown if o < end and o not in expected}
        if wrong:
            world.broken.append(
                f"a peek of {chosen.name} shows {min(wrong)} of partition {share.partition} as "
                f"{shown.get(min(wrong))}, and it is {expected.get(min(wrong))}"
            )


def _open(world: World, share: Share, end: Offset) -> Iterator[tuple[Offset, State]]:
    start = world.log_start(share.partition)
    rotten = {offset for p, offset in world.store.damaged if p == share.partition}
    bad = {m.base for o in rotten if (m := world.chronicle.message(share.partition, o))}
    for state, offsets in share.offsets_by_state(end).items():
        for offset in offsets:
            message = world.chronicle.message(share.partition, offset)
            if state in (State.ACKED, State.PASSED_OVER) or offset < start or message is None:
                continue
            if message.base not in bad and message.addressee in (0, share.settings.id):
                yield offset, state


def _state_lines(broker: Broker) -> list[str]:
    """Hard state, and what is soft of each share."""
    lines = hard_lines(broker.hard)
    for share in broker.hard.shares():
        end = broker.ledger.end(share.partition)
        leases = [(one.generation, one.part, one.deadline_s) for one in share._soft.leases]
        states = {s.value: list(o) for s, o in share.offsets_by_state(end).items() if o}
        lines.append(
            f"soft {share.settings.id} {share.partition} {share.routed_to} {share.next_offset} "
            f"{share.next_deadline()} {leases} {states}"
        )
    return lines


# Traces.


def _trace(world: World, broker: Broker, chosen: Subscription, rng: random.Random) -> None:
    logs = [world.chronicle.log.get(s.partition) for s in broker.hard.shares_of(chosen)]
    known = [log for log in logs if log]
    if not known:
        return
    message = rng.choice(rng.choice(known)[-50:])
    before = _state_lines(broker)
    found = _at_once(broker.traces.trace(message.partition, message.offset, chosen.name))
    after = _state_lines(broker)
    if before != after:
        world.broken.append(
            f"a trace of {message.offset} changed something: {difference(before, after)}"
        )
    for one in [] if found is None else found.subscriptions:
        traced = Traced(chosen.id, message.partition, message.offset, one.state)
        world.chronicle.trace(traced, world.now)


# Purges.


async def purge(world: World, name: str) -> None:
    """To the ledgers it is a seek to the end: it closes what is there, and reopens nothing."""

    async def verb(broker: Broker) -> tuple[tuple[PartitionId, Offset], ...]:
        disturbed, life = world.disturbed_at(name), world.life
        shares = broker.hard.shares_of(broker.hard.catalog.subscription(name))
        ends = {share.partition: broker.ledger.end(share.partition) for share in shares}
        await broker.purges.to_now(name)
        shares = broker.hard.shares_of(broker.hard.catalog.subscription(name))
        for share in shares:
            is_moved = world.disturbed_at(name) != disturbed or world.life is not life
            left = 0 if is_moved else share.open_count(ends.get(share.partition, 0))
            if left:
                world.broken.append(
                    f"a purge of {name} left {left} messages of partition {share.partition}"
                )
        return tuple((s.partition, world.log_start(s.partition)) for s in shares)

    to = SeekTo(time_ns=END_OF_TIME_NS)
    await called(world, "seek", name, to, verb)
