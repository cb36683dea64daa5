"""Where messages stand that were held back behind a gap."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.places import Places
from fanlog.model.resources import PartitionId

PARTITION = PartitionId(1)


@pytest.fixture
def places():
    """Offsets 1 and 2 stand behind 4, 6 behind 8; 9 is held."""
    found = Places()
    for anchor, offsets in ((8, [6]), (4, [2, 1])):
        assert found.apply(found.place(PARTITION, anchor, offsets)) == offsets
    found.hold(BitMap64([9]))
    return found


def test_none():
    places = Places()
    assert not places
    assert places.until(3, 10) == 10
    assert places.next_anchor(0) is None
    assert places.reach(5) == 5
    assert places.rank(7) == (7, -1)
    assert places.away(0) == BitMap64()


def test_along_the_log(places):
    assert places.absent == BitMap64([1, 2, 6, 9])
    assert [places.until(start, 10) for start in (0, 4, 5, 8, 9)] == [5, 5, 9, 9, 10]
    assert places.until(0, 3) == 3
    assert list(places.behind(0, 10)) == [2, 1, 6]
    assert list(places.behind(4, 5)) == [2, 1]
    assert list(places.behind(5, 8)) == []


def test_what_is_not_met_yet(places):
    assert places.away(4) == BitMap64([1, 2, 6, 9])
    assert places.away(5) == BitMap64([6, 9])
    assert places.away(9) == BitMap64([9])


def test_who_goes_back_goes_far_enough_for_what_stands_behind(places):
    """From 7 on there is 6, behind 8; from there nothing earlier."""
    assert places.reach(7) == 6
    assert places.reach(3) == 1
    assert places.reach(9) == 9


def test_places_order_the_log(places):
    assert sorted(range(10), key=places.rank) == [0, 3, 4, 2, 1, 5, 7, 8, 6, 9]


def test_more_behind_the_same_anchor(places):
    assert places.apply(places.place(PARTITION, 8, [9])) == [9]
    places.hold(BitMap64())
    assert list(places.behind(5, 9)) == [6, 9]
    assert places.absent == BitMap64([1, 2, 6, 9])


def test_trimmed_and_removed(places):
    for record in list(places.trim(PARTITION, 8)):
        places.apply(record)
    assert places.absent == BitMap64([6, 9])
    for record in list(places.remove(PARTITION)):
        places.apply(record)
    places.hold(BitMap64())
    assert not places
