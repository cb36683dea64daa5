"""How far a standby is behind, told from looks at both nodes."""

from __future__ import annotations

from bench.following import Places


def test_a_standby_lags_since_the_owner_went_on():
    places = Places(owner=[(0, 1), (1, 5), (2, 9)], standby=[(0.5, 1), (1.5, 1), (2.5, 5), (3, 9)])
    assert places.lags_s() == [0, 0.5, 0.5, 0]


def test_a_standby_that_is_ahead_of_the_last_look_does_not_lag():
    assert Places(owner=[(0, 3)], standby=[(1, 4), (2, 4)]).lags_s() == [0, 0]
