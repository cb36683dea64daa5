"""Leases: settling, splitting, deadlines, and the credit they give back."""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.share.lease import Lease, LeasedRun, LeaseTable
from unit.core.world import view

BATCH = view(10, [0] * 5, [1, 2, 4, 8, 16])


def lease(
    generation: int = 1, deadline_s: float = 5.0, credit: Credit | None = None, part: int = 0
) -> Lease:
    runs = (LeasedRun(10, 12, 10, BATCH.starts), LeasedRun(13, 15, 10, BATCH.starts))
    if credit is not None:
        credit.take(4, 27)
    return Lease(generation, part, deadline_s, BitMap64([10, 11, 13, 14]), runs, credit)


def table(*leases: Lease) -> LeaseTable:
    made = LeaseTable()
    for one in leases:
        made.add(one)
    made.changed.clear()
    return made


def parts(made: LeaseTable) -> list[tuple[int, int, float, list[int]]]:
    return [(x.generation, x.part, x.deadline_s, list(x.open)) for x in made]


def test_a_run_knows_its_bytes():
    assert [run.size_bytes for run in lease().runs] == [3, 24]


def test_settling_gives_back_what_the_messages_weigh():
    credit = Credit(max_bytes=100)
    one = lease(credit=credit)
    made = table(one)
    made.settle(one, BitMap64([11, 14]))
    assert (credit.messages, credit.size_bytes) == (2, 27 - 2 - 16)
    assert made.changed == {(1, 0)}
    assert made.outstanding == 2
    made.settle(one, BitMap64([10, 13]))
    assert (credit.messages, credit.size_bytes) == (0, 0)
    assert len(made) == 0
    assert made.part(1, 0) is None


def test_without_a_byte_limit_only_messages_are_given_back():
    credit = Credit(max_messages=9)
    one = lease(credit=credit)
    table(one).settle(one, BitMap64([10]))
    assert (credit.messages, credit.size_bytes) == (3, 0)


def test_a_deadline_for_some_splits_the_lease():
    credit = Credit(max_bytes=100)
    one = lease(credit=credit)
    made = table(one)
    made.extend(one, BitMap64([11]), 20.0)
    made.extend(one, BitMap64([13, 14]), 30.0)
    assert parts(made) == [(1, 0, 5.0, [10]), (1, 1, 20.0, [11]), (1, 2, 30.0, [13, 14])]
    assert made.changed == {(1, 0), (1, 1), (1, 2)}
    # Each part gives back its own.
    made.settle(made.parts(1)[2], BitMap64([14]))
    assert (credit.messages, credit.size_bytes) == (3, 11)


def test_a_deadline_for_all_moves_the_lease():
    one = lease()
    made = table(one)
    made.extend(one, BitMap64([10, 11, 13, 14]), 20.0)
    assert parts(made) == [(1, 0, 20.0, [10, 11, 13, 14])]
    assert made.due(19.0) == []
    assert made.next_deadline() == 20.0
    assert made.due(20.0) == [one]


def test_a_part_number_used_again_is_not_taken_for_the_old_one():
    one = lease()
    made = table(one)
    made.extend(one, BitMap64([11]), 20.0)
    made.settle(made.parts(1)[1], BitMap64([11]))
    made.extend(one, BitMap64([13]), 40.0)
    assert parts(made) == [(1, 0, 5.0, [10, 14]), (1, 1, 40.0, [13])]
    assert [x.part for x in made.due(30.0)] == [0]
    made.settle(one, BitMap64([10, 14]))
    assert made.next_deadline() == 40.0


def test_a_shorter_deadline_counts():
    one = lease(deadline_s=50.0)
    made = table(one)
    made.extend(one, one.open, 7.0)
    assert made.next_deadline() == 7.0
    assert made.due(7.0) == [one]


def test_due_names_each_lease_once():
    one, two = lease(1), lease(2, 6.0)
    made = table(one, two)
    made.extend(one, one.open, 4.0)
    made.extend(one, one.open, 5.0)
    assert made.due(6.0) == [one, two]


def test_nothing_is_due_when_nothing_is_held():
    made = table()
    assert made.next_deadline() is None
    one = lease()
    made.add(one)
    made.settle(one, one.open)
    assert made.next_deadline() is None
    assert made.due(100.0) == []


def test_who_holds_what():
    one = lease()
    two = Lease(2, 0, 9.0, BitMap64([20]), (), None)
    made = table(one, two)
    assert made.holding(BitMap64([11, 12, 20])) == [(one, BitMap64([11])), (two, BitMap64([20]))]
    assert made.matching(1, BitMap64([11, 20])) == [(one, BitMap64([11]))]
    assert made.matching(3, BitMap64([11])) == []
    made.release(BitMap64([10, 20]))
    assert parts(made) == [(1, 0, 5.0, [11, 13, 14])]


def test_clearing_gives_all_credit_back():
    credit = Credit(max_bytes=100)
    made = table(lease(1, credit=credit), lease(2, credit=credit))
    made.clear()
    assert (credit.messages, credit.size_bytes, len(made)) == (0, 0, 0)
    assert made.changed == {(1, 0), (2, 0)}
    assert made.next_deadline() is None


def test_a_part_was_granted_when_the_lease_was():
    one = Lease(1, 0, 5.0, BitMap64([10, 11]), (), None, 3.0)
    made = table(one)
    made.extend(one, BitMap64([11]), 20.0)
    assert [part.granted_s for part in made] == [3.0, 3.0]


def test_releasing_tells_what_was_held():
    made = table(lease())
    assert list(made.release(BitMap64([9, 10, 12, 14]))) == [10, 14]
