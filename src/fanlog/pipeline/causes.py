"""What went wrong in Spark, as one sentence: without the traces of three languages."""

from __future__ import annotations

import re

from fanlog.errors import FanlogError

_LENGTH_MAX = 500
#: The last line of a Python trace of ours: module, class, sentence.
_OURS = re.compile(r"fanlog\.[\w.]+: (.+)")
#: A condition of Spark's, which it has a name for, wherever it stands in a line.
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] (.+?)(?:\s+SQLSTATE: \w+)?$")
#: What Java says of an error that led to another: class, sentence.
_CAUSED_BY = re.compile(r"Caused by: [\w.$]+: (.+)")
#: What gRPC says of a call that a Connect server did not answer.
_DETAILS = re.compile(r'details = "(.+)"')
#: What stands before the error of a task or a query, and says nothing about it.
_WRAPPING = re.compile(r"An error occurred while calling |\[STREAM_FAILED\] ")


def cause_of(error: Exception) -> str:
    """The sentence that a person can act on."""
    if isinstance(error, FanlogError):
        return error.message
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [found[1] for line in lines if (found := _OURS.fullmatch(line))]
    if ours:
        return ours[-1][:_LENGTH_MAX]
    details = [found[1] for line in lines if (found := _DETAILS.fullmatch(line))]
    if details:
        return details[-1][:_LENGTH_MAX]
    first = lines[0] if lines else "no reason given"
    if _WRAPPING.match(first):
        conditions = [found[1] for line in lines[1:] if (found := _CONDITION.search(line))]
        causes = [found[1] for line in lines if (found := _CAUSED_BY.fullmatch(line))]
        if conditions or causes:
            return " ".join((*conditions[-1:], *causes[-1:]))[:_LENGTH_MAX]
    return f"{type(error).__name__}: {first}"[:_LENGTH_MAX]
