"""A process that answers questions about schemas, and can be ended when it takes too long.

The library that checks JSON Schemas holds the interpreter while it works: no thread beside it runs,
and nothing can stop it. So it works here, with so much processor time for each question, and so
much memory: who takes more is ended by the system, and whoever asked finds the pipe closed.

Questions and answers are JSON, each with its length before it.
"""

from __future__ import annotations

import base64
import resource
import signal
import struct
import sys
from typing import IO, Any, cast

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


def read_answer(pipe: IO[bytes]) -> Answer | None:
    """The answer; None when the process has ended.

    Raises:
        InvalidArgument: That was the answer.
    """
    found = _read(pipe)
    if found is None:
        return None
    if "refused" in found:
        raise InvalidArgument(found["refused"])
    return Answer(found["sentences"], [base64.b64decode(one) for one in found["made"]])


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
    """Answer until nobody asks any more."""
    _limit(size_max)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while (asked := _read(questions)) is not None:
        asked["messages"] = [base64.b64decode(one) for one in asked["messages"]]
        # Unlike the time of day, this does not run while others have the processor.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        said: dict[str, Any]
        try:
            found = answer(Question(**asked))
            said = {
                "sentences": found.sentences,
                "made": [base64.b64encode(one).decode() for one in found.made],
            }
        except InvalidArgument as error:
            said = {"refused": error.message}
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(answers, said)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > limits.SCHEMA_PROCESS_KIB_MAX:
            return


def _limit(size_max: int) -> None:
    """Have the system end this process rather than let it take more than it may."""
    # Whoever stops the server from a terminal stops it there; this process ends with its pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for kind, size in ((resource.RLIMIT_DATA, size_max), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or size <= hard:
            resource.setrlimit(kind, (size, hard))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
