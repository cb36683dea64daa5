"""The words of a .proto source, with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown

Kind = Literal["name", "int", "float", "string", "sign", "end"]

_WORDS = re.compile(
    r"""
    (?P<skip>[ \t\r\n\f\v]+ | //[^\n]* | /\*.*?\*/)
    | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<int>0[xX][0-9a-fA-F]+ | \d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<sign>[=;{}\[\]()<>,.\-+:/])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Word(NamedTuple):
    kind: Kind
    text: str
    line: int
    column: int


def scan(source: str) -> Iterator[Word]:
    """Give the words in order, and an `end` after the last.

    Raises:
        InvalidArgument: Something that no .proto has, with its place.
    """
    position, line, line_start = 0, 1, 0
    while position < len(source):
        match = _WORDS.match(source, position)
        column = position - line_start + 1
        if match is None:
            raise wrong(Word("sign", source[position], line, column), "a word of a .proto")
        kind, text = match.lastgroup, match[0]
        assert kind is not None
        if kind != "skip":
            yield Word(kind, text, line, column)  # type: ignore[arg-type]
        lines = text.count("\n")
        if lines:
            line += lines
            line_start = position + text.rindex("\n") + 1
        position = match.end()
    yield Word("end", "", line, position - line_start + 1)


def wrong(word: Word, expected: str) -> InvalidArgument:
    """Make the error of a word that stands where another was expected."""
    found = "the end" if word.kind == "end" else shown(word.text)
    return refusal(word, f"expected {expected}, found {found}")


def refusal(word: Word, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"the .proto definition is wrong at line {word.line}, column {word.column}: {problem}"
    )


def text_of(word: Word) -> str:
    """Give the content of a quoted string."""

    def plain(match: re.Match[str]) -> str:
        octal, hexadecimal, other = match.groups()
        if octal:
            return chr(int(octal, 8) & 0xFF)
        return chr(int(hexadecimal, 16)) if hexadecimal else _PLAIN.get(other, other)

    return _ESCAPES.sub(plain, word.text[1:-1])
