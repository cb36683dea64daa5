"""Window, breaker and outcomes: how hard an endpoint is tried, and what its answers mean."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.model.push_settings import BreakerRules
from fanlog.push.rules.breaker import Breaker
from fanlog.push.rules.outcome import of_error, of_grpc, of_status, of_timeout, retry_after_s
from fanlog.push.rules.window import Window


def test_a_window_full_of_successes_doubles_it():
    window = Window()
    sizes = [window.size]
    for _ in range(limits.PUSH_WINDOW_FIRST):
        window.note_success()
    sizes.append(window.size)
    for _ in range(2 * limits.PUSH_WINDOW_FIRST):
        window.note_success()
    sizes.append(window.size)
    assert sizes == [limits.PUSH_WINDOW_FIRST * factor for factor in (1, 2, 4)]


def test_a_failure_halves_it_and_one_is_always_left():
    window = Window()
    for _ in range(10_000):
        window.note_success()
    assert window.size == limits.PUSH_WINDOW_MAX
    window.note_failure()
    assert window.size == limits.PUSH_WINDOW_MAX // 2
    for _ in range(20):
        window.note_failure()
    assert window.size == 1
    window.note_success()
    assert window.size == 2


def opened(now: float = 100.0) -> Breaker:
    breaker = Breaker()
    told = [breaker.note_failure(now) for _ in range(limits.PUSH_BREAKER_FAILURES)]
    assert told == [False] * (limits.PUSH_BREAKER_FAILURES - 1) + [True]
    return breaker


def test_the_breaker_opens_after_failures_in_a_row():
    breaker = Breaker()
    for _ in range(10):
        for _ in range(limits.PUSH_BREAKER_FAILURES - 1):
            breaker.note_failure(0.0)
        breaker.note_success(0.0)
    assert breaker.state(0.0) == "closed"
    assert breaker.permits(0.0, under_way=1_000)
    assert opened().state(100.0) == "open"
    assert not opened().permits(100.0, under_way=0)


def test_half_open_lets_one_probe_through():
    breaker = opened()
    later = 100.0 + limits.PUSH_BREAKER_OPEN_S_MIN
    assert breaker.until == later
    assert breaker.state(later) == "half-open"
    assert breaker.permits(later, under_way=0)
    assert not breaker.permits(later, under_way=1)
    breaker.note_success(later)
    assert breaker.state(later) == "closed"
    assert breaker.until is None


def test_a_failed_probe_opens_it_for_twice_as_long():
    breaker, now, waits = opened(), 100.0, []
    for _ in range(10):
        assert breaker.until is not None
        waits.append(breaker.until - now)
        now = breaker.until
        assert breaker.note_failure(now)
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == limits.PUSH_BREAKER_OPEN_S_MAX


def test_failures_that_were_under_way_change_nothing():
    breaker = opened()
    before = breaker.until
    assert not breaker.note_failure(100.5)
    assert breaker.until == before


def test_what_the_endpoint_asks_for_is_kept_to_the_end():
    breaker = Breaker()
    breaker.hold(100.0, 60.0)
    assert breaker.state(159.0) == "open"
    breaker.hold(100.0, 10.0)
    breaker.note_success(110.0)
    breaker.note_failure(111.0)
    assert breaker.until == 160.0
    assert breaker.permits(160.0, under_way=0)
    assert not breaker.permits(160.0, under_way=1)
    breaker.note_success(161.0)
    assert breaker.state(161.0) == "closed"


def test_a_hold_does_not_shorten_a_wait():
    breaker = opened()
    breaker.hold(100.0, 0.5)
    assert breaker.until == 100.0 + limits.PUSH_BREAKER_OPEN_S_MIN


@pytest.mark.parametrize(
    ("status", "hold_s"), [(429, 30.0), (503, 30.0), (500, 0.0), (400, 0.0), (204, 0.0)]
)
def test_429_and_503_speak_of_all_messages(status, hold_s):
    assert of_status(status, "30", 0.0).hold_s == hold_s
    assert of_status(status, None, 0.0).hold_s == 0.0


@pytest.mark.parametrize(
    ("status", "kind", "is_failing", "hold_s"),
    [
        ("UNAVAILABLE", "5xx", True, limits.PUSH_RETRY_AFTER_S_MAX),
        ("RESOURCE_EXHAUSTED", "4xx", True, limits.PUSH_RETRY_AFTER_S_MAX),
        ("INTERNAL", "5xx", True, 0.0), ("UNKNOWN", "5xx", True, 0.0),
        ("UNIMPLEMENTED", "5xx", True, 0.0), ("CANCELLED", "4xx", True, 0.0),
        ("INVALID_ARGUMENT", "4xx", False, 0.0), ("UNAUTHENTICATED", "4xx", False, 0.0),
    ],
)  # fmt: skip
def test_statuses_of_grpc(status, kind, is_failing, hold_s):
    outcome = of_grpc(status, 1e9, is_gone=False)
    assert (outcome.kind, outcome.is_failing, outcome.hold_s) == (kind, is_failing, hold_s)
    assert outcome.delay_s == limits.PUSH_RETRY_AFTER_S_MAX
    assert outcome.reason == f"gRPC {status}"
    assert not outcome.is_ack
    assert of_grpc(status, -1.0, is_gone=True).delay_s == 0.0
    assert of_grpc(status, None, is_gone=True).is_gone


@pytest.mark.parametrize(
    ("status", "kind", "is_failing"),
    [
        (301, "3xx", True), (302, "3xx", True), (304, "3xx", True), (400, "4xx", False),
        (404, "4xx", False), (408, "4xx", True), (429, "4xx", True), (500, "5xx", True),
        (503, "5xx", True), (100, "error", True), (999, "error", True),
    ],
)  # fmt: skip
def test_statuses_that_nack(status, kind, is_failing):
    outcome = of_status(status, None, 0.0)
    assert (outcome.kind, outcome.is_failing) == (kind, is_failing)
    assert not outcome.is_ack
    assert not outcome.is_gone
    assert outcome.reason == f"HTTP {status}"
    assert outcome.delay_s is None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_statuses_that_ack(status):
    assert of_status(status, "10", 0.0).is_ack


def test_410_is_for_good():
    assert of_status(410, None, 0.0).is_gone


def test_no_answer():
    assert of_timeout(10).reason == "no answer within 10 s"
    assert of_error("ClientOSError").reason == "ClientOSError"
    assert of_timeout(10).is_failing
    assert of_error("X").is_failing


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 30 ", 30.0),
        ("99999", limits.PUSH_RETRY_AFTER_S_MAX),
        ("9" * 400, limits.PUSH_RETRY_AFTER_S_MAX),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
        ("Sun, 13 Sep 2020 12:27:10 GMT", 30.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("\u0663", None),
    ],
)
def test_retry_after(text, seconds):
    assert retry_after_s(text, 1_600_000_000.0) == seconds


def test_thresholds_are_settings():
    breaker = Breaker(BreakerRules(failures=2, open_s_min=3.0, open_s_max=5.0))
    assert [breaker.note_failure(0.0) for _ in range(2)] == [False, True]
    assert breaker.until == 3.0
    assert breaker.note_failure(3.0)
    assert breaker.until == 8.0
    assert breaker.note_failure(8.0)
    assert breaker.until == 13.0


def test_other_thresholds_hold_from_the_next_failure_on():
    breaker = opened()
    breaker.change(BreakerRules(failures=1, open_s_min=7.0, open_s_max=60.0))
    assert breaker.until == 100.0 + limits.PUSH_BREAKER_OPEN_S_MIN
    assert breaker.note_failure(breaker.until)
    assert breaker.until == 101.0 + 14.0
    breaker.note_success(breaker.until)
    assert breaker.note_failure(200.0)
    assert breaker.until == 207.0
