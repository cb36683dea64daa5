"""An event loop in a thread of its own, and calls to it from all others."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

import uvloop

from fanlog.errors import FailedPrecondition

T = TypeVar("T")


class LoopThread:
    """One loop, from `start` to `stop`. Methods may be called from any thread but its own."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._inbox: deque[_Call[Any]] = deque()
        #: Calls that were begun and have no answer; used on the loop.
        self._under_way: set[_Call[Any]] = set()
        self._is_woken = False
        self._is_over = False

    def start(self) -> None:
        self._thread.start()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop, and wait for what it returns or raises.

        Raises:
            FailedPrecondition: Called on the loop itself, which would wait for itself.
        """
        self.refuse_own_thread()
        call = _Call(make)
        self._inbox.append(call)
        if not self._is_woken:
            # Calls that come before the loop has looked need not wake it once more.
            self._is_woken = True
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._begin_calls)
        if self._is_over:
            self._refuse_calls()
        return call.wait()

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """As `run`, without waiting."""
        coroutine = make()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError as error:
            coroutine.close()
            raise _stopped() from error

    def refuse_own_thread(self) -> None:
        if threading.get_ident() == self._thread.ident:
            raise FailedPrecondition(
                "this is the broker's own thread, which cannot wait for itself: call the broker "
                "from a callback, or from a thread of the program, not from a done-callback of a "
                "future"
            )

    def stop(self) -> None:
        """End the loop, and the thread with it; calls that are under way are refused."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _refuse_calls(self) -> None:
        while self._inbox:
            with suppress(IndexError):
                self._inbox.popleft().refuse(_stopped())

    def _begin_calls(self) -> None:
        self._is_woken = False
        inbox = self._inbox
        while inbox:
            call = inbox.popleft()
            self._under_way.add(call)
            call.begin(self._under_way.discard)

    def _run(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            self._cancel_calls()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()
            self._is_over = True
            self._refuse_calls()
            # Those that were begun while the tasks ended.
            self._cancel_calls()

    def _cancel_calls(self) -> None:
        for call in list(self._under_way):
            call.cancel()


class _Call(Generic[T]):
    """One call that a thread waits for; a lock is the cheapest thing to wait at.

    Its coroutine is driven here: most calls wait once, for a commit, and a task would cost them a
    turn of the loop more. So it may await anything, but is in no task: `asyncio.timeout` needs one.
    """

    __slots__ = ("_coroutine", "_done", "_error", "_has_ended", "_make", "_on_end", "_result")

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._done = threading.Lock()
        self._done.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._has_ended = False

    def begin(self, on_end: Callable[[_Call[T]], None]) -> None:
        """Begin the call, on the loop; it is `on_end` when it has its answer."""
        self._on_end = on_end
        try:
            self._coroutine = self._make()
        except BaseException as error:
            self._end(error)
        else:
            self._step(None)

    def cancel(self) -> None:
        """The loop is about to end: whatever the call waits for will not come."""
        with suppress(BaseException):
            self._coroutine.throw(asyncio.CancelledError())
        with suppress(BaseException):
            self._coroutine.close()
        self._end(_stopped())

    def _step(self, _: object) -> None:
        if self._has_ended:
            return
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as answer:
            self._result = answer.value
            self._end(None)
        except asyncio.CancelledError:
            self._end(_stopped())
        except BaseException as error:
            self._end(error)
        else:
            if awaited is None:
                asyncio.get_running_loop().call_soon(self._step, None)
            else:
                # As a task says to the future that it has heard.
                awaited._asyncio_future_blocking = False
                awaited.add_done_callback(self._step)

    def _end(self, error: BaseException | None) -> None:
        self._error, self._has_ended = error, True
        self._on_end(self)
        self._done.release()

    def refuse(self, error: BaseException) -> None:
        self._error = error
        self._done.release()

    def wait(self) -> T:
        self._done.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                # The error has this frame in its traceback, and the frame has the error.
                self._error = None
        return self._result  # type: ignore[return-value]


def _stopped() -> FailedPrecondition:
    return FailedPrecondition("the broker was stopped; make another one")
