"""The renewals of an owner, in a thread of their own.

A loop that is busy for seconds, with hard state to load, say, must not cost the shard its owner. A
loop that stands still for good must: then the thread stops renewing, and another node takes over.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence

from fanlog.cluster.ownership import OwnerSession, renew_at
from fanlog.log.replicated.api import Member, Standing

log = logging.getLogger("fanlog.cluster")

#: A loop that gave no sign for so long, or for ten sessions, does not serve any more.
STUCK_S = 30.0


class Renewer:
    """Appends renewals while this node owns. `start()` it, `stop()` it, and `join()` its thread.

    `tell_members` and `tell_alive` are for the loop, the rest is the thread's.
    """

    def __init__(
        self,
        session: OwnerSession,
        *,
        standing: Callable[[], Standing],
        renew: Callable[[Sequence[Member]], None],
        boottime_s: Callable[[], float],
        on_renewed: Callable[[], None],
    ) -> None:
        """`on_renewed` is called on the thread after each renewal."""
        self._session = session
        self._standing = standing
        self._renew = renew
        self._boottime_s = boottime_s
        self._on_renewed = on_renewed
        self._members: Sequence[Member] = ()
        self._alive_s = boottime_s()
        self._told_s = -math.inf
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanlog-renewals", daemon=True)
        #: Renewals that were sent when the owner was not sure any more.
        self.late = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; one that is under way goes on."""
        self._is_over.set()

    def join(self) -> None:
        self._thread.join()

    def tell_members(self, members: Sequence[Member]) -> None:
        """Name these in the next renewal; at once if there are others than before."""
        before, self._members = self._members, members
        # Behind that: the thread may just be telling those of before.
        if {one.card for one in members} != {one.card for one in before}:
            self._told_s = -math.inf

    def tell_alive(self) -> None:
        self._alive_s = self._boottime_s()

    def _run(self) -> None:
        while not self._is_over.is_set():
            standing, now = self._standing(), self._boottime_s()
            if standing.role != "owning":
                return
            if now - self._alive_s > max(STUCK_S, 10 * self._session.length_s):
                log.error("action=owner_stuck; this node renews no more, and another takes over")
                return
            due_s = renew_at(self._session, renewed_s=standing.renewed_s, told_s=self._told_s)
            if now < due_s:
                self._is_over.wait(min(due_s - now, self._session.renew_s / 4))
                continue
            if now - standing.renewed_s >= self._session.answer_s:
                self.late += 1
            self._told_s = now
            self._renew(self._members)
            self._on_renewed()
