"""What a full backlog let go of, in the counts of a broker inside a program."""

from __future__ import annotations

from fanlog.in_process.counts import count
from unit.broker.pressure.test_relief import World


async def test_what_is_dropped_is_counted():
    world = World()
    await world.broker.start()
    await world.subscribe("drop-oldest", 10)
    await world.publish(0, 25)
    counts = await count(world.broker, ())
    assert (counts.published, counts.dropped, counts.buffer_size) == (25, 15, 10)
    await world.broker.stop()
