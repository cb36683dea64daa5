"""Numbers of publishers against a model: answers, what is held back, and the order of delivery.

The model knows every message of a publisher, and what was given up. Whatever happens to a share, it
hands out no message behind a gap, none before an earlier one of its publisher that it could have
handed out, and in the end all of them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.core.share import State
from fanlog.errors import FailedPrecondition
from fanlog.model.resources import Ordering
from fanlog.model.sequences import Numbered
from unit.core.sequenced import GAP_S, Sequenced
from unit.core.world import PARTITION, RETRY, Id, subscription

ACTIONS = (
    *("publish", "publish", "publish", "publish", "lease", "lease", "ack", "nack", "expire"),
    *("reopen", "restart", "discard", "seek", "purge", "wait"),
)


class Model:
    """What publishers have published, said another way than the code says it."""

    def __init__(self) -> None:
        #: Epoch, the numbers of it with offset and arrival, and up to where all is settled.
        self.epochs: dict[str, int] = {}
        self.known: dict[str, dict[int, tuple[int, float]]] = {}
        self.settled: dict[str, int] = {}
        #: Publisher, epoch and number of each offset.
        self.said: dict[int, tuple[str, int, int]] = {}
        self.held: set[int] = set()

    def publish(self, one: Numbered, offset: int, now: float) -> int | None:
        """The offset of the message, its own or that of the original; None if it is refused."""
        epoch = self.epochs.get(one.publisher)
        if epoch is None or one.epoch > epoch:
            self.epochs[one.publisher] = one.epoch
            for left in (self.known.get(one.publisher) or {}).values():
                self.held.discard(left[0])
            self.known[one.publisher] = {}
            self.settled[one.publisher] = one.number - 1
        elif one.epoch < epoch:
            return None
        known = self.known[one.publisher]
        if one.number in known:
            return known[one.number][0]
        if one.number <= self.settled[one.publisher]:
            return None
        known[one.number] = offset, now
        self.said[offset] = one.publisher, one.epoch, one.number
        self.settle(one.publisher)
        return offset

    def settle(self, publisher: str) -> None:
        known = self.known[publisher]
        while self.settled[publisher] + 1 in known:
            self.settled[publisher] += 1
        for number, (offset, _) in known.items():
            if number > self.settled[publisher]:
                self.held.add(offset)
            else:
                self.held.discard(offset)

    def give_up(self, now: float) -> None:
        for publisher, known in self.known.items():
            late = [
                number
                for number, (offset, arrived) in known.items()
                if offset in self.held and arrived + GAP_S <= now
            ]
            if late:
                self.settled[publisher] = max(late)
                self.settle(publisher)


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
@given(data=st.data())
def test_numbers(ordering, exactly_once, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "KEY_WAITING_MAX", data.draw(st.sampled_from((1, 3, 1000))))
        live(ordering, exactly_once, data)


def live(ordering: Ordering, exactly_once: bool, data: st.DataObject) -> None:
    retry = data.draw(st.sampled_from((None, RETRY)))
    settings = subscription(ordering, exactly_once=exactly_once, retry=retry)
    world, model = Sequenced(settings), Model()
    world.begin()
    out: dict[int, Id] = {}
    seen: set[int] = set()
    keys: dict[int, int] = {}
    consumers = [Credit(), Credit()]
    same_keys = data.draw(st.booleans())

    def lease(consumer: Credit, most: int) -> list[int]:
        outstanding = set(world.share.offsets_by_state(world.end).get(State.OUTSTANDING, ()))
        found = world.lease(consumer, most, deadline_s=world.now + 100.0)
        for one in found:
            offset = one[1]
            assert offset not in outstanding, f"{model.said[offset]} has two leases"
            outstanding.add(offset)
            assert offset not in model.held, f"{model.said[offset]} came in spite of a gap"
            publisher, epoch, number = model.said[offset]
            for other, (theirs, its_epoch, its_number) in model.said.items():
                is_before = theirs == publisher and (its_epoch, its_number) < (epoch, number)
                is_alike = ordering == "none" or keys[other] == keys[offset]
                if is_before and is_alike and other in world.unacked:
                    what = f"{model.said[offset]} came before {its_number}"
                    assert other in seen or offset in seen, what
            seen.add(offset)
            out[offset] = one
        return [offset for _, offset in found]

    for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=30)):
        count = world.end
        some = data.draw(st.sets(st.integers(0, max(0, count - 1)), max_size=3)) if count else set()
        ids = [out[offset] for offset in sorted(some) if offset in out]
        match action:
            case "publish":
                publisher = data.draw(st.sampled_from("pq"))
                near = model.settled.get(publisher, 0)
                epoch = model.epochs.get(publisher, 0) + data.draw(st.sampled_from((0, 0, 0, 1)))
                said = [
                    Numbered(publisher, epoch, max(0, near + step), b"12345678")
                    for step in sorted(
                        data.draw(st.lists(st.integers(-1, 5), min_size=1, max_size=4)),
                        reverse=data.draw(st.booleans()),
                    )
                ]
                key = data.draw(st.integers(0, 2)) if not same_keys else int(ordering != "none")
                try:
                    offsets = world.say(said, [key] * len(said))
                except FailedPrecondition:
                    # The lowest number of a request begins an epoch, and is no reason.
                    assert any(one.number <= near for one in said)
                    continue
                end = count
                by_number = sorted(said, key=lambda one: one.number)
                if epoch > model.epochs.get(publisher, -1):
                    # Where it begins.
                    lowest = by_number[0]
                    model.publish(lowest, offsets[said.index(lowest)], world.now)
                for one, offset in zip(said, offsets, strict=True):
                    assert model.publish(one, offset, world.now) == offset
                    if offset >= end:
                        keys[offset] = key
            case "lease" if count:
                lease(data.draw(st.sampled_from(consumers)), data.draw(st.integers(1, 4)))
            case "ack":
                world.ack(world.now, ids)
            case "nack":
                world.nack(world.now, ids)
            case "expire":
                world.now += 200.0
                world.wait(0.0)
                model.give_up(world.now)
                world.expire(world.now)
            case "wait":
                world.wait(data.draw(st.sampled_from((10.0, 29.0, 30.0))))
                model.give_up(world.now)
                world.expire(world.now)
            case "reopen" if count:
                world.decided(
                    world.share.reopen(
                        world.now, BitMap64(some), generation=world.next_generation()
                    )
                )
                seen |= set(some)
            case "restart":
                world.restart()
            case "discard":
                world.decided(world.share.discard(BitMap64(some)))
            case "purge" if count:
                world.decided(world.share.purge(data.draw(st.integers(0, count))))
            case "seek" if count:
                target = min(some, default=0)
                world.decided(world.share.seek(target, 0, generation=world.next_generation()))
                seen.clear()
                out.clear()
        agenda = world.agendas.find(PARTITION)
        found = set() if agenda is None else set(agenda.places.held)
        assert found == model.held
    world.wait(GAP_S)
    model.give_up(world.now)
    for _ in range(4 * world.end):
        world.now += 200.0
        world.expire(world.now)
        out.clear()
        for offset in lease(Credit(), world.end):
            world.ack(world.now, [out[offset]])
    assert world.unacked == []
