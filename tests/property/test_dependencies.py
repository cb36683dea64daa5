"""Messages that depend on others: whatever happens, none comes before its causes, and all come.

All of it happens within the time-out.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.model.dependencies import Cause
from fanlog.model.resources import Ordering
from unit.core.world import PARTITION, Id, World, subscription

ACTIONS = ("lease", "ack", "nack", "expire", "reopen", "restart", "discard", "seek")


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
@given(data=st.data())
def test_causes_come_first(ordering, exactly_once, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "DEPENDING_MAX", data.draw(st.sampled_from((1, 2, 100))))
        live(ordering, exactly_once, data)


def live(ordering: Ordering, exactly_once: bool, data: st.DataObject) -> None:
    world = World(subscription(ordering, exactly_once=exactly_once))
    count = data.draw(st.integers(2, 12))
    world.publish(*data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    causes = {
        offset: data.draw(st.lists(st.integers(0, offset - 1), max_size=3))
        for offset in range(1, count)
    }
    world.causes = {
        offset: [Cause(PARTITION, one) for one in some] for offset, some in causes.items() if some
    }
    out: dict[int, Id] = {}
    consumers = [Credit(), Credit()]

    def lease(consumer: Credit, most: int) -> None:
        for one in world.lease(consumer, most, deadline_s=100.0):
            open_ = [cause for cause in causes.get(one[1], ()) if cause in world.unacked]
            assert not open_, f"{one[1]} came before {open_}"
            out[one[1]] = one

    for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=25)):
        some = data.draw(st.sets(st.integers(0, count - 1), max_size=3))
        ids = [out[offset] for offset in sorted(some) if offset in out]
        match action:
            case "lease":
                lease(data.draw(st.sampled_from(consumers)), data.draw(st.integers(1, 4)))
            case "ack":
                world.ack(1.0, ids)
            case "nack":
                world.nack(1.0, ids)
            case "expire":
                world.expire(200.0)
            case "reopen":
                world.decided(
                    world.share.reopen(1.0, BitMap64(some), generation=world.next_generation())
                )
            case "restart":
                world.restart()
            case "discard":
                world.decided(world.share.discard(BitMap64(some)))
            case "seek":
                target = min(some, default=0)
                world.decided(world.share.seek(target, 0, generation=world.next_generation()))
    for _ in range(3 * count):
        world.expire(200.0)
        out.clear()
        lease(Credit(), count)
        for offset in sorted(out):
            world.ack(1.0, [out[offset]])
    assert world.unacked == []
    assert world.share.stats(world.end).depending == 0
    assert not world.share.awaited.offsets
