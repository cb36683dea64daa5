"""Messages that an archive has lost, and those that are left: rules, without any I/O.

A partition's archived messages are one run of offsets, some of which may be lost and accepted as
such. When a lake has changed, its messages are compared with those that it should have: offsets
that are in neither tier are lost. Those that the hot log still has are archived anew, unless the
lake's own table says that it has them already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.cursor import runs as runs_of
from fanlog.core.records import ArchivedRecord, LostRecord
from fanlog.lake.api import RowRun
from fanlog.log.api import Bounds
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class Judged:
    """The records and the losses of one partition."""

    records: Sequence[ArchivedRecord | LostRecord]
    #: Offsets that are nowhere, in order.
    lost: Sequence[tuple[Offset, Offset]]
    #: Offsets that the lake does not have, and the hot log for as long as it keeps them.
    leaving: Sequence[tuple[Offset, Offset]]
    #: First offset there is.
    start: Offset


def judge(
    record: ArchivedRecord,
    runs: Sequence[RowRun],
    *,
    hot: Bounds,
    resumed: Offset,
    accepted: BitMap64 | None,
) -> Judged:
    """Find the messages of a partition that are lost.

    Args:
        record: The offsets that the lake should have.
        runs: Those that it has, in order, joined where they meet.
        hot: Those that the hot log has.
        resumed: From where on the archive takes messages again.
        accepted: Offsets that were lost before, and accepted as such.
    """
    assert record.start is not None
    end = min(record.end, resumed)
    there = [
        (max(run.first, record.start), min(run.end, end))
        for run in runs
        if max(run.first, record.start) < min(run.end, end)
    ]
    if not there:
        # Its hot messages are as if never archived: they stay for as long as they are needed.
        made = ArchivedRecord(record.partition, end, end, is_open=record.is_open)
        if not record.is_open:
            made = ArchivedRecord(record.partition, 0, 0, is_open=False)
        gone = _less([(record.start, min(end, hot.start))], accepted)
        forgotten = [] if accepted is None else [LostRecord(record.partition, None)]
        return Judged([made, *forgotten], gone, [], hot.start)
    start = there[0][0]
    holes = _holes(there, end)
    lost = BitMap64()
    for first, stop in holes:
        lost.add_range(first, stop)
    made = ArchivedRecord(record.partition, start, end, is_open=record.is_open)
    records: list[ArchivedRecord | LostRecord] = [made]
    if lost or accepted is not None:
        records.append(LostRecord(record.partition, lost or None))
    missing = _less([(record.start, start), *holes], accepted)
    gone = [(first, min(stop, hot.start)) for first, stop in missing if first < hot.start]
    leaving = [(max(first, hot.start), stop) for first, stop in missing if stop > hot.start]
    return Judged(records, gone, leaving, min(start, hot.start))


def count(ranges: Sequence[tuple[Offset, Offset]]) -> int:
    return sum(stop - first for first, stop in ranges)


def _holes(there: Sequence[tuple[Offset, Offset]], end: Offset) -> list[tuple[Offset, Offset]]:
    found: list[tuple[Offset, Offset]] = []
    at = there[0][0]
    for first, stop in there:
        if first > at:
            found.append((at, first))
        at = max(at, stop)
    if at < end:
        found.append((at, end))
    return found


def _less(
    ranges: Sequence[tuple[Offset, Offset]], accepted: BitMap64 | None
) -> list[tuple[Offset, Offset]]:
    """The offsets of some ranges that were not accepted as lost."""
    found = [(first, stop) for first, stop in ranges if first < stop]
    if not accepted:
        return found
    left = BitMap64()
    for first, stop in found:
        left.add_range(first, stop)
    left -= accepted
    return list(runs_of(left))
