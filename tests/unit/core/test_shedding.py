"""Load shedding: which publishes are refused under which pressure."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.core.shedding import check, pressure
from fanlog.errors import LoadShed
from fanlog.model.terms import TermKind, Terms


def terms(*priorities):
    return Terms.of(
        (index, TermKind.PRIORITY, value) for index, value in enumerate(priorities) if value
    )


def is_shed(found, *priorities, shed_at=0.5):
    try:
        check(shed_at, terms(*priorities), found, 0.0)
    except LoadShed:
        return True
    return False


def test_the_pressure_is_of_what_waits_or_of_the_commit():
    assert pressure(limits.WRITER_BACKLOG_BYTES_MAX // 2, 0.0) == 0.5
    assert pressure(0, limits.SHED_COMMIT_S) == 1.0
    assert pressure(limits.WRITER_BACKLOG_BYTES_MAX // 4, limits.SHED_COMMIT_S / 2) == 0.5


@pytest.mark.parametrize(
    ("found", "first_taken"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.57, 2), (0.94, 9), (0.96, 10)]
)
def test_low_priorities_go_first(found, first_taken):
    taken = [priority for priority in range(10) if not is_shed(found, priority)]
    assert taken == list(range(first_taken, 10))


def test_the_highest_of_a_request_counts():
    assert not is_shed(0.7, 0, 5, 1)
    assert is_shed(0.7, 0, 2, 1)


def test_the_answer_says_what_is_taken_and_when_to_come_again():
    with pytest.raises(LoadShed, match="fanlog-priority 3 or more") as refused:
        check(0.5, None, 0.62, 2.0)
    assert refused.value.retry_after_s == 2.0
    with pytest.raises(LoadShed, match="takes no publish now") as refused:
        check(0.5, terms(9), 2.0, 60.0)
    assert refused.value.retry_after_s == limits.SHED_COMMIT_S
    with pytest.raises(LoadShed) as refused:
        check(0.5, None, 0.5, 0.0)
    assert refused.value.retry_after_s == limits.SHED_RETRY_S_MIN
