"""What subscribers write: filters in both forms."""

from __future__ import annotations

import json

from fanlog.routing.filter_parse import FilterError, parse
from fanlog.routing.filter_print import to_text
from fuzz.bounds import Target, refusal

#: A refusal travels in gRPC's trailers, whose default is 8 KiB, percent-encoded.
SENTENCE_MAX = 1_000


def filter_text(data: bytes) -> None:
    """Refused with a short FilterError, or a tree whose printed form is read as the same tree."""
    _check(data.decode("utf-8", "replace"))


def filter_json(data: bytes) -> None:
    """As the text; besides, what is accepted is JSON to others too."""
    text = "{" + data.decode("utf-8", "replace").removeprefix("{")
    if _check(text):
        json.loads(text)


def _check(text: str) -> bool:
    try:
        tree = parse(text)
    except FilterError as error:
        _refused(error)
        return False
    if tree is None:
        assert not text.strip(" \t\r\n")
        return True
    printed = to_text(tree)
    # Equality alone would take 1 for 1.0 and for true.
    assert repr(parse(printed, limited=False)) == repr(tree), printed
    assert to_text(tree) == printed
    return True


def _refused(error: FilterError) -> None:
    refusal(error)
    assert len(error.message) <= SENTENCE_MAX, len(error.message)
    assert error.message.startswith("filter: "), error.message


TARGETS = (
    Target(name="filter_text", run=filter_text),
    Target(name="filter_json", run=filter_json),
)
