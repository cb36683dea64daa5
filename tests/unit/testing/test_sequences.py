"""How the simulator judges the numbers of publishers: chronicles written by hand."""

from __future__ import annotations

import pytest

from fanlog.core.records import SubscriptionRecord, TopicRecord
from fanlog.model.attributes import LABEL_GAP_TIMEOUT, PUBLISHER_EPOCH, SEQUENCE
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId, Topic, TopicId
from simulator.chronicle import EPOCH, Chronicle, Committed, Delivered, Message, Op
from simulator.sequences import numbers_kept

PARTITION, NAME = PartitionId(2), "projects/own/topics/numbered-1-key"
TOPIC = Topic(id=TopicId(1), name=NAME, partitions=(PARTITION,), labels={LABEL_GAP_TIMEOUT: "20"})
OWN = Subscription(
    id=SubscriptionId(3),
    name="projects/own/subscriptions/numbered-1-key",
    topic=NAME,
    topic_id=TopicId(1),
    partitions=(PARTITION,),
)


def history(*numbers: int, arrived_s: float = 2.0, deliveries=()) -> list[str]:
    """Messages that are sent a second after the beginning, arrive, and are committed at 4 s.

    `deliveries` are offsets, and when they were handed out.
    """
    chronicle = Chronicle()
    records = [TopicRecord(TOPIC.id, TOPIC), SubscriptionRecord(OWN.id, OWN)]
    chronicle.commit(Committed(1, [], records, [], {}), EPOCH)
    places = [(0, number) for number in numbers]
    chronicle.begin(Op("publish numbered", NAME, places), EPOCH + 1)
    messages = [
        Message(
            at=chronicle.at,
            sequence=2,
            partition=PARTITION,
            topic="numbered-1-key",
            offset=offset,
            publish_ns=int(EPOCH * 1e9),
            key="",
            data=b"",
            attributes={SEQUENCE: str(number), PUBLISHER_EPOCH: "0"},
            field=b"",
            base=0,
        )
        for offset, number in enumerate(numbers)
    ]
    arrivals = {(PARTITION, offset): EPOCH + arrived_s for offset in range(len(numbers))}
    chronicle.commit(Committed(2, messages, [], [], {}, arrivals), EPOCH + 4)
    for generation, (offset, after_s) in enumerate(deliveries, start=1):
        chronicle.decided(generation, EPOCH + after_s)
        chronicle.deliver(
            Delivered(
                at=chronicle.at,
                time_s=EPOCH + after_s,
                generation=generation,
                decided_s=EPOCH + after_s,
                deadline_lo_s=0,
                deadline_hi_s=0,
                subscription=OWN.id,
                partition=PARTITION,
                consumer=1,
                credit=0,
                offsets=[offset],
                attempts=[1],
                is_drain=False,
            )
        )
    return list(numbers_kept(chronicle))


@pytest.mark.parametrize(("after_s", "is_early"), [(21.99, True), (22.0, False), (5.0, True)])
def test_a_message_behind_a_gap_is_early_to_the_moment(after_s, is_early):
    found = history(1, 3, deliveries=[(0, 4.0), (1, after_s)])
    assert [("and 2 had not come" in one) for one in found] == [True] * is_early


@pytest.mark.parametrize(("arrived_s", "is_wrong"), [(0.5, True), (1.0, False), (4.5, True)])
def test_a_message_arrives_after_it_was_sent_and_before_its_commit(arrived_s, is_wrong):
    found = history(1, arrived_s=arrived_s)
    assert [("is noted to have arrived" in one) for one in found] == [True] * is_wrong


def test_a_number_twice():
    assert [one for one in history(1, 2, 2) if "once more at 2" in one]


def test_disorder():
    assert [one for one in history(1, 2, deliveries=[(1, 5.0), (0, 5.0)]) if "came after" in one]
