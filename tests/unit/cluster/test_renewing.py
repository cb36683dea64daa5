"""Renewals: when they come, whom they name, and when they end."""

from __future__ import annotations

import threading
import time

from fanlog.cluster import renewing
from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.renewing import Renewer
from fanlog.log.replicated.api import Member, Standing

PATIENCE_S = 20.0


class Owner:
    """An engine that owns, as far as renewals need one."""

    def __init__(self, session_s: float = 0.06) -> None:
        self.role = "owning"
        self.renewed_s = time.monotonic()
        self.named: list[tuple[Member, ...]] = []
        self.changed = threading.Condition()
        self.renewer = Renewer(
            OwnerSession(session_s),
            standing=self.standing,
            renew=self.renew,
            boottime_s=time.monotonic,
            on_renewed=lambda: None,
        )

    def standing(self) -> Standing:
        return Standing(
            role=self.role,  # type: ignore[arg-type]
            sentence="",
            term=1,
            owner=None,
            successor=None,
            members=(),
            applied_offset=0,
            end_offset=0,
            sequence=0,
            is_whole=True,
            heard_s=0.0,
            fetched_s=0.0,
            renewed_s=self.renewed_s,
            clock_ahead_s=None,
            started_over=0,
        )

    def renew(self, members) -> None:
        with self.changed:
            self.renewed_s = time.monotonic()
            self.named.append(tuple(members))
            self.changed.notify_all()

    def until(self, is_so) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE_S)

    def end(self) -> None:
        self.renewer.stop()
        self.renewer.join()


def test_they_come_again_and_again_and_name_the_members():
    owner = Owner()
    owner.renewer.start()
    owner.until(lambda: len(owner.named) >= 2)
    member = Member(b"card", 7)
    owner.renewer.tell_members([member])
    owner.until(lambda: owner.named[-1] == (member,))
    owner.end()


def test_an_owner_that_commits_names_new_members_at_once():
    owner = Owner(session_s=30.0)
    owner.renewer.start()
    owner.until(lambda: owner.named == [()])
    owner.renewer.tell_members([Member(b"card", 7)])
    owner.until(lambda: len(owner.named) == 2)
    # The same standby, further on, can wait.
    owner.renewer.tell_members([Member(b"card", 8)])
    owner.end()
    assert len(owner.named) == 2


def test_they_end_with_the_term():
    owner = Owner()
    owner.role = "following"
    owner.renewer.start()
    owner.renewer.join()
    assert owner.named == []


def test_a_loop_that_stands_still_loses_the_log(monkeypatch):
    monkeypatch.setattr(renewing, "STUCK_S", 0.0)
    owner = Owner(session_s=0.01)
    owner.renewer.start()
    # Nothing says that the loop is alive: after ten sessions the thread is over by itself.
    owner.renewer.join()


def test_late_renewals_are_counted():
    owner = Owner()
    owner.renewed_s = time.monotonic() - 10.0
    owner.renewer.start()
    owner.until(lambda: len(owner.named) >= 1)
    owner.end()
    assert owner.renewer.late == 1
