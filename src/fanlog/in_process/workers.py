"""Workers: the threads that call the callback of one subscription.

They take from one queue, so that a callback that blocks holds up no message but its own. One thread
is enough for callbacks that return at once, and any more would only fight for the interpreter: so
others are woken, or started, one each time that the queue was not empty for a moment.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from fanlog.in_process.message import Message

#: How long messages wait, in seconds, before one thread more is set to work.
HELP_S = 0.001
#: A thread that had nothing to do for so long ends, in seconds.
IDLE_S = 10.0


class Runner(Protocol):
    """Calls a callback for messages, a bounded number at once."""

    def put(self, messages: Iterable[Message]) -> None:
        """Call back for these; on the loop of the core."""

    def put_next(self, message: Message) -> None:
        """One more, from where a callback has just ended."""

    def clear(self) -> list[Message]:
        """Take out the messages that no callback was called for yet."""

    def wait(self, timeout_s: float) -> int:
        """Wait until no callback runs; the number of those that do after so long."""

    def end(self) -> None:
        """Call back no more: what still runs is left alone, or cancelled."""


class Workers:
    """At most `most` threads that `call` for each message.

    `help_soon` has `help` called on the loop of the core after so many seconds.
    """

    def __init__(
        self,
        call: Callable[[Message], None],
        most: int,
        name: str,
        help_soon: Callable[[float, Callable[[], None]], object],
        on_thread: Callable[[], None],
    ) -> None:
        self._call = call
        self._most = most
        self._name = name
        self._help_soon = help_soon
        self._on_thread = on_thread
        self._queue: deque[Message] = deque()
        self._lock = threading.Lock()
        self._at_rest = threading.Condition(self._lock)
        self._threads = 0
        #: The lock that each idle thread waits at; the one that came last is woken first.
        self._idle: list[threading.Lock] = []
        self._is_helped = False
        self._is_over = False

    def put(self, messages: Iterable[Message]) -> None:
        self._queue.extend(messages)
        if self._threads == len(self._idle):
            with self._lock:
                if self._threads == len(self._idle):
                    self._set_one_to_work()
        if not self._is_helped and self._queue:
            self._is_helped = True
            self._help_soon(HELP_S, self._help)

    def put_next(self, message: Message) -> None:
        # Its own thread looks at the queue next.
        self._queue.append(message)

    def clear(self) -> list[Message]:
        found: list[Message] = []
        while self._queue:
            try:
                found.append(self._queue.popleft())
            except IndexError:
                break
        return found

    def wait(self, timeout_s: float) -> int:
        with self._at_rest:
            self._at_rest.wait_for(self._is_resting, timeout_s)
            return self._threads - len(self._idle)

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
            self._threads -= len(idle)
            for lock in idle:
                lock.release()

    def _is_resting(self) -> bool:
        return self._threads == len(self._idle) and not self._queue

    def _help(self) -> None:
        self._is_helped = False
        if self._queue:
            with self._lock:
                self._set_one_to_work()
            self._is_helped = True
            self._help_soon(HELP_S, self._help)

    def _set_one_to_work(self) -> None:
        if self._idle:
            self._idle.pop().release()
        elif self._threads < self._most and not self._is_over:
            self._threads += 1
            threading.Thread(
                target=self._work, name=f"{self._name}-{self._threads}", daemon=True
            ).start()

    def _work(self) -> None:
        self._on_thread()
        resting = threading.Lock()
        resting.acquire()
        queue, call = self._queue, self._call
        while True:
            try:
                message = queue.popleft()
            except IndexError:
                if not self._rest(resting):
                    return
                continue
            call(message)
            # The last message must not live on here until the next one comes.
            del message

    def _rest(self, resting: threading.Lock) -> bool:
        """Wait for work; whether there is any, or the thread is to end."""
        with self._lock:
            if self._queue:
                return True
            if self._is_over:
                self._threads -= 1
                self._at_rest.notify_all()
                return False
            self._idle.append(resting)
            self._at_rest.notify_all()
        if resting.acquire(timeout=IDLE_S):
            return self._has_more()
        with self._lock:
            if resting in self._idle:
                self._idle.remove(resting)
                self._threads -= 1
                return False
        # Woken at the last moment.
        resting.acquire()
        return self._has_more()

    def _has_more(self) -> bool:
        """Whether a thread that was woken is to work, and not to end."""
        return not self._is_over or bool(self._queue)
