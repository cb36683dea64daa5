"""A message as filters see it: parsed at most once, and no further than some filter looks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

import orjson

from fanlog.routing.json_weight import is_heavy

#: Data that is not JSON has nothing at any path; neither has JSON null.
NOT_JSON: Final = None

_UNREAD: Final = object()


class FilterNeeds(Protocol):
    """The parts of a message that filters look at; a `FilterIndex` has them."""

    @property
    def needs_message(self) -> bool: ...
    @property
    def needs_attributes(self) -> bool: ...
    @property
    def needs_payload(self) -> bool: ...


class Candidate:
    """One message that subscriptions may want. Not safe to share between threads.

    Data counts as JSON when it follows RFC 8259 in UTF-8, all its numbers fit a double and all its
    strings are text: with one `1e999` or one lone surrogate, anywhere, it is not JSON. Nor is data
    heavier than `limits.JSON_WEIGHT_MAX`: all other work of the broker waits while it is parsed.
    """

    __slots__ = (
        "_payload",
        "attributes",
        "data",
        "message_id",
        "ordering_key",
        "publish_time_us",
        "topic",
    )

    def __init__(
        self,
        attributes: Mapping[str, str],
        data: bytes = b"",
        *,
        ordering_key: str = "",
        publish_time_us: int = 0,
        topic: str = "",
        message_id: str = "",
    ) -> None:
        self.attributes = attributes
        self.data = data
        self.ordering_key = ordering_key
        self.publish_time_us = publish_time_us
        #: The topic's id, without `projects/…/topics/`.
        self.topic = topic
        self.message_id = message_id
        self._payload: object = _UNREAD

    @property
    def payload(self) -> object:
        """The data as JSON, as a parser gives it: a dict, a list, a string and so on."""
        if self._payload is _UNREAD:
            self._payload = NOT_JSON
            if not is_heavy(self.data):
                with suppress(orjson.JSONDecodeError):
                    self._payload = orjson.loads(self.data)
        return self._payload

    def __repr__(self) -> str:
        return (
            f"Candidate({self.attributes!r}, {self.data!r}, ordering_key={self.ordering_key!r},"
            f" publish_time_us={self.publish_time_us}, topic={self.topic!r},"
            f" message_id={self.message_id!r})"
        )
