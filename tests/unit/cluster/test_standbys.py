"""The standbys of an owner: who is there, how far, and who is next."""

from __future__ import annotations

import pytest

from fanlog.cluster.announcements import Announcement
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.standbys import Standbys

SESSION = OwnerSession(3.0)


def said(
    name: str, applied_offset: int, *, is_whole: bool = True, obstacle: str = ""
) -> Announcement:
    card = NodeCard(name=name, link_address=f"{name}:8087", api_address=f"{name}:8085")
    return Announcement(
        card=card, applied_offset=applied_offset, is_whole=is_whole, obstacle=obstacle
    )


class TestMembers:
    def standbys(self) -> Standbys:
        """At 100 the owner stands at 1000, and 100 records a second came before that."""
        found = Standbys(SESSION)
        for step in range(21):
            found.note_place(50 * step, 90.0 + 0.5 * step)
        return found

    def test_those_that_are_silent_are_gone(self):
        standbys = self.standbys()
        standbys.announce(said("b", 1000), 100.0)
        assert [one.name for one in standbys.present(102.9)] == ["b"]
        assert standbys.present(103.0) == []

    def test_lag_in_records_and_in_time(self):
        standbys = self.standbys()
        standbys.announce(said("b", 800), 100.0)
        standbys.announce(said("c", 1000), 100.0)
        [near, far] = standbys.present(100.0)
        assert (near.name, near.lag_records, near.lag_s) == ("c", 0, 0.0)
        assert (far.lag_records, far.lag_s) == (200, pytest.approx(1.5))

    def test_the_furthest_that_is_caught_up_is_next(self):
        standbys = self.standbys()
        standbys.announce(said("b", 900), 100.0)
        standbys.announce(said("c", 1000, is_whole=False), 100.0)
        standbys.announce(said("d", 950), 100.0)
        assert standbys.successor(100.0) == "d"
        assert standbys.check_successor("b", 100.0) == ""
        assert "not read all" in standbys.check_successor("c", 100.0)

    def test_one_that_cannot_own_is_not_next(self):
        standbys = self.standbys()
        standbys.announce(said("b", 1000, obstacle="its clock is off"), 100.0)
        standbys.announce(said("c", 950), 100.0)
        assert standbys.successor(100.0) == "c"
        assert standbys.check_successor("b", 100.0) == "'b' cannot own the log: its clock is off"
        standbys.announce(said("b", 1000), 101.0)
        assert standbys.successor(101.0) == "b"
        assert standbys.check_successor("b", 101.0) == ""

    def test_none_is_next_when_all_are_far_behind(self):
        standbys = self.standbys()
        standbys.announce(said("b", 300), 100.0)
        assert standbys.successor(100.0) == ""
        assert "700 records behind" in standbys.check_successor("b", 100.0)

    def test_a_stranger_is_refused_by_name(self):
        standbys = self.standbys()
        standbys.announce(said("b", 1000), 100.0)
        assert "'x' is not a standby" in standbys.check_successor("x", 100.0)
        assert "known are: b" in standbys.check_successor("x", 100.0)
