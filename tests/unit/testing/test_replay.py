"""How the simulator judges: chronicles written by hand."""

from __future__ import annotations

import pytest

from fanlog.core.records import CursorHead, SubscriptionRecord
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId, TopicId
from simulator.chronicle import (
    EPOCH,
    Chronicle,
    Committed,
    Message,
    Op,
    SeekTo,
    Turn,
)
from simulator.replay import Replay

PARTITION, NAME = PartitionId(2), "projects/sim/subscriptions/subscription-0"
SUBSCRIPTION = Subscription(
    id=SubscriptionId(3),
    name=NAME,
    topic="projects/sim/topics/topic-0",
    topic_id=TopicId(1),
    partitions=(PARTITION,),
)


def subscribed() -> Chronicle:
    chronicle = Chronicle()
    record = SubscriptionRecord(SUBSCRIPTION.id, SUBSCRIPTION)
    head = CursorHead(SUBSCRIPTION.id, PARTITION, 0, 0)
    chronicle.commit(Committed(1, [], [record], [head], {PARTITION: 0}), EPOCH)
    return chronicle


def append(chronicle: Chronicle) -> None:
    """One message comes to the disk, a second after whatever was before."""
    offset = len(chronicle.log.get(PARTITION, ()))
    now = EPOCH + chronicle.at
    message = Message(
        at=chronicle.at,
        sequence=2 + offset,
        partition=PARTITION,
        topic="topic-0",
        offset=offset,
        publish_ns=int(now * 1e9),
        key="",
        data=b"",
        attributes={},
        field=b"",
        base=offset,
    )
    chronicle.commit(Committed(2 + offset, [message], [], [], {}), now)


def cut_seek(chronicle: Chronicle, *, assigned: int, ahead_s: float = 1_000.0) -> None:
    """A seek past everything, cut while messages below `assigned` waited for the disk."""
    now = EPOCH + chronicle.at
    op = Op("seek", NAME, SeekTo(time_ns=int((now + ahead_s) * 1e9)))
    chronicle.begin(op, now)
    op.wall_ns, op.assigned = int(now * 1e9), {PARTITION: assigned}
    chronicle.end(op, "cut", EPOCH + chronicle.at)


def missed(chronicle: Chronicle) -> list[int]:
    return [violation.offset for violation in Replay(chronicle).run()]


def test_a_message_that_never_comes_is_missed():
    chronicle = subscribed()
    append(chronicle)
    assert missed(chronicle) == [0]


def test_a_seek_that_was_cut_may_have_passed_what_waited_for_the_disk():
    chronicle = subscribed()
    append(chronicle)
    cut_seek(chronicle, assigned=2)
    append(chronicle)
    append(chronicle)
    assert missed(chronicle) == [2]


@pytest.mark.parametrize(("ahead_s", "lost"), [(-10.0, [0]), (0.0, [0]), (0.5, [])])
def test_it_passed_them_only_if_its_time_was_ahead(ahead_s, lost):
    chronicle = subscribed()
    cut_seek(chronicle, assigned=1, ahead_s=ahead_s)
    append(chronicle)
    assert missed(chronicle) == lost


@pytest.mark.parametrize("what", ["crashed", "stopped", "commit failed"])
def test_what_waited_then_is_not_what_gets_the_offset_in_another_life(what):
    chronicle = subscribed()
    cut_seek(chronicle, assigned=1)
    chronicle.turn(Turn(what, 1), EPOCH + chronicle.at)
    append(chronicle)
    assert missed(chronicle) == [0]
