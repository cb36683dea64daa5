"""The window of a subscription: what a consumer may get of it."""

from __future__ import annotations

from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.subscription_window import SubscriptionWindow

ALL = LeaseBudget(1_000, 1_000_000)


def test_no_more_than_is_left():
    window, consumer = SubscriptionWindow(10, 0), Credit()
    assert window.bound(ALL, consumer) == LeaseBudget(10, 1_000_000)
    window.take(7, 70)
    assert window.bound(ALL, consumer).messages == 3
    window.take(3, 30)
    assert window.bound(ALL, consumer).messages == 0
    assert not window.has_room
    window.give(4, 40)
    assert window.bound(LeaseBudget(2, 5), consumer).messages == 2


def test_a_window_that_was_made_smaller_gives_nothing():
    window = SubscriptionWindow(10, 0)
    window.take(10, 0)
    window.max_messages = 5
    assert window.bound(ALL, Credit()).messages == 0


def test_bytes():
    window, consumer = SubscriptionWindow(0, 100), Credit()
    # Alone, a message of any size.
    assert window.bound(ALL, consumer) == LeaseBudget(1_000, 100, at_least_one=True)
    window.take(1, 60)
    bound = LeaseBudget(1_000, 40, at_least_one=False, first_bytes=40)
    assert window.bound(ALL, consumer) == bound
    window.take(1, 60)
    assert window.bound(ALL, consumer).size_bytes == 0
    assert not window.has_room


def test_a_consumer_that_waits_has_a_part():
    window, greedy, other = SubscriptionWindow(10, 0), Credit(), Credit()
    greedy.take(10, 0)
    window.take(10, 0)
    window.wait(other)
    greedy.give(4, 0)
    window.give(4, 0)
    assert window.bound(ALL, greedy).messages == 0
    assert window.bound(ALL, other).messages == 4
    assert window.leave(other)
    assert window.bound(ALL, greedy).messages == 4


def test_every_part_is_one_at_least():
    window = SubscriptionWindow(2, 0)
    for _ in range(5):
        window.wait(Credit())
    assert window.bound(ALL, Credit()).messages == 1
