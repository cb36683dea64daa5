"""The links of a node: one for each other node that it talks to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fanlog.cluster.link.credentials import Passport
from fanlog.cluster.link.link import Link


class Card(Protocol):
    """A node as it tells others of itself, as far as a link needs it."""

    @property
    def name(self) -> str: ...
    @property
    def link_address(self) -> str: ...


class Links:
    """Lives on the loop. `close()` it with the process."""

    def __init__(self, passport: Passport) -> None:
        self._passport = passport
        self._links: dict[tuple[str, str], Link] = {}
        self._on_open: list[Callable[[Link], None]] = []

    def on_open(self, told: Callable[[Link], None]) -> None:
        """Have a function called whenever a link is open."""
        self._on_open.append(told)

    def to(self, card: Card) -> Link:
        """The link to a node, which may not be open."""
        key = card.name, card.link_address
        link = self._links.get(key)
        if link is None:
            # A node that came back at another address is not at the old one.
            for old in [one for one in self._links if one[0] == card.name]:
                self._links.pop(old).close()
            link = Link(*key, self._passport, on_open=self._tell_open)
            self._links[key] = link
        return link

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _tell_open(self, link: Link) -> None:
        for told in self._on_open:
            told(link)
