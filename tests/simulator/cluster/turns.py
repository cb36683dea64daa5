"""Threads that take turns on virtual time: one runs, until it waits for something.

The code of the product is patched to use these for its threads, locks and events, and does not know
it. A thread gives its turn away when it sleeps, and where it waits for a lock, an event or another
thread; between these it is alone. So a world with threads is as repeatable as one without.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar
from unittest import mock

from fanlog.broker import committer
from fanlog.cluster import renewing
from fanlog.log.replicated import follower, replica, replicated

Item = TypeVar("Item")


class Killed(BaseException):
    """The process that the thread belongs to was killed."""


class Process(Protocol):
    """What threads belong to: it may stand still."""

    #: In virtual seconds; in the past while it runs.
    stands_until: float
    threads: list[Turn]


class Bystander:
    """A process that is no machine of the cluster, and never stands still."""

    stands_until = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.threads: list[Turn] = []


def _closed() -> threading.Lock:
    """A gate: one thread acquires it, and goes on when another one releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Turn:
    """One thread. Its methods are called on it, but for `start` and `kill`."""

    def __init__(self, turns: Turns, body: Callable[[], object], process: Process) -> None:
        self._turns = turns
        self._body = body
        self.process = process
        self.is_over = False
        self.is_killed = False
        #: Counts the waits: a wake for an earlier one is too late.
        self.waits = 0
        self.go = _closed()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._turns.wake(self, 0.0)

    def kill(self) -> None:
        """Let it end where it waits; returns when it has."""
        if not self.is_over:
            self.is_killed = True
            self._turns.switch_to(self)
            assert self.is_over, "a thread that was killed has waited again"

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.is_killed:
                self._body()
        except Killed:
            pass
        except BaseException as error:
            self._turns.mistakes.append(error)
        finally:
            self.is_over = True
            self._turns.back.release()


class Turns:
    """The clock, and whose turn it is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Turn | None = None
        self.back = _closed()
        #: What ended a thread, or an event, unexpectedly.
        self.mistakes: list[BaseException] = []
        self._count = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + max(0.0, seconds), self._count, call))

    def wake(self, turn: Turn, seconds: float) -> None:
        """Let a thread that waits now go on then, if it still waits for the same."""
        waits = turn.waits

        def go() -> None:
            if turn.is_over or turn.waits != waits:
                return
            late_s = turn.process.stands_until - self.now
            if late_s > 0:
                self.after(late_s, go)
            else:
                self.switch_to(turn)

        self.after(seconds, go)

    def run(self, until: float) -> None:
        """Let time pass; ends early with the first mistake."""
        while self._due and self._due[0][0] <= until and not self.mistakes:
            self.now, _, call = heapq.heappop(self._due)
            call()
        self.now = max(self.now, until)

    def switch_to(self, turn: Turn) -> None:
        before, self.current = self.current, turn
        turn.go.release()
        self.back.acquire()
        self.current = before

    def sleep(self, seconds: float) -> None:
        turn = self._own()
        self.wake(turn, seconds)
        self._wait(turn)

    def park(self, waiters: list[Turn], seconds: float | None) -> None:
        """Wait until the thread is woken as one of `waiters`, or so long."""
        turn = self._own()
        waiters.append(turn)
        if seconds is not None:
            self.wake(turn, seconds)
        self._wait(turn)
        if turn in waiters:
            waiters.remove(turn)

    def wake_all(self, waiters: list[Turn]) -> None:
        woken = list(waiters)
        waiters.clear()
        for turn in woken:
            self.wake(turn, 0.0)

    def _own(self) -> Turn:
        assert self.current is not None, "only a thread of a node can wait"
        if self.current.is_killed:
            raise Killed
        return self.current

    def _wait(self, turn: Turn) -> None:
        self.back.release()
        turn.go.acquire()
        turn.waits += 1
        if turn.is_killed:
            raise Killed

    # What stands for `threading` in the code of the product.

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Have the threads of the product's nodes take turns, while inside."""
        stand_in = SimpleNamespace(
            Lock=lambda: TurnLock(self),
            Event=lambda: TurnEvent(self),
            Thread=lambda target, name, daemon: TurnThread(self, target),
        )
        patches: list[Any] = [
            mock.patch.object(module, "threading", stand_in)
            for module in (committer, follower, renewing, replica, replicated)
        ]
        patches.append(mock.patch.object(committer, "SimpleQueue", partial(TurnQueue, self)))
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


class TurnLock:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_held = False
        self._waiters: list[Turn] = []

    def __enter__(self) -> None:
        while self._is_held:
            self._turns.park(self._waiters, None)
        self._is_held = True

    def __exit__(self, *args: object) -> None:
        self._is_held = False
        self._turns.wake_all(self._waiters)


class TurnEvent:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_set = False
        self._waiters: list[Turn] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._turns.wake_all(self._waiters)

    def wait(self, seconds: float) -> bool:
        if not self._is_set:
            self._turns.park(self._waiters, seconds)
        return self._is_set


class TurnQueue(Generic[Item]):
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._items: deque[Item] = deque()
        self._waiters: list[Turn] = []

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._turns.wake_all(self._waiters)

    def get(self) -> Item:
        while not self._items:
            self._turns.park(self._waiters, None)
        return self._items.popleft()


class TurnThread:
    """Belongs to the process of the thread that made it."""

    def __init__(self, turns: Turns, target: Callable[[], object]) -> None:
        assert turns.current is not None
        self._turns = turns
        self._turn = Turn(turns, target, turns.current.process)

    def start(self) -> None:
        turn = self._turn
        turn.process.threads.append(turn)
        turn.start()

    def join(self) -> None:
        while not self._turn.is_over:
            self._turns.sleep(0.001)
