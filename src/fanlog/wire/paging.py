"""Lists in pages: tokens that stay good while entries come and go.

A token says after which name the next page begins, not at which place: an entry made or deleted
between two pages neither repeats nor hides another. It also says of which list it is; a token of
another list is refused rather than guessed at.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names

Entry = TypeVar("Entry")
Shown = TypeVar("Shown", bound=Message)


class Paged(Protocol):
    """A list request."""

    page_size: int
    page_token: str


_VERSION = "1"
_SEPARATOR = "\n"
#: Of a number in a token.
_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The part of a list that a request asks for."""

    #: The list, such as `topics of projects/p`.
    scope: str
    size: int
    #: Names up to and including this one were given already.
    after: str = ""

    def cut(
        self, found: Sequence[Entry], name: Callable[[Entry], str]
    ) -> tuple[Sequence[Entry], str]:
        """Cut this page out of entries after `after`, of which one more was asked than it holds.

        Gives the page and the next page's token, empty when this page is the last.
        """
        page = found[: self.size]
        is_last = len(found) <= self.size
        return page, "" if is_last else token(self.scope, name(page[-1]))

    def fill(
        self,
        found: Sequence[Entry],
        name: Callable[[Entry], str],
        made: Callable[[Entry], Shown],
    ) -> tuple[list[Shown], str]:
        """As `cut`, of messages made of the entries: no more of them than an answer holds.

        A page has one at least. Clients follow the token, however short a page is.
        """
        page, _ = self.cut(found, name)
        messages: list[Shown] = []
        left = limits.ANSWER_BYTES_MAX
        for entry in page:
            message = made(entry)
            left -= message.ByteSize()
            if messages and left < 0:
                break
            messages.append(message)
        is_last = len(found) == len(messages)
        return messages, "" if is_last else token(self.scope, name(page[len(messages) - 1]))


def number_after(page: Page) -> int | None:
    """The number that a list of numbered entries goes on after; None at its start.

    Raises:
        InvalidArgument: The token has none: it was made up.
    """
    if not page.after:
        return None
    if not (page.after.isascii() and page.after.isdigit() and len(page.after) <= _DIGITS_MAX):
        raise InvalidArgument(f"page_token: {names.shown(page.after)} in it is no place of a list")
    return int(page.after)


def parse_page(scope: str, page_size: int, page_token: str) -> Page:
    """Read the paging fields of a list request; `scope` names the list.

    Raises:
        InvalidArgument: A negative size, a token we did not give or one of another list.
    """
    if page_size < 0:
        raise InvalidArgument(
            f"page_size: {page_size} is negative; 0 means {limits.PAGE_SIZE_DEFAULT}, and above "
            f"{limits.PAGE_SIZE_MAX} pages have {limits.PAGE_SIZE_MAX} entries"
        )
    size = min(page_size or limits.PAGE_SIZE_DEFAULT, limits.PAGE_SIZE_MAX)
    return Page(scope=scope, size=size, after=_after(scope, page_token) if page_token else "")


def read_page(scope: str, request: Paged) -> Page:
    """As `parse_page`, of a request with both fields."""
    return parse_page(scope, request.page_size, request.page_token)


def token(scope: str, last: str) -> str:
    """The token of the page after `last`."""
    text = _SEPARATOR.join((_VERSION, scope, last))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _after(scope: str, given: str) -> str:
    try:
        padded = given.encode("ascii") + b"=" * (-len(given) % 4)
        version, of, last = (
            base64.b64decode(padded, b"-_", validate=True).decode().split(_SEPARATOR)
        )
    except (ValueError, binascii.Error):
        version = of = last = ""
    if version != _VERSION or not last:
        raise InvalidArgument(f"page_token: {names.shown(given)} is not a token of this service")
    if of != scope:
        raise InvalidArgument(
            f"page_token: the token is of another list ({names.shown(of)}); this one is of "
            f"{names.shown(scope)}"
        )
    return last
