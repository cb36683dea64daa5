"""Remarks beside an answer: trailing metadata in gRPC, headers in REST.

Values are one line of ASCII each; other characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog.model import attributes

Remarks = tuple[tuple[str, str], ...]

#: A sentence for the caller about a call that is fine; there may be several.
HINT = attributes.HINT


def make_hints(sentences: Iterable[str]) -> Remarks:
    return tuple((HINT, _line(sentence)) for sentence in sentences)


def _line(sentence: str) -> str:
    text = " ".join(sentence.split()).encode("ascii", "backslashreplace").decode()
    return "".join(one if one.isprintable() else "?" for one in text)
