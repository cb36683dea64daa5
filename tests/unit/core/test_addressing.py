"""What is for one subscription alone: who gets it, who passes it over, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog.core.addressing import NOTHING_ADDRESSED, Addressed, AddressTable
from fanlog.core.cursor import Cursor
from fanlog.core.records import AddressRecord, DamagedRecord, decode
from fanlog.core.share.passed_over import PassedOver
from fanlog.limits import CURSOR_CHUNK_OFFSETS, OFFSET_MAX
from fanlog.model.resources import PartitionId
from unit.core.world import World, subscription

ONE = PartitionId(1)


def others(*offsets: int) -> Addressed:
    return Addressed(others=BitMap64(offsets))


class TestAddresses:
    def test_each_sees_its_own_and_those_of_others(self):
        addresses = AddressTable()
        addresses.apply(addresses.add(ONE, 7, 2, 4))
        addresses.apply(addresses.add(ONE, 8, 6, 7))
        addresses.apply(addresses.add(ONE, 7, 9, 10))
        assert addresses.view(7, ONE) == Addressed(BitMap64([2, 3, 9]), BitMap64([6]))
        assert addresses.view(8, ONE) == Addressed(BitMap64([6]), BitMap64([2, 3, 9]))
        assert addresses.view(9, ONE) == others(2, 3, 6, 9)
        assert addresses.view(7, PartitionId(2)) is NOTHING_ADDRESSED
        # Those who are not meant have one set between them.
        assert addresses.view(9, ONE).others is addresses.view(10, ONE).others

    def test_they_go_with_their_messages(self):
        addresses = AddressTable()
        for addressee, first, end in ((7, 2, 5), (8, 3, 4)):
            addresses.apply(addresses.add(ONE, addressee, first, end))
        for record in list(addresses.trim(ONE, 4)):
            addresses.apply(record)
        assert addresses.view(9, ONE) == others(4)
        assert list(addresses.trim(ONE, 4)) == []
        for record in addresses.remove(ONE):
            addresses.apply(record)
        assert addresses.view(9, ONE) is NOTHING_ADDRESSED

    def test_the_record(self):
        record = AddressRecord(ONE, 7, BitMap64(range(2, 5_000)))
        value = record.value()
        assert value is not None
        assert len(value) < 100
        assert decode(record.key(), value) == record
        assert AddressRecord(ONE, 7, None).value() is None
        with pytest.raises(DamagedRecord, match="nothing that is addressed"):
            decode(record.key(), b"\x01" + BitMap64().serialize())


class TestPassedOver:
    def test_without_a_filter_all_else_is_open(self):
        passed_over = PassedOver(Cursor(3), OFFSET_MAX, others(1, 3, 4, 6))
        assert list(passed_over.unacked_ranges(3, 9)) == [(5, 6), (7, 9)]
        assert passed_over.first_open == 5
        assert passed_over.take() == BitMap64([3, 4, 6])

    def test_what_lies_behind_all_of_it_is_the_first_open_one(self):
        acked = BitMap64(range(2, CURSOR_CHUNK_OFFSETS))
        passed_over = PassedOver(Cursor(0, {0: acked}), OFFSET_MAX, others(0, 1))
        assert passed_over.first_open == CURSOR_CHUNK_OFFSETS

    def test_a_filter_is_not_asked(self):
        addressed = Addressed(BitMap64([2]), BitMap64([1, 7]))
        passed_over = PassedOver(Cursor(), 0, addressed)
        passed_over.route(4, BitMap64([0, 1]))
        assert list(passed_over.unacked_ranges(0, 4)) == [(0, 1), (2, 3)]
        passed_over.route(9, BitMap64([7, 8]))
        assert list(passed_over.unacked_ranges(4, 9)) == [(8, 9)]


@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
class TestShare:
    def test_it_is_handed_out_to_nobody_and_holds_nothing_back(self, ordering):
        world = World(subscription(ordering))
        world.publish(*[5] * 4)
        world.share.address(others(1, 2))
        assert world.share.stats(world.end).backlog == 2
        assert world.share.has_passed
        world.decided(world.share.settle_passed())
        assert not world.share.has_passed
        assert world.share.cursor.floor == 0
        assert world.share.stats(world.end).backlog == 2
        assert list(world.share.open_ranges(0, world.end)) == [(0, 1), (3, 4)]

    def test_it_is_not_reopened(self, ordering):
        world = World(subscription(ordering))
        world.publish(*[5] * 3)
        world.share.address(others(1))
        world.decided(world.share.seek(3, 3, generation=1))
        assert world.share.cursor.floor == 3
        decision = world.share.reopen(0.0, BitMap64([0, 1, 2]), generation=2)
        assert decision.count == 2
        world.decided(decision)
        assert list(world.share.open_ranges(0, world.end)) == [(0, 1), (2, 3)]

    def test_a_filter_that_comes_and_goes_changes_nothing(self, ordering):
        world = World(subscription(ordering))
        world.publish(*[5] * 3)
        world.share.address(others(1))
        plain = world.share.settings
        world.configure(replace(plain, filter="attributes:x"))
        world.share.route(world.end, BitMap64([0, 1, 2]))
        assert list(world.share.open_ranges(0, world.end)) == [(0, 1), (2, 3)]
        world.configure(plain)
        assert list(world.share.open_ranges(0, world.end)) == [(0, 1), (2, 3)]
        assert world.share.stats(world.end).backlog == 2
