"""Buckets of tokens, with time as an argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.model.token_bucket import TokenBucket


def test_a_bucket_fills_at_its_rate_and_no_further():
    bucket = TokenBucket(10, 20, 0.0)
    bucket.take(0.0, 20)
    assert bucket.wait_s(0.0, 5) == pytest.approx(0.5)
    assert bucket.left(0.5) == pytest.approx(5)
    assert bucket.left(100.0) == 20


def test_a_clock_that_is_set_back_takes_none_away():
    bucket = TokenBucket(10, 20, 100.0)
    bucket.take(100.0, 15)
    assert bucket.left(50.0) == 5


def test_other_rates_keep_what_is_there():
    bucket = TokenBucket(10, 20, 0.0)
    bucket.take(0.0, 12)
    bucket.change(0.0, 1, 5)
    assert bucket.left(0.0) == 5
    bucket.change(0.0, 1, 50)
    assert bucket.left(0.0) == 5


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 20)), max_size=60))
def test_no_more_is_taken_than_the_burst_and_the_rate_allow(asked):
    bucket, now, taken = TokenBucket(10, 20, 0.0), 0.0, 0
    for wait_s, tokens in asked:
        now += wait_s
        if bucket.wait_s(now, tokens) == 0.0:
            bucket.take(now, tokens)
            taken += tokens
        assert taken <= 20 + 10 * now + 1e-6
