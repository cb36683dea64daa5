"""What is believed of a partition: as much as the lake has, and no offset more."""

from __future__ import annotations

from typing import Any

import pytest

from fanlog.broker.tiering.belief import LakeMismatch, archived_now, close
from fanlog.core.records import ArchivedRecord
from fanlog.lake.api import Content, RowRun
from fanlog.log.api import Bounds
from fanlog.model.attributes import LABEL_ARCHIVE
from fanlog.model.resources import PartitionId, Topic, TopicId

P = PartitionId(7)
KEPT_OUT = {LABEL_ARCHIVE: "off"}


def archived(start: int, end: int, *, is_open: bool = True) -> ArchivedRecord:
    return ArchivedRecord(P, start, end, is_open=is_open)


def now(
    before: ArchivedRecord | None,
    appended: tuple[int, int],
    *runs: tuple[int, int],
    hot_start: int = 0,
    labels: Any = None,
) -> ArchivedRecord | None:
    topic = Topic(
        id=TopicId(1), name="projects/p/topics/orders", partitions=(P,), labels=labels or {}
    )
    content = Content(runs={P: [RowRun(P, first, end - first) for first, end in runs]})
    return archived_now(P, topic, before, Bounds(*appended), content, hot_start=hot_start)


@pytest.mark.parametrize(
    ("before", "appended", "runs", "after"),
    [
        # The first report begins where the hot log does.
        (None, (0, 10), [(0, 10)], archived(0, 10)),
        (None, (5, 10), [(0, 10)], archived(5, 10)),
        (archived(0, 10), (10, 20), [(10, 20)], archived(0, 20)),
        (archived(3, 10), (10, 20), [(10, 15), (15, 20)], archived(3, 20)),
        # Retention has emptied it.
        (archived(10, 10), (10, 12), [(10, 12)], archived(10, 12)),
    ],
)
def test_what_the_lake_has(before, appended, runs, after):
    assert now(before, appended, *runs) == after


@pytest.mark.parametrize(
    ("before", "appended", "runs", "says"),
    [
        (None, (0, 10), [], "which has none of them"),
        (None, (0, 10), [(0, 9)], "which has 0 to 9"),
        (None, (0, 10), [(0, 4), (5, 10)], "0 to 4, 5 to 10"),
        (archived(0, 8), (10, 20), [(10, 20)], "archived up to 8, and goes on at 10"),
        (archived(0, 12), (10, 20), [(10, 20)], "archived up to 12, and goes on at 10"),
    ],
)
def test_what_it_should_have_and_has_not(before, appended, runs, says):
    with pytest.raises(LakeMismatch, match=says):
        now(before, appended, *runs)


class TestATopicThatIsKeptOut:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (None, archived(0, 0, is_open=False)),
            (archived(2, 10), archived(2, 10, is_open=False)),
            (archived(2, 10, is_open=False), None),
        ],
    )
    def test_it_is_closed_once(self, before, after):
        assert close(P, before) == after
        # Whatever the lake has of it.
        assert now(before, (10, 20), labels=KEPT_OUT) == after

    @pytest.mark.parametrize(
        ("before", "runs", "hot_start", "after"),
        [
            # Nothing of it yet, or not up to its end.
            (archived(0, 0, is_open=False), [], 0, None),
            (archived(0, 0, is_open=False), [(12, 19)], 0, None),
            # What was published while it was out is not in the lake: its part begins behind that.
            (archived(0, 0, is_open=False), [(12, 20)], 0, archived(12, 20)),
            (archived(0, 5, is_open=False), [(12, 20)], 0, archived(12, 20)),
            # Unless that is what somebody reads the lake for.
            (archived(0, 5, is_open=False), [(12, 20)], 3, None),
            # It was out for so short a time that nothing is missing.
            (archived(0, 12, is_open=False), [(12, 20)], 3, archived(0, 20)),
        ],
    )
    def test_it_is_taken_up_again(self, before, runs, hot_start, after):
        assert now(before, (10, 20), *runs, hot_start=hot_start) == after
