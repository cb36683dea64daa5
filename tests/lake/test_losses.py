"""What is lost with a lake that is not what it was, held against sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from fanlog.broker.tiering.losses import count, judge
from fanlog.core.records import ArchivedRecord, LostRecord
from fanlog.lake.api import Content, RowRun
from fanlog.log.api import Bounds, Damaged
from fanlog.model.resources import PartitionId

P = PartitionId(1)
OFFSETS = st.sets(st.integers(0, 40))


def content(offsets: set[int]) -> Content:
    found = Content()
    found.gather({P: [RowRun(P, offset, 1) for offset in offsets]})
    return found


def spread(ranges) -> set[int]:
    return {offset for first, stop in ranges for offset in range(first, stop)}


@given(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted),
    st.integers(0, 40),
    st.integers(0, 40),
    OFFSETS,
    OFFSETS,
    st.booleans(),
)
def test_what_is_lost(archived, hot_start, resumed, there, accepted, is_open):
    start, end = archived
    # The archive never resumes behind what it had, nor in what the hot log does not have.
    resumed = min(end, max(resumed, min(hot_start, end))) if is_open else end
    record = ArchivedRecord(P, start, end, is_open=is_open)
    judged = judge(
        record,
        content(there).runs.get(P, ()),
        hot=Bounds(hot_start, 50),
        resumed=resumed,
        accepted=BitMap64(accepted) if accepted else None,
    )
    wanted = set(range(start, resumed))
    missing = wanted - there - accepted
    lost, leaving = spread(judged.lost), spread(judged.leaving)
    assert count(judged.lost) == len(lost)
    assert lost == {offset for offset in missing if offset < hot_start}
    if wanted & there:
        assert leaving == missing - lost
    else:
        # What is hot of it was never archived, as it were.
        assert leaving == set()
    # What hard state says then: all that is there is served, and all else passed over.
    [made] = [one for one in judged.records if isinstance(one, ArchivedRecord)]
    [given_up] = [one.offsets for one in judged.records if isinstance(one, LostRecord)] or [None]
    assert made.start is not None
    served = set(range(made.start, made.end))
    assert served - set(given_up or ()) == wanted & there
    assert made.is_open == is_open
    if is_open:
        assert made.end == resumed
    assert content(there).covers(P, made.start, made.end, but=given_up)


@given(OFFSETS, OFFSETS, st.integers(0, 42), st.integers(0, 42))
def test_what_is_covered(there, but, start, end):
    wanted = set(range(start, end))
    found = content(there)
    assert found.covers(P, start, end) == (wanted <= there)
    assert found.covers(P, start, end, but=BitMap64(but)) == (wanted <= there | but)


@given(OFFSETS, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=4))
def test_without_what_is_damaged(there, pairs):
    damaged = [Damaged(partition=P, base_offset=at, count=n, reason="") for at, n in pairs]
    left = content(there).without(damaged)
    bad = {offset for at, n in pairs for offset in range(at, at + n)}
    assert spread((run.first, run.end) for run in left.runs.get(P, ())) == there - bad
