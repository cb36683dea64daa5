"""Back-off, failure counts, and what waits."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core import redelivery
from fanlog.core.attempts import COUNT_MAX, Attempts
from fanlog.core.redelivery import (
    EXPIRED,
    JITTER,
    NACKED,
    DeadLetter,
    Delayed,
    Failures,
    Nack,
    backoff_s,
)
from fanlog.model.resources import FIRST_IMMEDIATE, RetryPolicy
from unit.core.world import dead_letter

POLICY = RetryPolicy(minimum_backoff_s=10.0, maximum_backoff_s=60.0)


@pytest.mark.parametrize(
    ("failures", "wait_s"), [(0, 10.0), (1, 10.0), (2, 20.0), (3, 40.0), (4, 60.0), (255, 60.0)]
)
def test_the_wait_doubles_from_minimum_to_maximum(failures, wait_s):
    assert backoff_s(POLICY, failures, 0.0) == wait_s


def test_jitter_only_adds_and_never_beyond_the_maximum():
    assert 0 < JITTER < 1
    for failures in range(1, 10):
        least = backoff_s(POLICY, failures, 0.0)
        for jitter in (0.1, 0.5, 0.999):
            wait_s = backoff_s(POLICY, failures, jitter)
            assert least <= wait_s <= min(least * (1 + JITTER), 60.0)
    assert backoff_s(POLICY, 1, 0.5) == 10.0 * (1 + JITTER / 2)


@pytest.mark.parametrize(
    ("failures", "wait_s"),
    [(0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0), (11, 512.0), (12, 600.0), (255, 600.0)],
)
def test_first_immediate_then_doubling_from_a_second_to_ten_minutes(failures, wait_s):
    assert backoff_s(FIRST_IMMEDIATE, failures, 0.0) == wait_s
    assert wait_s <= backoff_s(FIRST_IMMEDIATE, failures, 0.999) <= min(wait_s * 1.25, 600.0)


def test_without_a_policy_there_is_no_wait():
    assert backoff_s(None, 5, 0.9) == 0.0
    assert backoff_s(RetryPolicy(minimum_backoff_s=0.0), 9, 0.9) == 0.0


class TestDelayed:
    def test_what_waits_anew_waits_its_own_time(self):
        """Acknowledged late, reopened, and failed again: the first back-off is no longer due."""
        delayed = Delayed()
        delayed.add(10.0, BitMap64([4, 5]))
        delayed.discard(BitMap64([4]))
        delayed.add(50.0, BitMap64([4]))
        assert delayed.due(10.0) == BitMap64([5])
        assert delayed.next_deadline() == 50.0
        assert delayed.due(50.0) == BitMap64([4])

    def test_what_no_longer_waits_is_never_due(self):
        delayed = Delayed()
        delayed.add(10.0, BitMap64([4]))
        delayed.discard(BitMap64([4]))
        assert delayed.next_deadline() is None
        assert delayed.due(10.0) == BitMap64()

    def test_what_is_due_is_taken_out_once(self):
        delayed = Delayed()
        delayed.add(5.0, BitMap64([1, 2]))
        delayed.add(7.0, BitMap64([3]))
        delayed.add(5.0, BitMap64([4]))
        assert delayed.next_deadline() == 5.0
        assert delayed.due(4.9) == BitMap64()
        assert delayed.due(5.0) == BitMap64([1, 2, 4])
        assert delayed.due(5.0) == BitMap64()
        assert delayed.offsets == BitMap64([3])
        assert delayed.next_deadline() == 7.0

    def test_what_is_discarded_never_comes(self):
        delayed = Delayed()
        delayed.add(5.0, BitMap64([1, 2]))
        delayed.discard(BitMap64([2, 9]))
        assert delayed.due(9.0) == BitMap64([1])
        delayed.add(20.0, BitMap64([3]))
        delayed.discard(BitMap64([3]))
        assert delayed.next_deadline() is None


class TestAttempts:
    def test_only_touched_chunks_are_returned_and_nothing_is_changed(self):
        attempts = Attempts()
        attempts.apply(0, ((5, 1),))
        attempts.apply(9, ((0, 1),))
        assert attempts.increase([5, 1_023, 1_024]) == {
            0: ((5, 2), (1_023, 1)),
            1: ((0, 1),),
        }
        assert (attempts[5], attempts[1_023], attempts[1_024], attempts[9 * 1_024]) == (1, 0, 0, 1)

    def test_counts_stay_in_a_byte(self):
        attempts = Attempts()
        attempts.apply(0, ((5, COUNT_MAX),))
        assert attempts.increase([5]) == {0: ((5, COUNT_MAX),)}

    def test_chunks_go_when_the_floor_has_passed_them(self):
        attempts = Attempts()
        assert not attempts
        assert attempts.chunks_below(10_000) == []
        attempts.apply(0, ((5, 1),))
        attempts.apply(1, ((5, 1),))
        assert attempts.chunks_below(1_023) == []
        assert attempts.chunks_below(1_024) == [0]
        assert attempts.chunks_below(2_048) == [0, 1]
        assert attempts.numbers() == [0, 1]
        attempts.apply(0, None)
        attempts.apply(0, None)
        assert attempts.numbers() == [1]
        assert attempts


def fail(failures: Failures, offsets: list[int], nack: Nack) -> None:
    failures.note(BitMap64(offsets), nack, dead_letter(5))
    failures.count(BitMap64(offsets), nack)


class TestFailures:
    def test_the_running_verb_counts_before_its_records_are_applied(self):
        failures = Failures(Attempts())
        chunks = failures.count(BitMap64([3]), NACKED)
        assert chunks == {0: ((3, 1),)}
        assert (failures[3], failures.attempts[3]) == (1, 0)
        failures.end_verb()
        assert failures[3] == 0

    def test_exhausted_at_the_maximum(self):
        failures = Failures(Attempts())
        failures.attempts.apply(0, ((3, 2),))
        assert failures.is_exhausted(3, dead_letter(2))
        assert not failures.is_exhausted(3, dead_letter(3))
        assert not failures.is_exhausted(3, None)
        assert not failures.is_exhausted(4, dead_letter(1))

    def test_a_spared_message_has_one_more_delivery(self):
        failures = Failures(Attempts())
        failures.attempts.apply(0, ((3, 2), (4, 2)))
        failures.spare(BitMap64([3, 4]))
        assert not failures.is_exhausted(3, dead_letter(2))
        failures.count(BitMap64([3]), EXPIRED)
        assert failures.is_exhausted(3, dead_letter(2))
        failures.forget(BitMap64([4]))
        assert failures.is_exhausted(4, dead_letter(2))

    def test_a_letter_says_why(self):
        failures = Failures(Attempts())
        failures.attempts.apply(0, ((3, 1), (4, 2)))
        failures.count(BitMap64([3]), EXPIRED)
        assert failures.letter(3, dead_letter(2)) == DeadLetter(
            3, 2, "2 of 2 delivery attempts, the last one expired"
        )
        assert failures.letter(4, dead_letter(2)) == DeadLetter(4, 2, "2 of 2 delivery attempts")

    def test_what_a_consumer_says_of_it_is_kept(self):
        failures = Failures(Attempts())
        fail(failures, [3, 4], Nack(reason="no such order"))
        failures.end_verb()
        failures.attempts.apply(0, ((3, 2), (4, 2)))
        failures.count(BitMap64([4]), EXPIRED)
        letters = [failures.letter(offset, dead_letter(2)).reason for offset in (3, 4)]
        assert letters == [
            "2 of 2 delivery attempts: no such order",
            "3 of 2 delivery attempts, the last one expired: no such order",
        ]
        failures.forget(BitMap64([3]))
        assert failures.letter(3, dead_letter(2)).reason == "2 of 2 delivery attempts"

    def test_a_reason_is_no_longer_than_the_value_of_an_attribute(self):
        failures = Failures(Attempts())
        fail(failures, [3], Nack(reason="é" * 1_000))
        reason = failures.letter(3, dead_letter(1)).reason
        assert 1_023 <= len(reason.encode()) <= limits.ATTRIBUTE_VALUE_BYTES_MAX
        assert reason.startswith("1 of 1 delivery attempts, the last one nacked: éé")

    def test_the_oldest_reasons_are_forgotten_first(self, monkeypatch):
        monkeypatch.setattr(redelivery, "_REASONS_MAX", 2)
        failures = Failures(Attempts())
        for offset in (1, 2, 1, 3):
            fail(failures, [offset], Nack(reason=f"why {offset}"))
        assert [o for o in (1, 2, 3) if "why" in failures.letter(o, dead_letter(9)).reason] == [
            1,
            3,
        ]

    def test_one_that_is_given_up_has_no_attempts_left(self):
        failures = Failures(Attempts())
        fail(failures, [3], Nack(is_terminal=True))
        assert failures.is_exhausted(3, dead_letter(5))
        assert not failures.is_exhausted(3, None)
        reason = failures.letter(3, dead_letter(5)).reason
        assert reason == "1 of 5 delivery attempts, nacked for good"
        failures.spare(BitMap64([3]))
        assert not failures.is_exhausted(3, dead_letter(5)), "its letter could not be forwarded"

    def test_without_a_policy_nothing_is_given_up(self):
        failures = Failures(Attempts())
        failures.note(BitMap64([3]), Nack(is_terminal=True), None)
        assert not failures.is_exhausted(3, dead_letter(5)), "also not once there is a policy"

    def test_an_uncounted_one_leaves_the_count_and_keeps_the_reason(self):
        failures = Failures(Attempts())
        nack = Nack(is_counted=False, reason="busy")
        failures.take_back(BitMap64([3]), nack)
        failures.note(BitMap64([3]), nack, dead_letter(2))
        assert failures[3] == 0
        assert 3 in failures.returned, "its next delivery is a redelivery"
        assert failures.letter(3, dead_letter(2)).reason == "0 of 2 delivery attempts: busy"

    def test_a_delay_goes_before_the_policy(self):
        failures, policy = Failures(Attempts()), RetryPolicy(minimum_backoff_s=5.0)
        assert failures.waits(NACKED, None, 0.0) is None
        for nack, expected in ((NACKED, 5.0), (Nack(delay_s=90.0), 90.0), (Nack(delay_s=0.0), 0.0)):
            waits = failures.waits(nack, policy, 0.0)
            assert waits is not None
            assert waits(3) == expected
