"""Definitions compiled for one broker: kept while they fit, and never at the loop's expense.

Compiling and checking are counted in steps. Counted work runs in a thread when it is large; work of
a library, which holds the interpreter, is first asked of an examiner, in another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fanlog import limits
from fanlog.broker.schemas.examiner import Examiner
from fanlog.errors import InvalidArgument
from fanlog.model.resources import Encoding, SchemaType
from fanlog.schema import Compiled, Mismatch, compile_schema
from fanlog.schema.examination import Answer, Question, answer
from fanlog.schema.sized_cache import SizedCache

#: Definitions longer than this are compiled in a thread.
COMPILED_INLINE_CHARACTERS_MAX = 4_000
#: Threads that compile, check and transform: they share the interpreter with the loop, and hold
#: their input in memory.
THREADS_MAX = 2

T = TypeVar("T")


class _Told(Mismatch):
    """A mismatch that another process has put in words, its place included."""

    def __str__(self) -> str:
        return self.problem


class Definitions:
    """Compiles definitions, and has messages checked against them."""

    def __init__(self, examiner: Examiner) -> None:
        #: Answers questions that may take long; a server has one that can be ended.
        self.examiner = examiner
        self._kept: SizedCache[tuple[SchemaType, str], Compiled] = SizedCache(
            limits.SCHEMA_CACHE_BYTES_MAX
        )
        self._threads = asyncio.Semaphore(THREADS_MAX)

    @property
    def size_bytes(self) -> int:
        """About how much memory the definitions hold that are kept."""
        return self._kept.size_bytes

    async def compile_once(self, kind: SchemaType, definition: str) -> Compiled:
        """A definition of a revision, compiled; raises InvalidArgument if it is wrong."""
        key = kind, definition
        known = self._kept.get(key)
        if known is None:
            known = await self.apart(
                len(definition), COMPILED_INLINE_CHARACTERS_MAX, compile_schema, kind, definition
            )
            self._kept.put(key, known, known.size_bytes)
        return known

    async def ask(self, question: Question) -> Answer:
        """Answer a question about definitions that are not kept; raises InvalidArgument."""
        if question.type == "JSON":
            return await self.examiner.ask(question)
        return await self.apart(question.size, COMPILED_INLINE_CHARACTERS_MAX, answer, question)

    async def check(
        self, schema: Compiled, definition: str, data: bytes, encoding: Encoding
    ) -> None:
        """Check a message that is not short; raises Mismatch."""
        size, short = len(data), limits.SCHEMA_SHORT_BYTES
        if not await self.apart(size, short, schema.is_long, data):
            await self.apart(size, short, schema.validate, data, encoding)
            return
        question = Question(
            about="messages",
            type=schema.type,
            definition=definition,
            encoding=encoding,
            messages=[data],
        )
        try:
            found = await self.examiner.ask(question)
        except InvalidArgument as error:
            raise Mismatch(error.message) from None
        [sentence] = found.sentences
        if sentence is not None:
            raise _Told(sentence)

    async def apart(self, size: int, size_max: int, work: Callable[..., T], *given: object) -> T:
        """Do small work at once, and large work where it does not keep the loop."""
        if size <= size_max:
            return work(*given)
        async with self._threads:
            return await asyncio.to_thread(work, *given)
