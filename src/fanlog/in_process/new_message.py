"""New messages: messages before they are published, and the publish request that they make.

The bytes are those of a request, and `fanlog.wire.publish` checks them as it checks a caller's: the
same limits, the same sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from fanlog.errors import InvalidArgument
from fanlog.in_process.payloads import data_of
from fanlog.model import names
from fanlog.model.attributes import (
    DEDUP_ID,
    DELAY,
    DELIVER_AT,
    DEPENDS_ON,
    PRIORITY,
    PUBLISHER,
    PUBLISHER_EPOCH,
    SEQUENCE,
    TENANT,
    TTL,
)
from fanlog.wire.encode import message_field, varint
from fanlog.wire.publish import Publish, parse_publish

_NO_ATTRIBUTES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be published: its payload, and all that it asks for."""

    #: Anything JSON-able, or bytes.
    payload: object
    #: Messages of one key are delivered in the order of their publishing; empty for none.
    key: str = field(default="", kw_only=True)
    #: 0 to 9; messages with a higher one go first.
    priority: int = field(default=0, kw_only=True)
    #: Seconds before it may be delivered.
    delay: float | None = field(default=None, kw_only=True)
    #: Not delivered before this time, which must have a zone.
    deliver_at: datetime | None = field(default=None, kw_only=True)
    #: Seconds after which it is not delivered any more.
    ttl: float | None = field(default=None, kw_only=True)
    #: Ids of messages that are to be acknowledged first.
    depends_on: str | Sequence[str] = field(default=(), kw_only=True)
    #: Publishing the same id again, within the topic's window, publishes nothing.
    dedup_id: str = field(default="", kw_only=True)
    #: The publisher that numbers its messages, and the number of this one. A number that was
    #: published before gives the id of that message; messages behind a gap are held back.
    publisher: str | None = field(default=None, kw_only=True)
    sequence: int | None = field(default=None, kw_only=True)
    #: A publisher that counts anew has a higher one.
    publisher_epoch: int | None = field(default=None, kw_only=True)
    #: Whose it is: subscriptions may serve tenants in turn.
    tenant: str | None = field(default=None, kw_only=True)
    attributes: Mapping[str, str] | None = field(default=None, kw_only=True)

    def field_bytes(self) -> bytes:
        """The message as it stands in a publish request.

        Raises:
            InvalidArgument: A value is of another type, or not JSON-able.
        """
        if not isinstance(self.key, str):
            raise InvalidArgument(f"key: {names.shown(repr(self.key))} is not a text")
        attributes = _plain(self.attributes) if self.attributes else _NO_ATTRIBUTES
        asked = self._asked()
        if asked:
            for name in asked:
                if name in attributes:
                    raise InvalidArgument(
                        f"attributes: {name} is given as an argument, too; leave one of them out"
                    )
            attributes = {**attributes, **asked}
        try:
            return message_field(data_of(self.payload), attributes, self.key)
        except UnicodeEncodeError as error:
            raise InvalidArgument(
                "key or attributes: a text has half of a surrogate pair, which UTF-8 cannot write"
            ) from error

    def _asked(self) -> dict[str, str]:
        """The attributes that the arguments stand for."""
        asked: dict[str, str] = {}
        if self.priority:
            asked[PRIORITY] = str(self.priority)
        if self.delay is not None:
            asked[DELAY] = _seconds("delay", self.delay)
        if self.deliver_at is not None:
            asked[DELIVER_AT] = _time(self.deliver_at)
        if self.ttl is not None:
            asked[TTL] = _seconds("ttl", self.ttl)
        if self.depends_on:
            ids = self.depends_on
            asked[DEPENDS_ON] = ids if isinstance(ids, str) else ",".join(map(str, ids))
        if self.dedup_id:
            asked[DEDUP_ID] = self.dedup_id
        if self.publisher is not None:
            asked[PUBLISHER] = self.publisher
        if self.sequence is not None:
            asked[SEQUENCE] = _number("sequence", self.sequence)
        if self.publisher_epoch is not None:
            asked[PUBLISHER_EPOCH] = _number("publisher_epoch", self.publisher_epoch)
        if self.tenant is not None:
            asked[TENANT] = self.tenant
        return asked if not asked else _plain(asked)


def publish_of(
    project: str, topic: str, new: Iterable[NewMessage], message_bytes_max: int
) -> Publish:
    """The publish request of new messages, checked.

    Raises:
        InvalidArgument: A value or a limit is passed over; the sentence names the message.
    """
    fields = b"".join([one.field_bytes() for one in new])
    return parse_publish(_head(project, topic) + fields, message_bytes_max)


def topic_name(project: str, topic: object) -> str:
    """The full name of a topic that is given by its id, or by its full name.

    Raises:
        InvalidArgument: It is not a text.
    """
    if not isinstance(topic, str):
        raise InvalidArgument(f"topic: {names.shown(repr(topic))} is not a text")
    return topic if "/" in topic else names.topic_name(project, topic)


@lru_cache(maxsize=1024)
def _head(project: str, topic: str) -> bytes:
    name = topic_name(project, topic)
    names.parse_topic(name)
    encoded = name.encode()
    return b"\x0a" + varint(len(encoded)) + encoded


def _plain(attributes: Mapping[str, str]) -> dict[str, str]:
    given: Iterable[tuple[object, object]] = attributes.items()
    for name, value in given:
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgument(
                f"attributes: {names.shown(repr(name))}: {names.shown(repr(value))}; names and "
                "values are texts"
            )
    return dict(attributes)


def _seconds(name: str, seconds: object) -> str:
    """Seconds to the millisecond, never less than asked for."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise InvalidArgument(
            f"{name}: {names.shown(repr(seconds))} is not a number of seconds from 0 on"
        )
    # Rounded first: 0.1 is a little more than a tenth.
    milliseconds = math.ceil(round(seconds * 1_000, 6))
    return f"{milliseconds // 1_000}.{milliseconds % 1_000:03d}"


def _number(name: str, number: object) -> str:
    # True is a whole number to Python.
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidArgument(f"{name}: {names.shown(repr(number))} is not a whole number")
    return str(number)


def _time(time: object) -> str:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise InvalidArgument(
            f"deliver_at: {names.shown(repr(time))} is not a datetime with a time zone"
        )
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
