"""Pages: stable while entries come and go."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.wire.paging import parse_page

SCOPE = "topics of projects/p"
NAMES = [f"projects/p/topics/t{number:02}" for number in range(7)]


def _cut(size: int, token: str, names: Sequence[str]) -> tuple[Sequence[str], str]:
    page = parse_page(SCOPE, size, token)
    following = [name for name in names if name > page.after]
    return page.cut(following[: page.size + 1], str)


def test_pages_follow_each_other() -> None:
    token, pages = "", []
    while True:
        page, token = _cut(3, token, NAMES)
        pages.append(list(page))
        if not token:
            break
    assert pages == [NAMES[:3], NAMES[3:6], NAMES[6:]]


def test_a_full_last_page_has_no_token() -> None:
    assert _cut(7, "", NAMES) == (NAMES, "")
    assert _cut(3, "", []) == ([], "")


def test_entries_come_and_go_between_pages() -> None:
    _, token = _cut(3, "", NAMES)
    # The last one given is deleted, an earlier one made: nothing repeats, nothing is hidden.
    changed = sorted([*NAMES[:2], *NAMES[3:], "projects/p/topics/t00a"])
    page, _ = _cut(3, token, changed)
    assert page == NAMES[3:6]


@pytest.mark.parametrize(
    ("page_size", "size"),
    [(0, limits.PAGE_SIZE_DEFAULT), (1, 1), (10**9, limits.PAGE_SIZE_MAX)],
)
def test_page_size(page_size: int, size: int) -> None:
    assert parse_page(SCOPE, page_size, "").size == size


def test_a_negative_page_size() -> None:
    with pytest.raises(InvalidArgument, match=r"^page_size: -1 is negative"):
        parse_page(SCOPE, -1, "")


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "not a token",
        "é",
        "AAAA",
        "====",
        base64.urlsafe_b64encode(b"2\na\nb").decode(),
        base64.urlsafe_b64encode(b"1\n\xff\nb").decode(),
    ],
)
def test_a_malformed_token(token: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^page_token: .* is not a token of this service$"):
        parse_page(SCOPE, 3, token)


def test_a_token_of_another_list() -> None:
    _, token = _cut(3, "", NAMES)
    with pytest.raises(InvalidArgument) as caught:
        parse_page("topics of projects/q", 3, token)
    assert caught.value.message == (
        "page_token: the token is of another list ('topics of projects/p'); "
        "this one is of 'topics of projects/q'"
    )
