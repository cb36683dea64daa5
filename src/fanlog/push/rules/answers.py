"""The words of an endpoint's answer that a dead letter keeps: printable text, and little of it.

An answer is a stranger's bytes. It may be in any charset or none, and hold characters that move a
cursor or turn text around; it ends up in an attribute, in terminals and in tables.
"""

from __future__ import annotations

from fanlog import limits

#: Charsets that answers are read in, as they are named by `Content-Type`; others as UTF-8.
_CHARSETS = {
    "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "ascii": "ascii",
    "iso-8859-1": "latin-1", "latin1": "latin-1", "iso-8859-15": "iso8859-15",
    "windows-1250": "cp1250", "windows-1251": "cp1251", "windows-1252": "cp1252",
    "koi8-r": "koi8-r", "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "shift_jis": "shift_jis", "euc-jp": "euc_jp", "euc-kr": "euc_kr", "gbk": "gbk",
    "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5",
}  # fmt: skip
_REPLACED = "\ufffd"


def printable(text: str) -> str:
    """The printable characters of a text in one line, a space for each stretch of white space.

    Control and format characters are left out, those that change the direction of text included.
    """
    shown = [
        " " if one.isspace() else one
        for one in text
        if one.isspace() or (one.isprintable() and one != _REPLACED)
    ]
    return " ".join("".join(shown).split())


def first_words(text: str) -> str:
    """As much of an answer's text as a dead letter keeps."""
    return printable(text)[: limits.PUSH_ANSWER_CHARACTERS].rstrip()


def first_words_of(content: bytes, content_type: str, content_encoding: str) -> str:
    """The same of the first bytes of a body; nothing of one that is compressed."""
    if content_encoding.strip().lower() not in ("", "identity"):
        return ""
    # A character may be cut in two at the end.
    return first_words(content.decode(_charset(content_type), errors="replace"))


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return _CHARSETS.get(value.strip().strip("\"'").lower(), "utf-8")
    return "utf-8"
