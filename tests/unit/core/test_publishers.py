"""Publishers that number their messages: what is new, known, refused, held back and forgotten."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.publishers import Gap, Publishers
from fanlog.errors import FailedPrecondition, ResourceExhausted
from fanlog.model.resources import PartitionId
from fanlog.model.sequences import Numbered


class Log:
    """A partition with publishers."""

    def __init__(self):
        self.publishers = Publishers(PartitionId(1))
        self.end = 0
        #: Everything that was written, to be read again.
        self.records = []

    def publish(self, *numbers, publisher="p", epoch=0, said=b"", now=0.0):
        """Offsets and places of a request with these numbers; None is a message without one."""
        messages = [
            None if n is None else Numbered(publisher, epoch, n, (said or b"%d" % n).ljust(8))
            for n in numbers
        ]
        judgement = self.publishers.judge(messages)
        placed = {index: self.end + place for place, index in enumerate(judgement.fresh)}
        records, placing = self.publishers.note(judgement, placed, now)
        self.end += len(judgement.fresh)
        self.write([*records, *self.publishers.forget_numbers()])
        return judgement.offsets(placed, len(messages)), placing

    def write(self, records):
        for record in records:
            self.publishers.apply(record)
            self.records.append(record)

    def give_up(self, now):
        records, placing, gaps = self.publishers.give_up(now, 30.0, self.end)
        self.write(records)
        return placing, gaps

    def reload(self):
        self.publishers = Publishers(PartitionId(1))
        for record in self.records:
            self.publishers.apply(record)
        self.publishers.sort()


@pytest.fixture
def log():
    return Log()


def test_repetitions(log):
    assert log.publish(1, 2, None)[0] == [0, 1, 2]
    assert log.publish(2, 3, 3, 1)[0] == [1, 3, 3, 0]
    log.reload()
    assert log.publish(1, 2, 3)[0] == [0, 1, 3]
    assert log.end == 4


@pytest.mark.parametrize(
    ("numbers", "said", "sentence"),
    [
        ((4,), b"", "which is over for publisher 'p': the number expected next is 8"),
        ((5,), b"x", "has used for another message; the number expected next is 8"),
        ((8, 4), b"", "expected next is 8"),
    ],
)
def test_what_is_refused_changes_nothing(log, numbers, said, sentence):
    log.publish(5, 6, 7)
    with pytest.raises(FailedPrecondition, match=sentence):
        log.publish(*numbers, said=said)
    assert log.publish(8)[0] == [3]


def test_what_is_behind_a_gap_stands_behind_what_fills_it(log):
    log.publish(1)
    _, placing = log.publish(3, 4)
    assert (placing.held, placing.behind) == (BitMap64([1, 2]), {})
    _, placing = log.publish(6)
    assert placing.held == BitMap64([3])
    _, placing = log.publish(2)
    assert (placing.released, placing.behind) == (BitMap64([1, 2]), {4: [1, 2]})
    _, placing = log.publish(5)
    assert (placing.released, placing.behind) == (BitMap64([3]), {5: [3]})


def test_a_request_in_the_wrong_order(log):
    _, placing = log.publish(3, 1, 2)
    assert not placing.held
    assert placing.behind == {2: [0]}


def test_gaps_are_given_up_in_time(log):
    log.publish(1)
    log.publish(3, now=10.0)
    log.publish(6, now=20.0)
    log.reload()
    assert log.publishers.next_deadline(30.0) == 40.0
    assert log.give_up(39.9)[1] == 0
    placing, gaps = log.give_up(40.0)
    assert (gaps, placing.released, placing.behind) == (1, BitMap64([1]), {2: [1]})
    with pytest.raises(FailedPrecondition, match="expected next is 4"):
        log.publish(2)
    placing, gaps = log.give_up(50.0)
    assert (gaps, placing.released) == (1, BitMap64([2]))
    assert log.publishers.next_deadline(30.0) is None


def test_what_a_message_waits_for(log):
    log.publish(1)
    log.publish(6, now=5.0)
    log.publish(3, now=10.0)
    assert log.publishers.gap_before(0, 30.0) is None
    # It leaves together with 6, which came before it.
    assert log.publishers.gap_before(2, 30.0) == Gap(2, 35.0)
    assert log.publishers.gap_before(1, 30.0) == Gap(2, 35.0)
    log.publish(2)
    assert log.publishers.gap_before(1, 30.0) == Gap(4, 35.0)
    assert log.publishers.gap_before(2, 30.0) is None


def test_a_new_epoch(log):
    log.publish(1)
    log.publish(3)
    _, placing = log.publish(1, epoch=1, said=b"anew")
    assert (placing.released, placing.behind) == (BitMap64([1]), {1: [1]})
    with pytest.raises(FailedPrecondition, match="its epoch is 1, and the number expected next 2"):
        log.publish(4)
    log.reload()
    assert log.publish(1, epoch=1, said=b"anew")[0] == [2]


def test_too_many_behind_a_gap(log, monkeypatch):
    monkeypatch.setattr(limits, "PUBLISHER_HELD_MAX", 2)
    log.publish(1)
    log.publish(3, 4)
    with pytest.raises(ResourceExhausted, match="3 messages of one publisher would wait for num"):
        log.publish(5)
    log.publish(2)
    assert log.publish(5)[0] == [4]


def test_old_numbers_are_forgotten_and_refused(log, monkeypatch):
    monkeypatch.setattr(limits, "PUBLISHER_NUMBERS_MAX", 3)
    for number in range(1, 6):
        log.publish(number)
    assert log.publishers.numbers == 3
    assert log.publish(3)[0] == [2]
    with pytest.raises(FailedPrecondition, match="expected next is 6"):
        log.publish(2)


def test_the_oldest_of_all_are_forgotten_first(log, monkeypatch):
    monkeypatch.setattr(limits, "TOPIC_NUMBERS_MAX", 3)
    log.publish(1, publisher="a")
    for number in range(1, 4):
        log.publish(number, publisher="b")
    log.publish(4, publisher="b")
    with pytest.raises(FailedPrecondition):
        log.publish(1, publisher="a")
    assert log.publish(4, publisher="b")[0] == [4]


def test_too_many_publishers(log, monkeypatch):
    monkeypatch.setattr(limits, "PUBLISHERS_MAX", 1)
    log.publish(1)
    with pytest.raises(ResourceExhausted, match="publisher 'q' is not known, and the topic rem"):
        log.publish(1, publisher="q")


def test_silent_publishers_are_forgotten_with_a_trace(log):
    log.publish(1, 2, epoch=4)
    log.publish(1, publisher="held")
    log.publish(3, publisher="held")
    log.write(log.publishers.expire(100.0, 100.0, limit=10))
    assert len(log.publishers) == 1, "who has messages behind a gap is not forgotten"
    log.reload()
    with pytest.raises(FailedPrecondition, match="is 3, and publisher 'p' is not known"):
        log.publish(3, epoch=4)
    assert log.publish(3, epoch=5)[0] == [4]


def test_deleted(log):
    log.publish(1)
    log.publish(1, publisher="q")
    log.write(log.publishers.forget(limit=1))
    assert len(log.publishers) == 1
    log.write(log.publishers.forget(limit=1))
    assert log.publishers.is_empty
