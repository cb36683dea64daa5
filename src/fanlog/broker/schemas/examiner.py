"""Examiners: they answer questions about schemas, at once or in a process of their own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Protocol

from fanlog import limits
from fanlog.broker.schemas import schema_worker
from fanlog.errors import InvalidArgument, Unavailable
from fanlog.schema.examination import Answer, Question, answer

_WORK = {
    "definition": "compiling the definition",
    "breaks": "comparing the revisions",
    "messages": "checking the message",
    "transformed": "transforming the message",
}


#: How a process ends that takes too much time, or too much memory: in Python or in a library.
_TOO_MUCH = (-signal.SIGPROF, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV, 1)


class Examiner(Protocol):
    async def ask(self, question: Question) -> Answer:
        """Answer a question.

        Raises:
            InvalidArgument: A definition is wrong, or takes more than it may.
        """

    def close(self) -> None:
        """Ask no more."""


class AtOnce:
    """Answers here and now: for a process that has no other work meanwhile."""

    async def ask(self, question: Question) -> Answer:
        return answer(question)

    def close(self) -> None:
        pass


class Apart:
    """Answers from another process, one question after the other.

    The process is begun with the first question, for it takes some tenths of a second, and ended
    when there were none for a while. One that is ended by the system is begun anew.
    """

    def __init__(
        self,
        *,
        seconds: float = limits.SCHEMA_PROCESS_S,
        size_max: int = limits.SCHEMA_PROCESS_BYTES_MAX,
    ) -> None:
        """Give each question so much processor time, and the process so many bytes of memory."""
        self._seconds = seconds
        self._size_max = size_max
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def ask(self, question: Question) -> Answer:
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            if self._is_closed:
                raise Unavailable("the server is stopping")
            try:
                return await asyncio.to_thread(self._ask_process, question)
            finally:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(limits.SCHEMA_PROCESS_IDLE_S, self._end)

    @property
    def process_id(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        self._end()

    def _ask_process(self, question: Question) -> Answer:
        """Ask, in a thread: this blocks."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        # For a process that neither works nor ends.
        timer = threading.Timer(limits.SCHEMA_PROCESS_WAIT_S, process.kill)
        timer.daemon = True
        timer.start()
        try:
            schema_worker.write_question(process.stdin, question)
            reply = schema_worker.read_reply(process.stdout)
        except BrokenPipeError:
            reply = None
        finally:
            timer.cancel()
        if reply is None:
            code = process.wait()
            self._end()
            if code not in _TOO_MUCH:
                raise Unavailable("the process that checks schemas was ended; try again")
            raise InvalidArgument(
                f"{_WORK[question.about]} takes more than {self._seconds:g} s of processor time "
                f"or {self._size_max} bytes of memory"
            )
        if reply.is_last:
            self._end()
        if reply.refused is not None:
            raise InvalidArgument(reply.refused)
        return reply.answer

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        # Not from the folder that the server happens to stand in.
        command = [sys.executable, "-P", "-m", schema_worker.__name__]
        command += [str(self._seconds), str(self._size_max)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise Unavailable(f"no process can be begun to check schemas: {error}") from None
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # A question that the process did not live to read is still in the pipe's buffer.
                with suppress(BrokenPipeError):
                    pipe.close()
