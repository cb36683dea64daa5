"""The partition of a message: one choice for all, the same every time."""

from __future__ import annotations

import pytest

from fanlog.core.partitioning import allot, choose
from fanlog.model.resources import PartitionId

THREE = tuple(map(PartitionId, (11, 12, 13)))


def test_one_partition_takes_everything():
    [only] = one = (PartitionId(7),)
    assert choose(one) == choose(one, key_hash=5, dedup_id="d", publisher="p") == only


@pytest.mark.parametrize(
    ("message", "chosen"),
    [
        ({"key_hash": 3}, 11),
        ({"key_hash": 4}, 12),
        ({"key_hash": 4, "dedup_id": "a", "publisher": "p"}, 12),
        ({"dedup_id": "a"}, 13),
        ({"dedup_id": "a", "publisher": "p"}, 13),
        ({"publisher": "p"}, 12),
        ({}, 11),
    ],
)
def test_the_choice_never_changes(message, chosen):
    """Stored messages are where an earlier build put them."""
    assert choose(THREE, **message) == chosen


def test_ids_spread_over_all_partitions():
    chosen = [choose(THREE, dedup_id=str(number)) for number in range(300)]
    assert {chosen.count(one) > 60 for one in THREE} == {True}


def test_messages_of_a_request_are_allotted_in_their_order():
    found = allot(THREE, 5, key_hashes=[3, 4, 6, 0, 4], dedup_ids=["", "", "", "a", "b"])
    assert found == {11: [0, 2], 12: [1, 4], 13: [3]}
    together = allot(THREE, 3, publisher="p")
    assert together == {choose(THREE, publisher="p"): [0, 1, 2]}
