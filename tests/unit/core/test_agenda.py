"""The agenda of a partition: what is pending, until when, and what is left of it in hard state."""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog.core import records
from fanlog.core.agenda import Agenda, AgendaTable
from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model.resources import PartitionId
from fanlog.model.terms import TermKind, Terms

PARTITION = PartitionId(3)


def delays(*indexes: int) -> Terms:
    found = Terms.of((index, TermKind.DELAY, 1_000 + index) for index in indexes)
    assert found is not None
    return found


def applied(agenda: Agenda, *found: records.AgendaChunk) -> None:
    for record in found:
        value = record.value()
        if value is not None:
            assert records.decode(record.key(), value) == record
        agenda.apply(record)


def scheduled(*indexes: int, base: int = 0) -> Agenda:
    agenda = Agenda(PARTITION)
    applied(agenda, *agenda.add(base, delays(*indexes)))
    agenda.schedule(base, list(delays(*indexes).dues_ms(0)), None)
    return agenda


def test_pending_from_the_commit_that_decides_it():
    agenda = Agenda(PARTITION)
    applied(agenda, *agenda.add(10, delays(0, 2)))
    assert agenda.pending == BitMap64([10, 12])
    # Before the time is known it is not due.
    assert agenda.next_due_ms() is None
    assert agenda.take_due(10**15, 100) == (BitMap64(), BitMap64())


def test_due_in_order_and_not_before():
    agenda = scheduled(2, 0, 1)
    assert agenda.next_due_ms() == 1_000
    assert agenda.take_due(999, 100)[0] == BitMap64()
    assert agenda.take_due(1_001, 1)[0] == BitMap64([0])
    assert agenda.take_due(1_001, 100)[0] == BitMap64([1])
    assert agenda.pending == BitMap64([2])


def test_ordering_keys_are_told_apart():
    agenda = Agenda(PARTITION)
    applied(agenda, *agenda.add(0, delays(0, 1)))
    agenda.schedule(0, list(delays(0, 1).dues_ms(0)), [0, 77])
    assert agenda.take_due(2_000, 100) == (BitMap64([0, 1]), BitMap64([1]))


def test_hard_state_forgets_what_is_due():
    agenda = scheduled(0, 1)
    assert list(agenda.settle()) == []
    agenda.take_due(1_000, 100)
    applied(agenda, *agenda.settle())
    assert list(agenda.settle()) == []
    agenda.take_due(1_001, 100)
    applied(agenda, *agenda.settle())
    assert agenda.is_empty


def test_a_load_keeps_the_times_that_were_known_and_nothing_that_was_lost():
    before = AgendaTable()
    for record in before.add(PARTITION, 0, delays(0, 1)):
        before.apply(record)
    known = before.find(PARTITION)
    assert known is not None
    known.schedule(0, list(delays(0, 1).dues_ms(0)), None)
    known.take_due(1_000, 100)
    stored = before.add(PARTITION, 5, Terms.of([(0, TermKind.PRIORITY, 3)]) or delays(0))
    # A commit that fails: its messages are pending now, and were never stored.
    for record in before.add(PARTITION, 9, delays(0)):
        before.apply(record)
    after = AgendaTable()
    for record in [*Agenda(PARTITION).add(0, delays(0, 1)), *stored]:
        after.apply(record)
    after.adopt(before)
    agenda = after.find(PARTITION)
    assert agenda is not None
    assert agenda.pending == BitMap64([1])
    assert agenda.unread == BitMap64()
    assert agenda.next_due_ms() == 1_001
    assert agenda.urgent == {3: BitMap64([5])}


def test_after_a_start_every_time_is_to_be_read():
    table = AgendaTable()
    for record in table.add(PARTITION, 0, delays(0, 1, 2)):
        table.apply(record)
    table.adopt(AgendaTable())
    agenda = table.find(PARTITION)
    assert agenda is not None
    assert agenda.unread == BitMap64([0, 1, 2])
    agenda.schedule(0, [(0, 1_000)], None)
    assert agenda.unread == BitMap64([1, 2])
    assert agenda.give_up(BitMap64([2])) == (BitMap64([2]), BitMap64())
    assert (agenda.pending, agenda.unread) == (BitMap64([0, 1]), BitMap64([1]))


def test_trims_and_chunks():
    base = CURSOR_CHUNK_OFFSETS - 1
    agenda = scheduled(0, 1, 2, base=base)
    assert len(list(agenda.remove())) == 2
    applied(agenda, *agenda.trim(base + 1))
    assert agenda.pending == BitMap64([base + 1, base + 2])
    applied(agenda, *agenda.trim(base + 2))
    assert agenda.pending == BitMap64([base + 2])
    # What is left in the heap is of no one.
    assert agenda.take_due(10_000, 100)[0] == BitMap64([base + 2])
    applied(agenda, *agenda.trim(base + 100))
    assert agenda.is_empty


def test_priorities_by_the_highest_first():
    agenda = Agenda(PARTITION)
    terms = Terms.of(
        [(0, TermKind.PRIORITY, 1), (1, TermKind.PRIORITY, 9), (2, TermKind.PRIORITY, 1)]
    )
    assert terms is not None
    applied(agenda, *agenda.add(0, terms))
    assert list(agenda.urgent.items()) == [(9, BitMap64([1])), (1, BitMap64([0, 2]))]
    applied(agenda, *agenda.trim(2))
    assert agenda.urgent == {1: BitMap64([2])}
