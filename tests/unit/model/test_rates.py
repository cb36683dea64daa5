"""Rates: buckets of tokens, with time as an argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.errors import RateExceeded
from fanlog.model.rates import Allowance, owners_of, parse_rates


def test_a_bucket_holds_two_seconds_and_fills():
    allowance = Allowance(parse_rates("project.messages=10"))
    allowance.take(0.0, "p", "user:a@b", messages=20)
    with pytest.raises(RateExceeded, match=r"project\.messages=10") as refused:
        allowance.take(0.0, "p", "user:a@b", messages=5)
    assert refused.value.retry_after_s == pytest.approx(0.5)
    allowance.take(0.5, "p", "user:a@b", messages=5)
    # Another project has its own.
    allowance.take(0.5, "q", "user:a@b", messages=20)
    assert allowance.refusals == {"project.messages": 1}


def test_a_request_larger_than_the_bucket_is_never_refused_for_ever():
    allowance = Allowance(parse_rates("project.bytes=10"))
    allowance.take(0.0, "p", "m", size_bytes=100)
    with pytest.raises(RateExceeded) as refused:
        allowance.take(0.0, "p", "m", size_bytes=100)
    allowance.take(refused.value.retry_after_s, "p", "m", size_bytes=100)


def test_all_buckets_or_none():
    allowance = Allowance(parse_rates("project.requests=1 principal.requests=1"))
    allowance.take(0.0, "p", "m", requests=1)
    allowance.take(0.0, "p", "n", requests=1)
    with pytest.raises(RateExceeded):
        allowance.take(0.0, "p", "m", requests=1)
    # The principal's bucket was not touched by the refusal.
    allowance.take(0.0, "q", "m", requests=1)


def test_streams_are_counted():
    allowance = Allowance(parse_rates("principal.streams=1"))
    allowance.enter("streams", owners_of("p", "m"))
    with pytest.raises(RateExceeded, match="streams"):
        allowance.enter("streams", owners_of("q", "m"))
    # Connections are counted apart; of what is refused nothing is counted.
    allowance.enter("connections", owners_of("p", "m"))
    allowance.leave("streams", owners_of("p", "m"))
    allowance.enter("streams", owners_of("q", "m"))
    assert allowance.taken["principal.streams"] == 2
    assert allowance.refusals == {"principal.streams": 1}


@pytest.mark.parametrize("text", ["messages=1", "project.messages", "project.messages=0", "x=1"])
def test_settings_that_cannot_be(text):
    with pytest.raises(ValueError, match=r"rate|number"):
        parse_rates(text)


@given(steps=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 30)), max_size=50))
def test_never_more_than_the_rate_and_its_burst(steps):
    """Over any time, no more is let in than the rate allows, the burst and one request in debt."""
    limit, now, taken = 10, 0.0, 0
    allowance = Allowance(parse_rates(f"project.messages={limit}"))
    for pause, amount in steps:
        now += pause
        try:
            allowance.take(now, "p", "m", messages=amount)
        except RateExceeded:
            continue
        taken += amount
    assert taken <= limit * now + 2 * limit + 30
