"""A message as filters see it: parsed at most once, and only as far as somebody looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

#: Data that is not JSON has nothing at any path; neither has JSON null.
NOT_JSON = None


class Candidate:
    """One message that subscriptions may want. Not safe to share between threads."""

    __slots__ = (
        "_data",
        "_payload",
        "attributes",
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
        self.ordering_key = ordering_key
        self.publish_time_us = publish_time_us
        self.topic = topic
        self.message_id = message_id
        self._data: bytes | None = data
        self._payload: Any = None

    @property
    def payload(self) -> Any:
        """The data as JSON."""
        if self._data is not None:
            try:
                self._payload = orjson.loads(self._data)
            except orjson.JSONDecodeError:
                self._payload = NOT_JSON
            self._data = None
        return self._payload
