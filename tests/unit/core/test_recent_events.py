"""What is remembered of messages: failures of all, a sample of the rest, within bounds."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.recent_events import COPIED, DEAD_LETTERED, RecentEvents
from fanlog.core.redelivery import EXPIRED, UNSENT, Nack
from fanlog.core.share import Decision, Grant
from fanlog.core.share.lease import LeasedRun

OWNER, PARTITION = 7, 3


def failed(offsets, nack):
    return Decision(failed=(BitMap64(offsets), nack))


def granted(*runs):
    return Decision(grant=Grant(1, [LeasedRun(a, b, a, ()) for a, b in runs], 0))


def words(events, offset):
    return [(one.what, one.reason) for one in events.of(OWNER, PARTITION, offset)]


def test_failures_are_remembered_of_every_message_with_their_reason():
    events = RecentEvents()
    events.note(1.0, OWNER, PARTITION, failed([4, 9], Nack(reason="boom")))
    events.note(2.0, OWNER, PARTITION, failed([9], EXPIRED))
    events.note(3.0, OWNER, PARTITION, failed([9], Nack(is_terminal=True, reason="bad")))
    events.note(4.0, OWNER, PARTITION, failed([9], Nack(delay_s=2.5)))
    assert words(events, 4) == [("nacked", "boom")]
    assert words(events, 9) == [
        ("nacked", "boom"),
        ("expired", ""),
        ("nacked", "for good: bad"),
        ("nacked", "to come back after 2.5 s"),
    ]
    assert [one.time_s for one in events.of(OWNER, PARTITION, 9)] == [1.0, 2.0, 3.0, 4.0]
    assert words(events, 5) == []


def test_events_of_other_subscriptions_and_partitions_are_others():
    events = RecentEvents()
    events.note(1.0, OWNER, PARTITION, failed([4], EXPIRED))
    assert events.of(OWNER + 1, PARTITION, 4) == []
    assert events.of(OWNER, PARTITION + 1, 4) == []


def test_without_a_sample_deliveries_and_acknowledgements_cost_nothing():
    events = RecentEvents(sample_every=0)
    events.note(1.0, OWNER, PARTITION, granted((0, 10_000)))
    events.note(2.0, OWNER, PARTITION, Decision(acked=BitMap64(range(10_000))))
    events.note(3.0, OWNER, PARTITION, failed(range(10), UNSENT))
    assert len(events) == 0
    assert not events.is_sampled(PARTITION, 0)


@pytest.mark.parametrize("every", [1, 2, 7, 1000])
def test_the_sample_is_the_same_messages_wherever_they_are_met(every):
    events = RecentEvents(sample_every=every)
    sampled = [o for o in range(3_000) if events.is_sampled(PARTITION, o)]
    assert len(sampled) == pytest.approx(3_000 / every, abs=1)
    # In one run, in many, as a bitmap that is dense, and as one that is sparse.
    events.note(1.0, OWNER, PARTITION, granted((0, 3_000)))
    events.note(2.0, OWNER, PARTITION, granted(*((o, o + 1) for o in range(3_000))))
    events.note(3.0, OWNER, PARTITION, Decision(acked=BitMap64(range(3_000))))
    sparse = BitMap64([*sampled[:1], 10**9 + 1, 10**11])
    events.note(4.0, OWNER, PARTITION, Decision(acked=sparse))
    for offset in range(3_000):
        expected = ["delivered", "delivered", "acknowledged"] if offset in sampled else []
        expected += ["acknowledged"] if offset in sampled[:1] else []
        assert [what for what, _ in words(events, offset)] == expected


def test_each_partition_has_another_phase():
    events = RecentEvents(sample_every=1_000)
    first = {p: next(o for o in range(1_000) if events.is_sampled(p, o)) for p in range(1, 50)}
    assert len(set(first.values())) == 49


def test_what_a_message_became_is_remembered_with_it():
    events = RecentEvents()
    events.note_became(1.0, OWNER, PARTITION, DEAD_LETTERED, {4: "50", 5: "51"}, "3 of 3")
    events.note_became(2.0, OWNER, PARTITION, COPIED, {5: "60"})
    found = events.of(OWNER, PARTITION, 5)
    assert [(one.what, one.message_id, one.reason) for one in found] == [
        (DEAD_LETTERED, "51", "3 of 3"),
        (COPIED, "60", ""),
    ]


def test_a_purge_of_ten_million_messages_is_one_small_entry():
    events = RecentEvents()
    events.note_purged(1.0, OWNER, PARTITION, (100, 10_000_000))
    assert events.messages <= 3
    assert words(events, 99) == words(events, 10_000_000) == []
    assert [what for what, _ in words(events, 100)] == ["purged"]
    assert [what for what, _ in words(events, 9_999_999)] == ["purged"]


class TestBounds:
    def test_the_oldest_entries_go_first(self):
        events = RecentEvents(entries_max=3)
        for second in range(5):
            events.note(float(second), OWNER, PARTITION, failed([second], EXPIRED))
        assert len(events) == 3
        assert [bool(words(events, offset)) for offset in range(5)] == [False] * 2 + [True] * 3
        assert events.since_s == 1.0, "all that is remembered happened since then"

    def test_messages_count_too(self):
        events = RecentEvents(messages_max=100)
        for second in range(5):
            low = second * 40
            events.note(float(second), OWNER, PARTITION, failed(range(low, low + 40), EXPIRED))
            assert events.messages <= 100
        assert len(events) == 2

    def test_one_entry_beyond_the_bound_is_not_kept(self):
        events = RecentEvents(messages_max=10)
        events.note(1.0, OWNER, PARTITION, failed(range(11), EXPIRED))
        assert (len(events), events.messages, events.since_s) == (0, 0, 1.0)

    def test_a_trace_shows_the_last_of_many(self):
        events = RecentEvents()
        for second in range(limits.TRACE_SHOWN_MAX + 5):
            events.note(float(second), OWNER, PARTITION, failed([1], EXPIRED))
        found = events.of(OWNER, PARTITION, 1)
        assert len(found) == limits.TRACE_SHOWN_MAX
        assert found[-1].time_s == limits.TRACE_SHOWN_MAX + 4


def test_after_a_failed_commit_nothing_is_known():
    events = RecentEvents(sample_every=1)
    events.note(1.0, OWNER, PARTITION, failed([1], EXPIRED))
    events.forget(5.0)
    assert (len(events), events.messages, events.since_s) == (0, 0, 5.0)
    assert words(events, 1) == []
