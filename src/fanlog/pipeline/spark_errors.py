"""Errors of Spark as one sentence each, without the traces of three languages."""

from __future__ import annotations

import re

from fanlog.errors import FanlogError

_LENGTH_MAX = 500
#: The last line of a Python trace of ours: module, class, sentence.
_OURS = re.compile(r"fanlog\.[\w.]+: (.+)")
#: A condition of Spark's, which it has a name for, wherever it stands in a line.
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] (.+?)(?:\s+SQLSTATE: \w+)?$")
#: An error of Java's that led to another: class, sentence.
_CAUSED_BY = re.compile(r"Caused by: [\w.$]+: (.+)")
#: The details of a gRPC call that a Connect server did not answer.
_DETAILS = re.compile(r'details = "(.+)"')
#: An error of Java's, wherever it stands in a line: class, sentence.
_RAISED = re.compile(r"(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
#: Signs that a process of Spark's that runs Python has died.
_CRASHED = re.compile(
    r"java\.io\.\w*Exception|java\.net\.SocketException|pyspark\.daemon"
    r"|Python worker (?:exited|failed|died)"
)
#: Texts before the error of a task or a query that say nothing about it.
_WRAPPING = re.compile(r"An error occurred while calling |\[STREAM_FAILED\] ")


def cause_of(error: Exception) -> str:
    """The sentence that a person can act on."""
    if isinstance(error, FanlogError):
        return error.message
    lines = _lines(error)
    if ours := _ours(lines):
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
        raised = [_RAISED.split(line)[-1] for line in lines[1:] if _RAISED.search(line)]
        told = [sentence for sentence in raised if sentence and not _WRAPPING.match(sentence)]
        if told:
            return told[-1][:_LENGTH_MAX]
    return f"{type(error).__name__}: {first}"[:_LENGTH_MAX]


def is_crash(error: Exception) -> bool:
    """Whether the work failed because a process died: to try again may help."""
    return not _ours(_lines(error)) and _CRASHED.search(str(error)) is not None


def _lines(error: Exception) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]


def _ours(lines: list[str]) -> list[str]:
    """The sentences of our own errors, raised in a task or elsewhere."""
    return [found[1] for line in lines if (found := _OURS.fullmatch(line))]
