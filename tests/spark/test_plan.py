"""Spans, tiers and portions: plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.errors import InvalidArgument
from fanlog.spark.options import EARLIEST
from fanlog.spark.plan import PartitionExtent, Span, divide, resolve, spans_between, split_tiers

A, B = "projects/p/topics/a", "projects/p/topics/b"
PARTS = [
    PartitionExtent(A, 4, 10, 20, 50),
    PartitionExtent(A, 1, 0, 0, 5),
    PartitionExtent(B, 9, 0, 0, 0),
]


def resolved(position):
    return resolve(position, PARTS, default=EARLIEST, option="startingOffsets")


def test_positions():
    assert resolved("earliest") == {4: 10, 1: 0, 9: 0}
    assert resolved("latest") == {4: 50, 1: 5, 9: 0}
    # The number of the partition comes first, then its index among those of the topic.
    assert resolved({A: {4: 33}}) == {4: 33, 1: 0, 9: 0}
    assert resolved({A: {1: 3}}) == {4: 10, 1: 3, 9: 0}
    assert resolved({A: {0: 3}}) == {4: 10, 1: 3, 9: 0}
    assert resolved({A: {None: -1}}) == {4: 50, 1: 5, 9: 0}


@pytest.mark.parametrize(
    ("position", "said"),
    [({"projects/p/topics/c": {0: 1}}, "not one of the topics"), ({B: {3: 1}}, "no partition 3")],
)
def test_positions_of_what_is_not_read(position, said):
    with pytest.raises(InvalidArgument, match=said):
        resolved(position)


def test_what_is_lost_is_named():
    spans, lost = spans_between(PARTS, {4: 5, 1: 2, 9: 0}, {4: 60, 1: 2, 9: 0})
    assert spans == [Span(A, 4, 10, 50)]
    assert lost is not None
    assert lost.spans == (Span(A, 4, 5, 10), Span(A, 4, 50, 60))
    assert str(lost) == f"{A} partition 4 offsets 5 to 9; {A} partition 4 offsets 50 to 59"
    assert spans_between(PARTS, {4: 60, 1: 0, 9: 0}, {4: 50, 1: 0, 9: 0}) == ([], None)


def test_the_seam_is_the_hot_start():
    hot, cold = split_tiers([Span(A, 4, 12, 30), Span(A, 1, 0, 5)], PARTS)
    assert (hot, cold) == ([Span(A, 4, 20, 30), Span(A, 1, 0, 5)], [Span(A, 4, 12, 20)])
    assert split_tiers([Span(A, 4, 12, 15)], PARTS) == ([], [Span(A, 4, 12, 15)])
    assert split_tiers([Span(A, 4, 25, 30)], PARTS) == ([Span(A, 4, 25, 30)], [])


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 9), st.integers(1, 30))
def test_every_offset_is_in_one_portion(counts, tasks_min, task_rows):
    spans = [Span(A, number, 5, 5 + count) for number, count in enumerate(counts)]
    portions = divide(spans, tasks_min=tasks_min, task_rows=task_rows)
    found = [
        (span.partition, offset)
        for portion in portions
        for span in portion
        for offset in range(span.start, span.end)
    ]
    assert found == [(number, 5 + n) for number, count in enumerate(counts) for n in range(count)]
    total = sum(counts)
    assert len(portions) >= min(tasks_min, total) // 2
    assert all(sum(span.count for span in portion) <= task_rows for portion in portions)
