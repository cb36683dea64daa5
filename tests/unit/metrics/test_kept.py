"""Which resources have metrics of their own, where there are too many."""

from __future__ import annotations

from fanlog.server.metrics.kept import CHOICE_S, Kept


def chosen(kept: Kept[int], counts: dict[int, int], now: float, **sizes: int) -> list[int]:
    assert kept.is_bounded(len(counts))
    if kept.is_due(now):
        kept.choose(now, counts, {int(name[1:]): size for name, size in sizes.items()})
    return sorted(kept.members(counts))


def test_up_to_the_bound_all_are_kept():
    kept: Kept[int] = Kept(3)
    assert not kept.is_bounded(3)
    assert list(kept.members([1, 2, 3])) == [1, 2, 3]
    assert kept.cut == 0


def test_the_most_active_are_kept_and_of_equals_the_oldest():
    kept: Kept[int] = Kept(2)
    assert chosen(kept, {1: 0, 2: 0, 3: 0, 4: 9}, now=0) == [1, 4]
    assert kept.cut == 2


def test_the_largest_are_kept_although_nothing_moves():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 50, 2: 0}, now=0, _2=20_000) == [2]


def test_one_that_is_kept_goes_only_for_one_that_is_twice_as_active():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 100, 2: 90}, now=0) == [1]
    # What was before counts a tenth less each time: twice 171 against 334, then twice 154 and 601.
    assert chosen(kept, {1: 200, 2: 180}, now=CHOICE_S) == [1]
    assert chosen(kept, {1: 200, 2: 360}, now=2 * CHOICE_S) == [1]
    assert chosen(kept, {1: 200, 2: 660}, now=3 * CHOICE_S) == [2]
    assert chosen(kept, {1: 500, 2: 660}, now=4 * CHOICE_S) == [2]


def test_activity_is_forgotten():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 1_000_000, 2: 0}, now=0) == [1]
    counts = {1: 1_000_000, 2: 0}
    for minute in range(1, 200):
        counts[2] += 1
        found = chosen(kept, counts, now=minute * CHOICE_S)
    assert found == [2]


def test_a_choice_is_good_for_a_while():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 1, 2: 0}, now=0) == [1]
    assert chosen(kept, {1: 1, 2: 99}, now=CHOICE_S - 1) == [1]
    assert chosen(kept, {1: 1, 2: 99}, now=CHOICE_S) == [2]


def test_one_that_is_gone_is_no_member():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 1, 2: 0}, now=0) == [1]
    assert chosen(kept, {2: 0, 3: 0}, now=1) == []


def test_below_the_bound_again_everything_is_forgotten():
    kept: Kept[int] = Kept(1)
    assert chosen(kept, {1: 1, 2: 0}, now=0) == [1]
    assert not kept.is_bounded(1)
    assert chosen(kept, {1: 1, 2: 5}, now=1) == [2]
