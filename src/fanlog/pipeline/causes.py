"""What went wrong in Spark, as one sentence: without the traces of three languages."""

from __future__ import annotations

import re

from fanlog.errors import FanlogError

_LENGTH_MAX = 500
#: The last line of a Python trace of ours: module, class, sentence.
_OURS = re.compile(r"fanlog\.[\w.]+: (.+)")


def cause_of(error: Exception) -> str:
    """The sentence that a person can act on."""
    if isinstance(error, FanlogError):
        return error.message
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [found[1] for line in lines if (found := _OURS.fullmatch(line))]
    if ours:
        return ours[-1][:_LENGTH_MAX]
    first = lines[0] if lines else "no reason given"
    return f"{type(error).__name__}: {first}"[:_LENGTH_MAX]
