"""Key gates: one message of a key at a time, and none behind one that failed."""

from __future__ import annotations

from fanlog.in_process.key_gates import KeyGates


def test_one_of_a_key_at_a_time_in_order():
    gates: KeyGates[str] = KeyGates()
    assert gates.enter(1, "a")
    assert not gates.enter(1, "b")
    assert not gates.enter(1, "c")
    assert gates.enter(2, "other")
    assert gates.leave(1) == "b"
    assert gates.leave(1) == "c"
    assert gates.leave(1) is None
    assert gates.enter(1, "d")


def test_what_comes_behind_a_failed_one_is_dropped_until_the_core_has_heard():
    gates: KeyGates[str] = KeyGates()
    assert gates.enter(1, "a")
    assert not gates.enter(1, "b")
    gates.fail(1)
    assert gates.leave(1) is None
    assert not gates.enter(1, "c")
    gates.heard(1)
    assert gates.take_dropped() == ["b", "c"]
    assert gates.take_dropped() == []
    assert gates.enter(1, "a again")


def test_two_failures_of_a_key_are_heard_one_by_one():
    gates: KeyGates[str] = KeyGates()
    gates.fail(1)
    gates.fail(1)
    gates.heard(1)
    assert not gates.enter(1, "a")
    gates.heard(1)
    assert gates.enter(1, "a")


def test_clearing_takes_out_those_that_wait():
    gates: KeyGates[str] = KeyGates()
    assert gates.enter(1, "a")
    assert not gates.enter(1, "b")
    assert gates.clear() == ["b"]
    assert gates.leave(1) is None
