"""Calls to a loop in a thread of its own: their answers, their errors, and how they are ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator

import pytest

from fanlog.errors import FailedPrecondition
from fanlog.in_process.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("loop")
    made.start()
    yield made
    if not made.loop.is_closed():
        made.stop()


def test_a_call_may_wait_for_anything(thread: LoopThread) -> None:
    async def answer() -> list[int]:
        found = [1]
        await asyncio.sleep(0)
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 2)
        found.append(await future)
        found += await asyncio.gather(asyncio.sleep(0, 3), asyncio.sleep(0, 4))
        return found

    assert thread.run(answer) == [1, 2, 3, 4]


def test_a_call_gets_the_error_of_what_it_waits_for(thread: LoopThread) -> None:
    async def fail() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, ValueError("no"))
        try:
            await future
        except ValueError:
            raise KeyError("told") from None
        return "not told"

    with pytest.raises(KeyError, match="told"):
        thread.run(fail)


def test_a_call_that_cannot_be_begun_raises(thread: LoopThread) -> None:
    def make() -> Coroutine[None, None, None]:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        thread.run(make)


def test_a_call_that_comes_while_the_loop_ends_is_refused(thread: LoopThread) -> None:
    told: list[str] = []

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    def call() -> None:
        with pytest.raises(FailedPrecondition) as refused:
            thread.run(wait)
        told.append(str(refused.value))

    caller = threading.Thread(target=call)

    async def come_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            caller.start()
            while not thread._under_way:
                await asyncio.sleep(0)

    thread.submit(come_late)
    # Answered when the task has begun.
    thread.run(_nothing)
    thread.stop()
    caller.join(10)
    assert told == ["the broker was stopped; make another one"]


async def _nothing() -> None:
    pass


@pytest.mark.parametrize("comes_late", [False, True])
def test_a_stop_refuses_calls_under_way_after_they_have_cleaned_up(
    thread: LoopThread, comes_late: bool
) -> None:
    waits, told, cleaned, failed = threading.Event(), [], [], []
    thread.loop.set_exception_handler(lambda _, context: failed.append(context))

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        waits.set()
        try:
            await future
        finally:
            cleaned.append(True)
            if comes_late:
                future.set_result(None)

    def call() -> None:
        try:
            thread.run(wait)
        except FailedPrecondition as error:
            told.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    assert waits.wait(10)
    thread.stop()
    caller.join(10)
    assert told == ["the broker was stopped; make another one"]
    assert (cleaned, failed) == ([True], [])
