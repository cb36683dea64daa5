"""Exactly-once: which ack ids count, what survives a restart, and order on top of it."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.records import CursorHead, LeaseHeld
from unit.core.world import PARTITION, RETRY, World, subscription


def world(*keys: int, ordering: str = "none", **options: object) -> World:
    made = World(subscription(ordering, exactly_once=True, **options))  # type: ignore[arg-type]
    made.publish(*keys)
    return made


class TestIds:
    def test_a_live_one_is_final(self):
        made = world(0)
        ids = made.lease()
        decision = made.ack(1, ids)
        assert (decision.count, decision.is_refused) == (1, False)
        assert made.ack(1, ids).invalid == ids, "used"

    def test_an_expired_one_is_invalid_before_and_after_the_timer(self):
        made = world(0)
        ids = made.lease(deadline_s=10.0)
        assert made.ack(10.0, ids).invalid == ids
        assert made.modify(10.0, ids, 30.0).invalid == ids
        made.expire(10.0)
        assert made.ack(10.0, ids).invalid == ids
        assert made.offsets() == [0]

    def test_an_older_generation_is_invalid(self):
        made = world(0)
        old = made.lease()
        made.nack(1, old)
        new = made.lease()
        assert made.ack(2, old).invalid == old
        assert made.ack(2, new).count == 1

    def test_one_that_was_never_handed_out_is_invalid(self):
        made = world(0)
        made.lease()
        assert made.ack(1, [(1, 5), (9, 0)]).invalid == [(1, 5), (9, 0)]

    def test_all_or_nothing(self):
        made = world(0, 0)
        ids = made.lease()
        decision = made.ack(1, [*ids, (9, 9)])
        assert (decision.count, decision.records, decision.invalid) == (0, [], [(9, 9)])
        assert made.share.stats(made.end).outstanding == 2
        refused = made.modify(1, [*ids, (9, 9)], 0.0)
        assert (refused.count, refused.records) == (0, [])
        assert made.share.stats(made.end).outstanding == 2

    def test_partial(self):
        made = world(0, 0)
        ids = made.lease()
        decision = made.ack(1, [ids[0], (9, 9)], partial=True)
        assert (decision.count, decision.invalid) == (1, [(9, 9)])
        nacked = made.nack(1, [ids[1], (9, 9)], partial=True)
        assert (nacked.count, nacked.invalid) == (1, [(9, 9)])
        assert made.offsets() == [1]


class TestRecords:
    def test_a_lease_is_written_before_it_is_delivered(self):
        made = world(0, 0)
        decision = made.share.lease(
            Credit(), 2, made.batches, Credit().budget(9, 99), generation=5, deadline_s=10.0
        )
        assert decision.records == [LeaseHeld(3, PARTITION, 5, 0, 10.0, BitMap64([0, 1]))]

    def test_every_change_of_a_lease_is_written(self):
        made = world(0, 0, 0)
        ids = made.lease(deadline_s=10.0)
        assert made.modify(1, ids[:1], 30.0).records == [
            LeaseHeld(3, PARTITION, 1, 0, 10.0, BitMap64([1, 2])),
            LeaseHeld(3, PARTITION, 1, 1, 31.0, BitMap64([0])),
        ]
        assert made.ack(1, ids[:1]).records == [
            CursorHead(3, PARTITION, 1, 0),
            LeaseHeld(3, PARTITION, 1, 1, 0.0, None),
        ]
        assert made.expire(10.0).records == [LeaseHeld(3, PARTITION, 1, 0, 0.0, None)]

    def test_a_refusal_writes_nothing(self):
        made = world(0)
        made.lease()
        assert made.ack(1, [(9, 9)], partial=True).records == []


class TestRestart:
    def test_no_second_delivery_while_a_lease_lives(self):
        made = world(0, 0, 0)
        ids = made.lease(max_messages=2, deadline_s=10.0)
        made.modify(1, ids[1:], 30.0)
        made.restart()
        assert made.offsets() == [2]
        assert made.share.next_deadline() == 10.0
        made.expire(10.0)
        assert made.offsets() == [0]
        assert made.ack(11.0, ids[1:]).count == 1
        assert made.ack(11.0, ids[:1]).invalid == ids[:1]

    def test_a_restored_lease_can_be_nacked(self):
        made = world(0, 0, retry=RETRY)
        ids = made.lease(deadline_s=10.0)
        made.restart()
        made.nack(1, ids[:1])
        assert made.share.stats(made.end).delayed == 1
        assert made.offsets() == []
        made.expire(5.0)
        assert made.offsets() == [0]

    def test_twice(self):
        made = world(0, 0)
        ids = made.lease(deadline_s=10.0)
        made.restart()
        made.ack(1, ids[:1])
        made.restart()
        assert made.held == {1}
        assert made.offsets() == []
        assert made.ack(2, ids[1:]).count == 1
        assert made.store.keys() == {CursorHead(3, PARTITION, 0).key()}

    def test_a_record_of_nothing_but_acknowledged_ones_is_no_lease(self):
        made = world(0)
        made.ack(1, made.lease())
        made.share.apply(LeaseHeld(3, PARTITION, 1, 0, 10.0, BitMap64([0])))
        made.share.start()
        assert made.share.stats(made.end).outstanding == 0


class TestOrder:
    def test_an_early_ack_is_refused_until_it_is_its_turn(self):
        made = world(1, 1, 2, ordering="key")
        ids = made.lease()
        decision = made.ack(1, ids[1:])
        assert (decision.early, decision.invalid, decision.count) == ([ids[1]], [], 0)
        assert made.ack(1, ids[1:], partial=True).count == 1
        assert made.unacked == [0, 1]
        assert made.ack(1, [ids[1], ids[0]]).count == 2, "together they are in order"
        assert made.unacked == []

    def test_a_recalled_tail_is_invalid(self):
        made = world(1, 1, ordering="key")
        ids = made.lease()
        made.nack(1, ids[:1])
        assert made.ack(1, ids[1:]).invalid == ids[1:]
        assert made.held == set()

    @pytest.mark.parametrize("ordering", ["key", "strict"])
    def test_restored_leases_hold_up_their_keys(self, ordering):
        made = world(1, 1, 2, 1, ordering=ordering)
        ids = made.lease(max_messages=2, deadline_s=10.0)
        made.restart()
        expected = {"key": ([2], [3]), "strict": ([], [1])}[ordering]
        assert made.offsets() == expected[0]
        assert made.ack(1, ids).count == 2
        assert made.offsets() == expected[1]

    def test_until_they_are_placed_their_acks_are_early(self):
        made = world(1, 1, 0, ordering="key")
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        assert made.share.unplaced == BitMap64([0, 1, 2])
        assert made.ack(1, ids).early == ids
        assert made.modify(1, ids, 30.0).count == 3
        made.place_restored()
        assert not made.share.unplaced
        assert made.share.next_offset == 3
        assert made.ack(1, ids[1:2]).early == ids[1:2]
        assert made.ack(1, ids).count == 3

    def test_a_scan_delivers_nothing(self):
        made = world(0, 2, 1, ordering="key")
        ids = made.lease(deadline_s=10.0)
        made.nack(1, ids[:2])
        made.restart()
        assert made.share.stats(made.end).outstanding == 1
        assert made.share.next_offset == 3
        assert made.offsets() == [0, 1]

    def test_one_that_fails_before_it_is_placed_takes_the_tail_along(self):
        made = world(1, 1, 1, 0, ordering="key")
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        made.nack(1, [ids[1], ids[3]])
        made.place_restored()
        assert made.share.stats(made.end).outstanding == 1
        assert made.ack(1, ids[2:3]).invalid == ids[2:3]
        assert made.offsets() == [3]
        assert made.held == {0, 3}
        made.ack(1, ids[:1])
        assert made.offsets() == [1, 2]

    def test_also_when_it_is_delivered_again_before_the_tail_is_met(self):
        made = world(1, 2, ordering="key")
        made.publish(1)
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        made.nack(1, ids[:1])
        a = Credit()
        assert made.lease(a, 1) != []
        assert made.share.unplaced == BitMap64([2])
        assert made.offsets(a) == [2], "recalled when it was met, and next for who holds 0"
        assert made.ack(1, ids[2:]).invalid == ids[2:]

    def test_also_when_it_was_placed_first(self):
        made = world(1, ordering="key")
        made.publish(1)
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        made.share.scan(1, made.batches)
        assert made.share.unplaced == BitMap64([1])
        made.nack(1, ids[:1])
        a = Credit()
        assert made.lease(a, 1) == [(2, 0)]
        made.place_restored()
        assert made.ack(1, ids[1:]).invalid == ids[1:]
        assert made.lease(Credit()) == []
        assert [offset for _, offset in made.lease(a)] == [1]

    def test_a_back_off_that_ends_before_or_after_the_scan(self):
        for scan_first in (True, False):
            made = world(1, 1, 0, ordering="key", retry=RETRY)
            ids = made.lease(deadline_s=10.0)
            made.restart(scan=False)
            made.nack(0, [ids[0], ids[2]])
            assert made.share.stats(made.end).delayed == 2
            if scan_first:
                made.place_restored()
                assert made.offsets() == []
            made.expire(4.0)
            made.place_restored()
            assert sorted(made.offsets()) == [0, 1, 2]

    def test_exhausted_before_it_is_placed(self):
        made = world(1, 1, 0, ordering="key", attempts=1)
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        made.nack(0, [ids[0], ids[2]])
        assert made.letters == []
        made.place_restored()
        assert made.offsets() == []
        assert [letter.offset for letter in made.letters] == [0, 2]

    def test_an_unplaced_lease_whose_message_cannot_be_read(self):
        made = world(1, 1, ordering="key")
        made.publish(1)
        made.lease(deadline_s=10.0)
        made.damaged = {0}
        made.restart()
        assert not made.share.unplaced
        made.expire(10.0)
        assert made.offsets() == [2]

    def test_exactly_once_ended_before_they_are_placed(self):
        made = world(1, 1, ordering="key")
        ids = made.lease(deadline_s=10.0)
        made.restart(scan=False)
        made.configure(subscription("key"))
        assert made.ack(1, ids[1:]).count == 0
        made.place_restored()
        assert made.ack(1, ids).count == 2
        assert made.unacked == []


def test_a_lease_from_before_the_clock_was_set_back_does_not_last_for_hours():
    made = world(0, 0)
    made.lease(max_messages=1, deadline_s=7_210.0)
    made.share.start(600.0)
    assert made.share.next_deadline() == 600.0
    made.expire(600.0)
    assert made.offsets() == [0, 1]
