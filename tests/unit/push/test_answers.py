"""The first words of an endpoint's answer: printable, few, whatever its bytes are."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.push.rules.answers import first_words, first_words_of, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("  two\r\n\tlines\u2028\u00a0here ", "two lines here"),
        ("\x1b[31mred\x1b[0m\x07\x00", "[31mred[0m"),
        ("left\u202eright\u2066\u200f\u200b", "leftright"),
        ("caf\u00e9 \u65e5\u672c \U0001f600", "caf\u00e9 \u65e5\u672c \U0001f600"),
        ("\ufffdbroken\ufffd \ue000\ud800", "broken"),
        ("", ""),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_two_hundred_characters():
    assert first_words("x" * 1_000) == "x" * limits.PUSH_ANSWER_CHARACTERS == "x" * 200
    # What is left out does not count.
    assert first_words("\x00" * 500 + "y" * 300) == "y" * 200


@pytest.mark.parametrize(
    ("content", "content_type", "encoding", "shown"),
    [
        (b'{"error": "no such order"}', "application/json", "", '{"error": "no such order"}'),
        ("é".encode(), "text/plain; charset=utf-8", "identity", "é"),
        ("é".encode("latin-1"), 'text/plain; charset="ISO-8859-1"', "", "é"),
        ("é".encode("utf-16"), "text/plain;charset=UTF-16", "", "é"),
        ("日本".encode("shift_jis"), "text/html; a=b; charset=Shift_JIS", "", "日本"),
        # No charset that Python has and text does not: read as UTF-8.
        (b"abc", "text/plain; charset=zlib", "", "abc"),
        (b"abc", "text/plain; charset=../../x", "", "abc"),
        (b"abc\xe2\x82", "text/plain", "", "abc"),
        (b"\xff\xfe\x00", "", "", ""),
        (b"\x1f\x8b\x08abc", "text/plain", "gzip", ""),
    ],
)
def test_first_words_of_a_body(content, content_type, encoding, shown):
    assert first_words_of(content, content_type, encoding) == shown
