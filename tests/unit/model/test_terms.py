"""Terms: cut, joined, and as bytes of a batch."""

from __future__ import annotations

import pytest

from fanlog.log import term_table
from fanlog.model.terms import TermKind, Terms, joined

FOUND = [
    (0, TermKind.DELAY, 5),
    (2, TermKind.DELIVER_AT, 7_000),
    (2, TermKind.PRIORITY, 9),
    (5, TermKind.TTL, 2**64 - 1),
    (5, TermKind.DELAY, 6),
]


def terms(*found: tuple[int, TermKind, int]) -> Terms:
    made = Terms.of(found)
    assert made is not None
    return made


ALL = terms(*FOUND)


def test_none_for_nothing():
    assert Terms.of([]) is None
    assert ALL.part(3, 5) is None
    assert ALL.only([1, 3]) is None
    assert joined([(0, None), (4, None)]) is None


def test_times():
    assert terms((0, TermKind.TTL, 1), (1, TermKind.PRIORITY, 1)).is_timed is False
    # Whole milliseconds, rounded up: never early.
    assert sorted(ALL.dues_ms(1_000_001)) == [(0, 7), (2, 7_000), (5, 8)]


def test_a_part_counts_from_its_first():
    assert ALL.part(0, 6) == ALL
    assert ALL.part(1, 3) == terms((1, TermKind.DELIVER_AT, 7_000), (1, TermKind.PRIORITY, 9))
    assert ALL.part(5, 6) == terms((0, TermKind.DELAY, 6), (0, TermKind.TTL, 2**64 - 1))


def test_only_some():
    assert ALL.only([0, 1, 5]) == terms(
        (0, TermKind.DELAY, 5), (2, TermKind.DELAY, 6), (2, TermKind.TTL, 2**64 - 1)
    )


def test_parts_joined_are_the_whole():
    assert joined([(0, ALL.part(0, 1)), (1, ALL.part(1, 3)), (3, ALL.part(3, 6))]) == ALL


def test_as_bytes_and_back():
    value = term_table.encode(ALL)
    assert len(value) <= term_table.bytes_max(ALL)
    assert term_table.decode(memoryview(b"xx" + value), 2, 6) == (ALL, 2 + len(value))


@pytest.mark.parametrize("length", range(len(term_table.encode(ALL))))
def test_every_truncation_is_noticed(length):
    with pytest.raises(ValueError, match="terms"):
        term_table.decode(memoryview(term_table.encode(ALL)[:length]), 0, 6)


@pytest.mark.parametrize(
    ("position", "byte", "says"),
    [
        (0, 0, "they are of no kind|pass their end|has none"),
        (4, 9, "a kind that this build does not know: 9"),
        (4, 3, "out of order"),
        (9, 255, "that it does not have"),
    ],
)
def test_what_encode_never_writes(position, byte, says):
    value = bytearray(term_table.encode(ALL))
    value[position] = byte
    with pytest.raises(ValueError, match=says):
        term_table.decode(memoryview(bytes(value)), 0, 6)


def test_of_messages_that_are_not_there():
    with pytest.raises(ValueError, match="that it does not have"):
        term_table.decode(memoryview(term_table.encode(ALL)), 0, 5)
