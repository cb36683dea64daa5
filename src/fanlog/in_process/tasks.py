"""Tasks: run the coroutines of an async callback, a bounded number at once, on one loop.

That is the loop on which `subscribe` was called, or one in a thread of the broker's for programs
without; never the loop of the core.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from fanlog.in_process.message import Message

#: Callbacks that return without waiting, one after the other, before other tasks have their turn.
TURN = 100


class Tasks:
    """At most `most` tasks that `call` for each message."""

    def __init__(
        self,
        call: Callable[[Message], Awaitable[None]],
        most: int,
        loop: asyncio.AbstractEventLoop,
        on_gone: Callable[[], None],
    ) -> None:
        self._call = call
        self._most = most
        self._loop = loop
        self._on_gone = on_gone
        self._queue: deque[Message] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Tasks that have not begun: one is enough.
        self._spare = 0
        #: Tasks that are in a callback, and a condition for those that wait for none to be.
        self._busy = 0
        self._at_rest = threading.Condition()
        self._is_woken = False
        self._is_over = False

    def put(self, messages: Iterable[Message]) -> None:
        self._queue.extend(messages)
        if self._is_woken or not self._queue:
            return
        self._is_woken = True
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            # The program has closed its loop; its callbacks cannot be called any more.
            self._on_gone()

    def put_next(self, message: Message) -> None:
        self.put([message])

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
            self._at_rest.wait_for(lambda: not self._busy, timeout_s)
            return self._busy

    def end(self) -> None:
        self._is_over = True
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._cancel)
            except RuntimeError:
                return

    def _begin(self) -> None:
        self._is_woken = False
        if self._queue and not self._spare and len(self._tasks) < self._most and not self._is_over:
            self._spare += 1
            task = self._loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        self._spare -= 1
        self._count(1)
        try:
            turns = 0
            while self._queue and not self._is_over:
                message = self._queue.popleft()
                # Begun when this one waits for something: then the next message need not.
                self._begin()
                await self._call(message)
                turns += 1
                if turns % TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._at_rest:
            self._busy += by
            if not self._busy:
                self._at_rest.notify_all()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
