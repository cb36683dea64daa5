"""A delivered message, as a callback gets it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from fanlog import limits
from fanlog.core.redelivery import Nack
from fanlog.errors import InvalidArgument
from fanlog.in_process.payloads import payload_of
from fanlog.log.batch import Batch
from fanlog.model import names
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId
from fanlog.wire import types
from fanlog.wire.encode import TAG_DATA

_DATA = TAG_DATA[0]
_UNREAD = object()


class Settler(Protocol):
    """Takes the outcome of messages; from any thread."""

    def settle(
        self, message: Message, nack: Nack | None, confirmed: Future[None] | None = None
    ) -> None:
        """A message was acknowledged (`nack` None), or failed."""

    def check_nack(self, nack: Nack) -> None:
        """Raises FailedPrecondition: The subscription has no place for dead letters."""


@dataclass(frozen=True, slots=True, eq=False)
class Leased:
    """The messages of one lease have this in common."""

    settler: Settler
    topic: str
    partition: PartitionId
    generation: int
    #: When the lease ends if no one extends it, on the core's clock.
    deadline_s: float
    #: Delivery attempts by offset for those above `attempt`.
    attempts: Mapping[Offset, int]
    attempt: int


class Message:
    """One message, delivered once. It is settled once: what is said later has no effect.

    Safe to keep, and to settle from any thread.
    """

    __slots__ = ("_batch", "_index", "_parsed", "_payload", "is_settled", "leased")

    def __init__(self, leased: Leased, batch: Batch, index: int) -> None:
        self.leased = leased
        self._batch = batch
        self._index = index
        self._parsed: Any = None
        self._payload: Any = _UNREAD
        #: Whether it was acknowledged or nacked, or its callback returned or raised.
        self.is_settled = False

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.topic!r}>"

    # What was published.

    @property
    def payload(self) -> Any:
        """The payload that was published, read from JSON.

        Raises:
            InvalidArgument: The data is not JSON.
        """
        if self._payload is _UNREAD:
            self._payload = payload_of(self.data, self.id)
        return self._payload

    @property
    def data(self) -> bytes:
        """The payload's bytes."""
        starts, content = self._batch.starts, self._batch.content
        begin, end = starts[self._index], starts[self._index + 1]
        # Short messages of data alone, by the bytes of their headers: 12 size 0a size-2.
        if content[begin + 1] == end - begin - 2 and content[begin + 2] == _DATA:
            size = content[begin + 3]
            if size == end - begin - 4:
                return content[begin + 4 : end]
        data: bytes = self._read().data
        return data

    @property
    def attributes(self) -> dict[str, str]:
        return {**self._read().attributes, **self._batch.attributes}

    @property
    def key(self) -> str:
        """The ordering key; empty for none."""
        key: str = self._read().ordering_key
        return key

    @property
    def topic(self) -> str:
        """The topic, by its id if it is of the broker's project; of a pattern, the one it is of."""
        return self.leased.topic

    @property
    def id(self) -> str:
        """Unique in the broker, the same at every delivery."""
        return message_id(self.leased.partition, self.offset)

    @property
    def publish_time(self) -> datetime:
        microseconds = self._batch.publish_time_ns // 1_000
        return datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(
            microsecond=microseconds % 1_000_000
        )

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1; 0 where they are not counted: without dead letters."""
        return self.leased.attempts.get(self.offset, self.leased.attempt)

    # Its outcome.

    def ack(self) -> Future[None]:
        """Acknowledge it now; the future is done when that is durable.

        The future raises AckIdsRefused where messages are delivered exactly once, and this one is
        to be delivered again. Of a message that is settled already it is done at once.
        """
        confirmed: Future[None] = Future()
        if self.is_settled:
            confirmed.set_result(None)
        else:
            self.leased.settler.settle(self, None, confirmed)
        return confirmed

    def nack(
        self,
        reason: str = "",
        *,
        delay: float | None = None,
        dead_letter: bool = False,
        counted: bool = True,
    ) -> None:
        """Have it delivered again, after the wait of the subscription's retries.

        Args:
            reason: Told by the dead letter, if it becomes one; cut to 512 bytes.
            delay: Another wait, in seconds.
            dead_letter: Make it a dead letter at once.
            counted: Whether this was a failed attempt.

        Raises:
            InvalidArgument: The delay is out of range, or arguments contradict each other.
            FailedPrecondition: A dead letter, and the subscription has none.
        """
        if delay is not None and not 0 <= delay <= limits.NACK_DELAY_S_MAX:
            raise InvalidArgument(
                f"delay: {names.shown(repr(delay))} is out of range; "
                f"0 to {limits.NACK_DELAY_S_MAX} seconds are allowed"
            )
        if dead_letter and (delay is not None or not counted):
            raise InvalidArgument(
                "dead_letter: a dead letter is not delivered again, and tells how often it failed; "
                "leave delay and counted out"
            )
        nack = Nack(
            delay_s=delay,
            is_terminal=dead_letter,
            reason=cut_reason(reason),
            is_counted=counted,
        )
        self.leased.settler.check_nack(nack)
        if not self.is_settled:
            self.leased.settler.settle(self, nack)

    # For the modules beside this one.

    @property
    def offset(self) -> Offset:
        return self._batch.base_offset + self._index

    @property
    def key_hash(self) -> int:
        """A hash of the ordering key; 0 for none."""
        hashes = self._batch.key_hashes
        return 0 if hashes is None else hashes[self._index]

    def _read(self) -> Any:
        if self._parsed is None:
            starts = self._batch.starts
            content = self._batch.content[starts[self._index] : starts[self._index + 1]]
            # The content is a run of `messages` fields of a PublishRequest.
            [self._parsed] = types.PublishRequest.FromString(content).messages
        return self._parsed


def reason_of(error: BaseException) -> str:
    """What a dead letter tells of the exception that a callback ended with."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        # The exception is of the program, and so is its text.
        text = "its text cannot be had"
    return cut_reason(f"{kind}: {text}" if text else kind)


def cut_reason(text: str) -> str:
    """As much of a reason as is kept."""
    # Cut once before it is encoded: a text may be very long.
    encoded = text[: limits.NACK_REASON_BYTES_MAX].encode(errors="replace")
    return encoded[: limits.NACK_REASON_BYTES_MAX].decode(errors="ignore")
