"""The hard state of a log that another node owns, kept ready for the term of this one.

A thread of its own builds it from what it is told, and brings it up to each commit
(`fanlog.core.warm_state`); so the loop, which forwards calls meanwhile, never waits for it. A state
that a change has made stale is built anew when no such change came for a while. `take` gives it
away, exactly as of a commit; or nothing, and then the ledger loads hard state from the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from fanlog.broker.collector import let_collect, without_collector
from fanlog.core.hard_state import HardState
from fanlog.core.records import Record
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.core.sealing import Opening, Sealing
from fanlog.core.warm_state import StateChange, WarmState
from fanlog.errors import FanlogError

log = logging.getLogger("fanlog.broker")

Item = TypeVar("Item")

#: Changes are gathered for so long before they are applied.
GATHER_S: Final = 0.1
#: A state that is stale is built anew after so long, and after so many times as long as that takes.
QUIET_S: Final = 1.0
QUIET_BUILDS: Final = 5
#: After so many records the thread that builds lets others run for a moment.
SLICE: Final = 50
PAUSE_S: Final = 0.000_5


class ReadyState(NamedTuple):
    """Hard state as loaded, and its records whose secrets are to be sealed anew."""

    hard: HardState
    stale: Sequence[Record]


class StandbyState:
    """Told by one thread, taken by another; `start` and `stop` its own.

    Args:
        seal_keys: Of secrets in the log.
    """

    def __init__(self, seal_keys: SealKeys = NO_KEYS, *, quiet_s: float = QUIET_S) -> None:
        self._sealing = Sealing(seal_keys)
        self._quiet_s = quiet_s
        #: Guards what is told and not built in yet: the five below.
        self._told = threading.Condition()
        self._changes: dict[bytes, bytes | None] = {}
        #: Counts the calls of `begin`; what was built before one is of no use.
        self._begun = 0
        #: Of the commit up to which all is told; None while more of the whole is to come.
        self._reached: int | None = None
        self._wants_all_at: float | None = None
        self._is_closed = False
        #: Held while something is built.
        self._building = threading.Lock()
        self._is_hurried = False
        self._warm: WarmState | None = None
        self._stale: Sequence[Record] = ()
        #: What `_warm` was begun with.
        self._warm_begun = -1
        #: How long the last build took, of the thread's own time.
        self._build_s = 0.0
        self._thread: threading.Thread | None = None
        self.is_ready = False
        self.builds = 0

    # What is told; see `fanlog.log.replicated.state_feed.StateListener`.

    @property
    def wants_all(self) -> bool:
        wants_all_at = self._wants_all_at
        return wants_all_at is not None and time.monotonic() >= wants_all_at

    def begin(self) -> None:
        with self._told:
            self._changes = {}
            self._begun += 1
            self._reached = self._wants_all_at = None
            self.is_ready = False

    def put(self, changes: Sequence[StateChange]) -> None:
        with self._told:
            # Of a state that is to be told anew, nothing is kept.
            if self._wants_all_at is None:
                self._changes.update(changes)

    def reach(self, sequence: int) -> None:
        with self._told:
            self._reached = sequence
            self._told.notify()

    # Life.

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="fanlog-standby", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._told:
            self._is_closed = True
            self._told.notify()
        if self._thread is not None:
            self._thread.join()
        self._drop()

    def take(self, sequence: int, latest_deadline_s: float) -> ReadyState | None:
        """Give the state away, as of a commit; None if there is none that is exactly that.

        Called when nothing is told any more, until the next `begin`. Blocks while something is
        built, which is as long as a load at most.
        """
        self._is_hurried = True
        try:
            with self._building:
                self._build_in()
                warm, is_ready = self._warm, self.is_ready and self._reached == sequence
                found = None
                if warm is not None and is_ready:
                    found = ReadyState(warm.take(latest_deadline_s), self._stale)
                    self._warm = None
                self._drop()
                self.begin()
                return found
        finally:
            self._is_hurried = False

    def _run(self) -> None:
        while True:
            with self._told:
                self._told.wait_for(lambda: self._is_closed or self._has_work)
                if self._is_closed:
                    return
            with self._building:
                self._build_in()
            # Many commits write the same keys again and again.
            time.sleep(GATHER_S)

    @property
    def _has_work(self) -> bool:
        return self._reached is not None and (
            bool(self._changes) or self._warm_begun != self._begun
        )

    def _build_in(self) -> None:
        """Build in what is told so far, if it is all there is to know. With `_building` held."""
        with self._told:
            if not self._has_work:
                return
            changes, self._changes = self._changes, {}
            begun = self._begun
        if self._warm is None or self._warm_begun != begun:
            self._drop()
            self._load(changes)
        else:
            self._warm.change(changes.items())
            self._warm.settle()
        self._warm_begun = begun
        why_stale = "it cannot be read" if self._warm is None else self._warm.stale
        if why_stale:
            self._drop()
            log.debug("action=standby_state_stale reason=%s", why_stale)
        with self._told:
            if self._begun != begun:
                return
            self.is_ready = not why_stale
            if why_stale:
                self._changes = {}
                pause_s = max(self._quiet_s, QUIET_BUILDS * self._build_s)
                self._wants_all_at = time.monotonic() + pause_s

    def _load(self, changes: dict[bytes, bytes | None]) -> None:
        # Of this thread: on a busy machine it waits for its turn most of the time.
        begun_s = time.thread_time()
        opening = Opening(self._sealing)
        state = ((key, value) for key, value in sorted(changes.items()) if value is not None)
        try:
            with without_collector():
                self._warm = WarmState(self._paced(state), opening)
        except FanlogError as error:
            # The ledger finds the same when the term begins, and says so.
            log.warning("action=standby_state_failed error=%s", error)
            return
        self._stale = opening.stale
        self._build_s = time.thread_time() - begun_s
        self.builds += 1
        log.info("action=standby_state_ready keys=%d seconds=%.2f", len(changes), self._build_s)

    def _drop(self) -> None:
        if self._warm is not None:
            self._warm = None
            let_collect()
        self._stale = ()
        self.is_ready = False

    def _paced(self, items: Iterable[Item]) -> Iterator[Item]:
        for index, item in enumerate(items):
            if index % SLICE == SLICE - 1 and not self._is_hurried:
                time.sleep(PAUSE_S)
            yield item
