"""A process that answers questions about schemas, and can be ended when it takes too long.

The library that checks JSON Schemas holds the interpreter while it works: no thread beside it runs,
and nothing can stop it. So it works here, with so much processor time for each question, and so
much memory: if it takes more, the system ends it, and the asking process finds the pipe closed.

Questions and answers are JSON, each with its length before it.
"""

from __future__ import annotations

import base64
import resource
import signal
import struct
import sys
from typing import IO, Any, NamedTuple, cast

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.schema.examination import Answer, Question, answer

_LENGTH = struct.Struct("<I")


def write_question(pipe: IO[bytes], question: Question) -> None:
    _write(
        pipe,
        {
            "about": question.about,
            "type": question.type,
            "definition": question.definition,
            "level": question.level,
            "earlier": question.earlier,
            "encoding": question.encoding,
            "messages": [base64.b64encode(one).decode() for one in question.messages],
        },
    )


class Reply(NamedTuple):
    """An answer, or the sentence of a refusal; and whether the process ends after it."""

    answer: Answer
    refused: str | None
    is_last: bool


def read_reply(pipe: IO[bytes]) -> Reply | None:
    """The reply to a question; None when the process has ended."""
    found = _read(pipe)
    if found is None:
        return None
    made = [base64.b64decode(one) for one in found["made"]]
    return Reply(Answer(found["sentences"], made), found["refused"], found["is_last"])


def _write(pipe: IO[bytes], value: dict[str, Any]) -> None:
    text = orjson.dumps(value)
    pipe.write(_LENGTH.pack(len(text)) + text)
    pipe.flush()


def _read(pipe: IO[bytes]) -> dict[str, Any] | None:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    text = pipe.read(size)
    return cast("dict[str, Any]", orjson.loads(text)) if len(text) == size else None


def main(seconds: float, size_max: int) -> None:
    """Answer until the pipe is closed."""
    _limit(size_max)
    # A process begins with the mark of the one that began it.
    memory_max = max(limits.SCHEMA_PROCESS_KIB_MAX, _memory())
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    is_last = False
    while not is_last and (asked := _read(questions)) is not None:
        asked["messages"] = [base64.b64decode(one) for one in asked["messages"]]
        found, refused = Answer(), None
        # Unlike the time of day, this does not run while others have the processor.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            found = answer(Question(**asked))
        except InvalidArgument as error:
            refused = error.message
        signal.setitimer(signal.ITIMER_PROF, 0)
        is_last = _memory() > memory_max
        made = [base64.b64encode(one).decode() for one in found.made]
        said = {"sentences": found.sentences, "made": made}
        _write(answers, said | {"refused": refused, "is_last": is_last})


def _memory() -> int:
    """The most that this process has had, in KiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Where others count in KiB, macOS counts in bytes.
    return most // 1024 if sys.platform == "darwin" else most


def _limit(size_max: int) -> None:
    """Have the system end this process rather than let it take more than it may."""
    # Ctrl-C in a terminal is for the server; this process ends with its pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for kind, size in ((resource.RLIMIT_DATA, size_max), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or size <= hard:
            resource.setrlimit(kind, (size, hard))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
