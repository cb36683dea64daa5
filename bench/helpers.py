"""Load from other processes: they connect, wait for the word, do their work and report."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from bench.session import STEP_S, Stalled

_JOIN_S = 30
#: A new process imports for long on a busy machine.
_READY_S = 180

#: What a helper does: connect, call the function it is given to wait for the word, and return.
Work = Callable[..., Any]


@contextmanager
def helping(work: Work, arguments: Sequence[tuple[Any, ...]]) -> Iterator[Helpers]:
    """Start a process for each tuple of arguments; all are connected when this returns."""
    helpers = Helpers(work, arguments)
    try:
        helpers.wait_until_ready()
        yield helpers
    finally:
        helpers.stop()


class Helpers:
    """The processes, and a pipe to each."""

    #: Processor time of all from the word to their results, once those are there.
    cpu_s = 0.0

    def __init__(self, work: Work, arguments: Sequence[tuple[Any, ...]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for each in arguments:
            mine, theirs = context.Pipe()
            process = context.Process(target=_help, args=(work, each, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)

    def wait_until_ready(self) -> None:
        for pipe in self._pipes:
            _receive(pipe, _READY_S)

    def begin(self) -> None:
        for pipe in self._pipes:
            pipe.send(True)

    def results(self, timeout_s: float = STEP_S) -> list[Any]:
        """Wait until all are done; what they returned."""
        found = [_receive(pipe, timeout_s) for pipe in self._pipes]
        self.cpu_s = sum(cpu_s for _, cpu_s in found)
        return [answer for answer, _ in found]

    def stop(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.terminate()
            process.join(_JOIN_S)


def _receive(pipe: Connection, timeout_s: float) -> Any:
    try:
        if not pipe.poll(timeout_s):
            raise Stalled(f"a process of the load was not done after {timeout_s:.0f} s")
        answer = pipe.recv()
    except EOFError as error:
        raise Stalled("a process of the load ended early") from error
    if isinstance(answer, _Failed):
        raise Stalled(answer.reason)
    return answer


class _Failed:
    """A helper's error, as text: not every error can be sent."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _help(work: Work, arguments: tuple[Any, ...], pipe: Connection) -> None:
    # Ctrl-C reaches the whole terminal; the parent ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    began = 0.0

    def ready() -> None:
        nonlocal began
        pipe.send(True)
        pipe.recv()
        began = time.process_time()

    try:
        answer = work(ready, *arguments)
    except (OSError, Stalled) as error:
        pipe.send(_Failed(str(error) or type(error).__name__))
    else:
        pipe.send((answer, time.process_time() - began))
