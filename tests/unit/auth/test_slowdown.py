"""Failures by address."""

from __future__ import annotations

from fanlog.auth import slowdown


def test_the_table_is_bounded_and_forgets():
    table = slowdown.Slowdown()
    for number in range(slowdown.ADDRESSES_MAX + 10):
        table.fail(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(table) == slowdown.ADDRESSES_MAX
    for _ in range(20):
        late = table.fail("2001:db8::1", 0.0)
    # Another address of the same network.
    assert table.fail("2001:db8::2", 0.0) > late > 0
    assert table.fail("2001:db8::2", 3_600.0) == 0.0


def test_addresses_of_both_kinds_on_one_port():
    """All of IPv4 is one network there; a stranger must not slow it down for everybody."""
    table = slowdown.Slowdown()
    for _ in range(20):
        late = table.fail("::ffff:192.0.2.1", 0.0)
    assert late > 0
    assert table.fail("::ffff:192.0.2.2", 0.0) == 0.0
    assert table.fail("192.0.2.1", 0.0) > late
