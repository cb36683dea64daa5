"""Credit and budgets, to the byte."""

from __future__ import annotations

import pytest

from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.share.packer import Packer
from unit.core.world import view


def packed(budget: LeaseBudget, sizes: list[int]) -> list[int]:
    packer, batch = Packer(budget, Credit()), view(100, [0] * len(sizes), sizes)
    reached = packer.add(batch, 100, batch.end_offset)
    assert reached - 100 == packer.count
    assert packer.size_bytes == sum(sizes[: packer.count])
    return [o for run in packer.runs for o in range(run.start - 100, run.end - 100)]


def test_without_limits_the_answer_is_the_bound():
    credit = Credit()
    credit.take(10_000, 1_000_000)
    assert credit.has_room
    assert credit.budget(5, 70) == LeaseBudget(5, 70, at_least_one=True)
    assert credit.size_bytes == 0, "nobody asks, so nobody counts"


def test_messages_are_counted_exactly():
    credit = Credit(max_messages=3)
    assert credit.has_room
    assert credit.budget(10, 100).messages == 3
    credit.take(2, 20)
    assert credit.budget(10, 100).messages == 1
    assert credit.has_room
    credit.take(1, 10)
    assert credit.budget(10, 100).messages == 0
    assert not credit.has_room
    credit.give(2, 0)
    assert credit.budget(10, 100).messages == 2


def test_bytes_are_counted_exactly():
    credit = Credit(max_bytes=100)
    credit.take(1, 60)
    assert credit.budget(10, 1_000) == LeaseBudget(10, 40, at_least_one=False, first_bytes=40)
    credit.take(1, 40)
    assert not credit.has_room
    assert credit.budget(10, 1_000).size_bytes == 0
    credit.give(1, 60)
    assert (credit.messages, credit.size_bytes) == (1, 40)


def test_a_message_larger_than_the_window_goes_out_alone():
    credit = Credit(max_bytes=100)
    assert packed(credit.budget(10, 1_000), [150, 1]) == [0]
    credit.take(1, 150)
    assert not credit.has_room
    assert packed(credit.budget(10, 1_000), [1]) == []


def test_a_message_larger_than_the_answer_still_needs_room_in_the_window():
    credit = Credit(max_bytes=100)
    credit.take(1, 50)
    # The answer's own bound is as large as the room left, or smaller.
    assert packed(credit.budget(10, 50), [80]) == []
    assert packed(credit.budget(10, 20), [51]) == []
    assert packed(credit.budget(10, 20), [50, 1]) == [0]


def test_whether_anything_was_ever_given_back():
    credit = Credit()
    credit.take(2, 10)
    assert not credit.has_returned
    credit.give(1, 0)
    assert credit.has_returned


def test_more_cannot_be_given_back_than_was_taken():
    credit = Credit(max_bytes=10)
    credit.take(1, 5)
    with pytest.raises(AssertionError):
        credit.give(2, 5)
    with pytest.raises(AssertionError):
        Credit().give(0, 1)


def test_an_answer_is_filled_to_the_byte():
    assert packed(LeaseBudget(10, 30), [10, 10, 10, 1]) == [0, 1, 2]
    assert packed(LeaseBudget(10, 29), [10, 10, 10, 1]) == [0, 1]
    assert packed(LeaseBudget(2, 1_000), [10, 10, 10]) == [0, 1]
    assert packed(LeaseBudget(0, 1_000), [10]) == []
    assert packed(LeaseBudget(5, 9), [10, 1]) == [0]
    assert packed(LeaseBudget(5, 9, at_least_one=False), [10, 1]) == []


def test_runs_that_touch_are_one():
    packer, batch, other = (
        Packer(LeaseBudget(10, 1_000), Credit()),
        view(0, [0] * 6),
        view(6, [0] * 2),
    )
    assert packer.add(batch, 0, 2) == 2
    assert packer.add(batch, 2, 4) == 4
    assert packer.add(batch, 5, 6) == 6
    assert packer.add(other, 6, 8) == 8
    assert [(run.start, run.end, run.base) for run in packer.runs] == [
        (0, 4, 0),
        (5, 6, 0),
        (6, 8, 6),
    ]
    assert (packer.count, packer.size_bytes) == (7, 70)
    assert not packer.is_full


def test_after_a_large_first_message_nothing_more_fits():
    packer, batch = Packer(LeaseBudget(10, 5), Credit()), view(0, [0] * 3)
    assert packer.add(batch, 0, 3) == 1
    assert packer.add(batch, 1, 3) == 1
