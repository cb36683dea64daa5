"""The ordered backlog: messages that are open again, and scans of what was not seen yet."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from unit.core.world import RETRY, World, subscription


def world(*keys: int, **options: object) -> World:
    made = World(subscription(options.pop("ordering", "key"), **options))  # type: ignore[arg-type]
    if keys:
        made.publish(*keys)
    return made


def offsets(ids: list[tuple[int, int]]) -> list[int]:
    return [offset for _, offset in ids]


class TestReopened:
    """Reopened messages go before later ones of their keys that are not outstanding."""

    def reopen(self, made: World, *opened: int) -> None:
        generation = made.next_generation()
        made.decided(made.share.reopen(1.0, BitMap64(opened), generation=generation))

    def test_it_comes_right_after_what_is_outstanding(self):
        made, a, b = world(1, 1, 1), Credit(), Credit()
        ids = made.lease(a, 2)
        made.ack(1, ids[:1])
        self.reopen(made, 0)
        assert made.lease(a) == []
        assert made.lease(b) == []
        made.ack(1, ids[1:])
        assert offsets(made.lease(b)) == [0, 2]

    def test_what_fails_comes_back_behind_it(self):
        made = world(1, 1, 1)
        ids = made.lease()
        made.ack(1, ids[:1])
        self.reopen(made, 0)
        assert made.lease() == []
        made.nack(1, ids[1:2])
        assert offsets(made.lease()) == [0, 1, 2]

    def test_what_fails_before_it_is_met_comes_back_behind_it(self):
        made = world(1, 1, 1)
        ids = made.lease()
        made.ack(1, ids[:1])
        self.reopen(made, 0)
        made.nack(1, ids[1:2])
        assert offsets(made.lease()) == [0, 1, 2]

    def test_a_back_off_after_it_is_still_waited_for(self):
        made = world(1, 1, 2, retry=RETRY)
        ids = made.lease()
        made.ack(1, [ids[0], ids[2]])
        made.nack(1, ids[1:2])
        self.reopen(made, 0)
        again = made.lease()
        assert offsets(again) == [0]
        made.ack(2, again)
        assert made.lease() == []
        made.expire(100)
        assert offsets(made.lease()) == [1]

    def test_ahead_of_what_was_met_since_a_restart(self):
        made = world(0, 0, 0)
        made.ack(1, made.lease()[2:])
        made.restart()
        self.reopen(made, 2)
        assert offsets(made.lease()) == [0, 1, 2]

    def test_messages_without_a_key_that_are_ready_are_not_met_twice(self):
        made = world(1, 0, 1, 0)
        ids = made.lease()
        made.ack(1, ids[:1])
        made.nack(1, [ids[1], ids[3]])
        self.reopen(made, 0)
        assert sorted(made.offsets(max_messages=2)) == [1, 3]
        made.ack(1, ids[2:3])
        assert made.offsets() == [0]


class TestScans:
    def test_discarded_messages_are_not_found_again(self, monkeypatch):
        monkeypatch.setattr(limits, "KEY_WAITING_MAX", 1)
        made, a = world(1, 1, 1, 1), Credit()
        held = made.lease(a, 1)
        assert made.lease(Credit()) == []
        made.decided(made.share.discard(BitMap64([2])))
        made.ack(1, held)
        taken = []
        while ids := made.lease(a):
            taken += offsets(ids)
        assert taken == [1, 3]

    def test_a_place_to_scan_from_stays_when_other_messages_cannot_be_read(self, monkeypatch):
        monkeypatch.setattr(limits, "KEY_WAITING_MAX", 1)
        made, a = world(1, 1, 1, 1), Credit()
        made.publish(2, 2)
        held = made.lease(a, 1)
        assert offsets(made.lease(Credit())) == [4, 5]
        made.share.skip(4, 6)
        made.ack(1, held)
        taken = []
        while ids := made.lease(a):
            taken += offsets(ids)
        assert taken == [1, 2, 3]

    def test_a_filter_does_not_hinder_a_scan(self, monkeypatch):
        monkeypatch.setattr(limits, "KEY_WAITING_MAX", 1)
        made, a = World(replace(subscription("key"), filter="some")), Credit()
        made.publish(1, 1, 1, 1, 1)
        made.share.route(5, BitMap64([0, 1, 2, 4]))
        held = made.lease(a, 1)
        assert made.lease(Credit()) == []
        made.ack(1, held)
        taken = []
        while ids := made.lease(a):
            taken += offsets(ids)
        assert taken == [1, 2, 4]
