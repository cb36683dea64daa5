"""What the doctor says about hard state: sound state is sound, and nothing is nobody's."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.broker.audit import audit
from fanlog.core.hard_state import HardState
from fanlog.core.iam import Policy
from fanlog.core.records import (
    Activity,
    AttemptsChunk,
    Counters,
    CursorChunk,
    CursorHead,
    FormerTopicRecord,
    LeaseHeld,
    PolicyRecord,
    Record,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.log.report import Finding
from fanlog.model.resources import (
    PartitionId,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)

EU, US, GONE = PartitionId(2), PartitionId(4), PartitionId(6)


def topic(number: int, name: str) -> Topic:
    partitions = (PartitionId(number + 1),)
    return Topic(id=TopicId(number), name=f"projects/p/topics/{name}", partitions=partitions)


def subscription(number: int, name: str, pattern: str, **fields: object) -> Subscription:
    settings = {"topic_id": None, "partitions": ()} | fields
    return Subscription(
        id=SubscriptionId(number),
        name=f"projects/p/subscriptions/{name}",
        topic=f"projects/p/topics/{pattern}",
        **settings,  # type: ignore[arg-type]
    )


PATTERN = subscription(11, "pattern", "orders.*", filter="attributes:x")
EXACT = subscription(12, "exact", "orders.eu", topic_id=TopicId(1), partitions=(EU,))
SNAPSHOT = Snapshot(
    id=SnapshotId(13),
    name="projects/p/snapshots/s",
    topic=PATTERN.topic,
    topic_id=None,
    partitions=(EU, GONE),
    expire_s=0.0,
)

SOUND: list[Record] = [
    Counters(next_id=14, boots=1),
    TopicRecord(TopicId(1), topic(1, "orders.eu")),
    TopicRecord(TopicId(3), topic(3, "orders.us")),
    FormerTopicRecord(TopicId(5), topic(5, "orders.gone")),
    SubscriptionRecord(PATTERN.id, PATTERN),
    SubscriptionRecord(EXACT.id, EXACT),
    SnapshotRecord(SNAPSHOT.id, SNAPSHOT),
    *[CursorHead(PATTERN.id, partition, 3) for partition in (EU, US, GONE)],
    CursorChunk(PATTERN.id, US, 0, BitMap64([5])),
    AttemptsChunk(PATTERN.id, US, 0, ((7, 1),)),
    LeaseHeld(PATTERN.id, US, 9, 0, 1.0, BitMap64([8])),
    CursorHead(EXACT.id, EU, 0),
    *[CursorHead(SNAPSHOT.id, partition, 0) for partition in (EU, GONE)],
    CursorChunk(SNAPSHOT.id, EU, 0, BitMap64([2])),
    Activity(PATTERN.id, 1.0),
    *[PolicyRecord(n, Policy(id=n, revision=1)) for n in (1, PATTERN.id, SNAPSHOT.id)],
]


def stored(records: list[Record]) -> list[tuple[bytes, bytes]]:
    found = {}
    for record in records:
        value = record.value()
        assert value is not None
        found[record.key()] = value
    return sorted(found.items())


def test_sound_state_with_patterns_and_a_former_topic():
    assert audit(stored(SOUND)) == []


@pytest.mark.parametrize(
    "stray",
    [
        CursorHead(99, EU, 0),
        CursorChunk(99, EU, 0, BitMap64([1])),
        LeaseHeld(99, EU, 1, 0, 1.0, BitMap64([1])),
        CursorHead(EXACT.id, US, 0),
        CursorChunk(PATTERN.id, PartitionId(77), 0, BitMap64([1])),
        CursorHead(SNAPSHOT.id, US, 0),
        AttemptsChunk(SNAPSHOT.id, EU, 0, ((1, 1),)),
        Activity(99, 1.0),
    ],
    ids=lambda stray: f"{type(stray).__name__} of {stray.owner}",
)
def test_what_belongs_to_nobody_is_found(stray: Record):
    [finding] = audit(stored([*SOUND, stray]))
    assert finding.severity == "warning", "a broker can live with it"
    assert "belong to no subscription and no snapshot" in finding.text


def test_a_policy_of_nothing_is_found():
    [finding] = audit(stored([*SOUND, PolicyRecord(99, Policy(id=99, revision=1))]))
    assert (finding.severity, "IAM policy of resource 99" in finding.text) == ("warning", True)


def test_one_sentence_for_all_records_of_a_stranger():
    strays: list[Record] = [CursorChunk(99, EU, n, BitMap64([n * 65_536])) for n in range(5)]
    assert len(audit(stored([*SOUND, *strays]))) == 1


def test_a_pattern_that_lost_its_cursor_in_a_topic():
    """It reads the topic all the same, and keeps what is known to be acknowledged."""
    lost = [record for record in SOUND if record != CursorHead(PATTERN.id, US, 3)]
    [finding] = audit(stored(lost))
    assert (finding.severity, "pattern" in finding.text) == ("warning", True)
    share = HardState.load(stored(lost)).share(PATTERN.id, US)
    assert share is not None
    assert share.cursor.floor == 0
    assert [offset for offset in range(8) if offset in share.cursor] == [5]


def test_a_detached_pattern_need_not_read_anything():
    detached = subscription(11, "pattern", "orders.*", detached=True)
    records = [r for r in SOUND if getattr(r, "owner", r) != PATTERN.id]
    records = [r for r in records if getattr(r, "id", r) != PATTERN.id]
    assert audit(stored([*records, SubscriptionRecord(detached.id, detached)])) == []


def test_a_pattern_on_a_topic_nobody_remembers():
    forgotten = [record for record in SOUND if not isinstance(record, FormerTopicRecord)]
    [finding] = audit(stored(forgotten))
    assert "partition 6" in finding.text


def test_what_keeps_a_broker_from_starting_is_an_error():
    [finding] = audit([*stored(SOUND), (b"nonsense", b"nonsense")])
    assert isinstance(finding, Finding)
    assert finding.severity == "error"
