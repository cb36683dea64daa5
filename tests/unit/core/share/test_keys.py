"""Ordering keys: lists of waiting messages, their bounds, early acknowledgements, dead letters."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.share.keys import Key, Keys
from unit.core.world import Exhausted, view

ME = Credit()


class Table:
    """The keys of a share, by their hash."""

    def __init__(self, *exhausted: int) -> None:
        self.keys = Keys(Exhausted(*exhausted))

    def key(self, number: int) -> Key:
        return self.keys.by_hash.setdefault(number, Key())

    def hand_out(self, number: int, *offsets: int) -> Key:
        for offset in offsets:
            self.keys.hand_out(number, self.key(number), offset, ME)
        return self.key(number)

    def let_wait(self, number: int, *offsets: int) -> Key:
        for offset in offsets:
            self.keys.let_wait(number, self.key(number), offset)
        return self.key(number)


class TestAcknowledge:
    def test_in_order_each_is_hard(self):
        table = Table()
        table.hand_out(7, 0, 3, 4)
        assert table.keys.acknowledge([0]) == BitMap64([0])
        assert table.keys.acknowledge([3]) == BitMap64([3])
        assert table.keys.acknowledge([4]) == BitMap64([4])
        assert not table.keys.by_hash
        assert not table.keys.hash_of

    def test_ahead_of_an_earlier_one_it_waits_for_that(self):
        table = Table()
        table.hand_out(7, 0, 3, 4)
        assert table.keys.acknowledge([4]) == BitMap64()
        assert table.keys.acknowledge([3]) == BitMap64()
        assert table.keys.acknowledge([0]) == BitMap64([0, 3, 4])

    def test_keys_do_not_wait_for_each_other(self):
        table = Table()
        table.hand_out(7, 0, 2)
        table.hand_out(8, 1, 3)
        assert table.keys.acknowledge([1, 2]) == BitMap64([1])
        assert set(table.keys.by_hash) == {7, 8}

    def test_without_a_key_at_once(self):
        assert Table().keys.acknowledge([5]) == BitMap64([5])

    def test_early_ones_are_told_apart(self):
        table = Table()
        table.hand_out(7, 0, 2, 4)
        table.hand_out(8, 1)
        assert table.keys.early(BitMap64([0, 1, 2])) == BitMap64()
        assert table.keys.early(BitMap64([1, 2, 4])) == BitMap64([2, 4])
        assert table.keys.early(BitMap64([0, 4, 9])) == BitMap64([4])

    def test_an_early_acknowledgement_holds_up_no_later_one(self):
        table = Table()
        table.hand_out(7, 0, 2, 4)
        table.keys.acknowledge([2])
        assert table.keys.early(BitMap64([0, 4])) == BitMap64()
        assert table.keys.early(BitMap64([4])) == BitMap64([4])


class TestTakeBack:
    def test_the_later_ones_come_back_in_front_of_those_that_wait(self):
        table = Table()
        key = table.hand_out(7, 0, 1, 2)
        table.let_wait(7, 5)
        assert table.keys.take_back(key, 1, 9) == BitMap64([1, 2])
        assert list(key.waiting) == [1, 2, 5]
        assert list(key.outstanding) == [0]
        assert table.keys.waiting_count == 3

    def test_early_acknowledgements_are_void(self):
        table = Table()
        key = table.hand_out(7, 0, 1, 2)
        table.keys.acknowledge([2])
        table.keys.take_back(key, 0, 9)
        assert not key.acked
        assert list(key.waiting) == [0, 1, 2]

    def test_among_those_that_were_reopened_they_are_sorted(self):
        table = Table()
        key = table.hand_out(7, 1, 4)
        table.let_wait(7, 0, 2)
        table.keys.take_back(key, 1, 9)
        assert list(key.waiting) == [0, 1, 2, 4]

    def test_those_ahead_of_the_backlog_are_met_again(self):
        table = Table()
        key = table.hand_out(7, 1, 4, 6)
        assert table.keys.take_back(key, 1, 5) == BitMap64([1, 4, 6])
        assert list(key.waiting) == [1, 4]

    def test_those_behind_an_overflow_are_found_by_the_scan(self):
        table = Table()
        key = table.hand_out(7, 1, 4, 6)
        key.rescan_from = 5
        table.keys.take_back(key, 1, 9)
        assert list(key.waiting) == [1, 4]
        assert table.keys.waiting_count == 2


class TestBounds:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(limits, "KEY_WAITING_MAX", 3)
        monkeypatch.setattr(limits, "WAITING_MAX", 5)

    def test_a_key_remembers_so_many_and_from_where_on_it_does_not(self):
        table = Table()
        key = table.let_wait(7, 0, 1, 2, 3, 4)
        assert list(key.waiting) == [0, 1, 2]
        assert key.rescan_from == 3
        assert key.has_waiting

    def test_all_keys_together_remember_so_many(self):
        table = Table()
        table.let_wait(7, 0, 1, 2)
        second = table.let_wait(8, 3, 4, 5)
        assert list(second.waiting) == [3, 4]
        assert second.rescan_from == 5
        third = table.let_wait(9, 6)
        assert (list(third.waiting), third.rescan_from) == ([], 6)

    def test_a_scan_finds_messages_of_the_key_alone(self):
        table = Table()
        key = table.key(7)
        key.rescan_from = 2
        batches = [view(0, [7, 8, 7, 8]), view(4, [7, 7, 8, 7])]
        assert table.keys.rescan(7, key, Cursor(), batches, 8) == 2
        assert list(key.waiting) == [2, 4, 5]
        assert key.rescan_from == 7

    def test_a_scan_leaves_out_acknowledged_and_outstanding_messages(self):
        table = Table()
        key = table.hand_out(7, 1)
        key.rescan_from = 0
        cursor = Cursor(0, {0: BitMap64([2])})
        table.keys.rescan(7, key, cursor, [view(0, [7, 7, 7, 7])], 4)
        assert list(key.waiting) == [0, 3]
        assert key.rescan_from is None

    def test_a_scan_begins_at_the_floor_and_ends_where_the_backlog_is(self):
        table = Table()
        key = table.key(7)
        key.rescan_from = 0
        table.keys.rescan(7, key, Cursor(2), [view(0, [7] * 6)], 4)
        assert list(key.waiting) == [2, 3]
        assert key.rescan_from is None

    def test_a_full_share_lets_a_scan_remember_one(self):
        table = Table()
        table.let_wait(8, 0, 1, 2)
        table.let_wait(9, 3, 4)
        key = table.key(7)
        key.rescan_from = 5
        assert table.keys.rescan(7, key, Cursor(), [view(5, [7, 7])], 7) == 1
        assert list(key.waiting) == [5]
        assert key.rescan_from == 6

    def test_batches_elsewhere_are_not_scanned(self):
        table = Table()
        key = table.key(7)
        key.rescan_from = 4
        assert table.keys.rescan(7, key, Cursor(), [view(0, [7] * 4), view(8, [7] * 4)], 9) == 0
        assert key.rescan_from == 4

    def test_batches_without_keys_have_nothing_of_it(self):
        table = Table()
        key = table.key(7)
        key.rescan_from = 0
        assert table.keys.rescan(7, key, Cursor(), [view(0, [0] * 4)], 4) == 1
        assert not key.has_waiting


class TestThinOut:
    def test_messages_that_are_gone_no_longer_wait(self):
        table = Table()
        table.let_wait(7, 0, 2, 4)
        table.let_wait(8, 1)
        assert table.keys.thin_out(lambda offset: offset > 1) == 0
        assert list(table.key(7).waiting) == [2, 4]
        assert set(table.keys.queued) == {7}
        assert table.keys.waiting_count == 2

    def test_places_to_scan_from_are_moved_and_counted(self):
        table = Table()
        for number, place in ((7, 3), (8, 9), (9, 5)):
            key = table.let_wait(number, number)
            key.rescan_from = place
        moved = table.keys.thin_out(lambda _: True, lambda scan: max(scan, 6))
        assert moved == 2
        assert [table.key(number).rescan_from for number in (7, 8, 9)] == [6, 9, 6]

    def test_a_place_that_is_gone_ends_the_scan(self):
        table = Table()
        key = table.let_wait(7, 1)
        key.rescan_from = 3
        table.keys.thin_out(lambda offset: offset > 1, lambda scan: None)
        assert not table.keys.queued
        assert not table.keys.by_hash

    def test_back_offs_of_messages_that_are_gone_are_forgotten(self):
        table = Table()
        table.keys.blocked.update({1: 7, 5: 0})
        table.keys.unblock(lambda offset: offset > 3)
        assert table.keys.blocked == {5: 0}


class TestSettle:
    def test_an_idle_key_is_forgotten(self):
        table = Table()
        key = table.let_wait(7, 0)
        table.keys.pop_waiting(key)
        table.keys.settle(7, key)
        assert not table.keys.by_hash
        assert not table.keys.queued
        assert table.keys.waiting_count == 0

    def test_a_key_without_outstanding_messages_is_free_for_all(self):
        table = Table()
        key = table.hand_out(7, 0)
        table.let_wait(7, 1)
        assert key.owner is ME
        table.keys.acknowledge([0])
        assert key.owner is None
        assert table.keys.queued == {7: key}

    def test_the_first_message_is_forwarded_if_it_is_exhausted(self):
        table = Table(1, 2)
        table.hand_out(7, 0)
        key = table.let_wait(7, 1, 2)
        table.keys.settle(7, key)
        assert table.keys.to_forward == []
        table.keys.acknowledge([0])
        assert table.keys.to_forward == [1]
        assert list(key.outstanding) == [1]
        table.keys.acknowledge([1])
        assert table.keys.to_forward == [1, 2]

    def test_not_while_it_waits_for_its_back_off(self):
        table = Table(1)
        key = table.let_wait(7, 1)
        table.keys.blocked[1] = 7
        table.keys.settle(7, key)
        assert table.keys.to_forward == []
        del table.keys.blocked[1]
        table.keys.settle(7, key)
        assert table.keys.to_forward == [1]
