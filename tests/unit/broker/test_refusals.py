"""Refused publishes are counted by reason, and remembered until they would be taken."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.broker.refusals import Refusals
from fanlog.errors import DiskFull, HotLogFull, WriterBacklogFull


class Room:
    """Takes so many bytes, and refuses the rest for a reason."""

    def __init__(self, size_bytes, reason=DiskFull):
        self.size_bytes = size_bytes
        self.reason = reason

    def check(self, size_bytes):
        if size_bytes > self.size_bytes:
            raise self.reason(f"{size_bytes} bytes are too many")


def test_nothing_is_wrong_while_there_is_room():
    refusals = Refusals(Room(10).check)
    refusals.check(10)
    assert refusals.degraded() == ""
    reasons = ("disk_full", "hot_log_full", "writer_backlog_full", "load_shed")
    assert refusals.counts == dict.fromkeys(reasons, 0)


@pytest.mark.parametrize("reason", [DiskFull, HotLogFull, WriterBacklogFull])
def test_refusals_are_counted_by_reason(reason):
    refusals = Refusals(Room(10, reason).check)
    for _ in range(2):
        with pytest.raises(reason):
            refusals.check(11)
    assert {name: n for name, n in refusals.counts.items() if n} == {reason.code.lower(): 2}


def test_it_is_degraded_until_what_was_refused_would_be_taken(caplog):
    caplog.set_level("INFO", "fanlog.broker")
    room = Room(10)
    refusals = Refusals(room.check)
    with pytest.raises(DiskFull):
        refusals.check(20)
    assert refusals.degraded() == "publishing is refused: 20 bytes are too many"
    room.size_bytes = 19
    assert refusals.degraded()
    room.size_bytes = 20
    assert refusals.degraded() == ""
    room.size_bytes = 10
    assert refusals.degraded() == "", "that is over"
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "action=publishing_refused reason=disk_full error=20 bytes are too many",
        "action=publishing_resumed",
    ]


def test_a_publish_that_is_taken_finds_out_as_well(caplog):
    caplog.set_level("INFO", "fanlog.broker")
    room = Room(10)
    refusals = Refusals(room.check)
    with pytest.raises(DiskFull):
        refusals.check(20)
    refusals.check(5)
    assert refusals.degraded(), "what was refused would be refused again"
    room.size_bytes = 20
    refusals.check(5)
    assert caplog.records[-1].getMessage() == "action=publishing_resumed"


def test_it_is_degraded_before_anybody_publishes_when_nothing_would_be_taken():
    assert Refusals(Room(-1).check).degraded()


def test_what_is_too_large_for_a_publish_does_not_count():
    refusals = Refusals(Room(limits.PUBLISH_BYTES_MAX).check)
    with pytest.raises(DiskFull):
        refusals.check(limits.PUBLISH_BYTES_MAX + 1)
    assert refusals.degraded() == ""


def test_asking_is_no_refusal():
    refusals = Refusals(Room(-1).check)
    assert refusals.degraded()
    assert not any(refusals.counts.values())
