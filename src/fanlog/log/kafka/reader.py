"""The reading end: records from an offset on, in order.

The library fetches ahead and may have more than is asked for; what is left over is kept for the
next call, which mostly goes on where the last one ended. It says nothing of a fetch that found
nothing, so that silence means nothing: whether Kafka answered must be asked elsewhere.

An offset may have no record: compaction takes some away, and a program that writes to the topic in
a transaction leaves marks that no reader is given. Such gaps are passed on as they are; the story
of the log ends there.
"""

from __future__ import annotations

import time
from collections import deque

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message, TopicPartition

from fanlog.log.kafka.client import Complaints, KafkaOptions, new_consumer
from fanlog.log.replicated.partition import Fetched

#: Messages taken from the library at a time.
_TAKEN_MAX = 64


class ReadFailed(Exception):
    """Kafka, or the library, does not give records from here on; `code` is `KafkaError`'s."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.code = error.code()


class Reader:
    """Reads the partition; used by one thread at a time."""

    def __init__(self, options: KafkaOptions, complaints: Complaints) -> None:
        self._topic = options.topic
        self._consumer = new_consumer(options, complaints)
        #: The offset that the caller reads next; -1 for no place.
        self._next = -1
        #: Fetched and not read.
        self._ready: deque[Fetched] = deque()

    def read(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        """Records from `offset` on; [] if none came within `wait_s`.

        Raises:
            ReadFailed: There is none to be had from here on.
        """
        if offset != self._next:
            self._go_to(offset)
        end_s = time.monotonic() + wait_s
        while not self._ready and (left_s := end_s - time.monotonic()) > 0:
            message = self._consumer.poll(left_s)
            if message is not None:
                self._keep(message)
        found: list[Fetched] = []
        size = 0
        while size < max_bytes and (self._ready or self._take()):
            found.append(self._ready.popleft())
            size += len(found[-1].value)
        if found:
            self._next = found[-1].offset + 1
        return found

    def close(self) -> None:
        self._consumer.close()

    def _go_to(self, offset: int) -> None:
        self._ready.clear()
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        self._next = offset

    def _take(self) -> bool:
        """Take over what the library has; whether that was anything."""
        for message in self._consumer.consume(_TAKEN_MAX, 0):
            self._keep(message)
        return bool(self._ready)

    def _keep(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._ready.append(_fetched(message))
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._fail(error)
        # There is no group; that the library asks for it all the same is its own affair.

    def _fail(self, error: KafkaError) -> None:
        # What was taken before it is read again, if there is a place to read.
        self._next = -1
        self._ready.clear()
        raise ReadFailed(error)


def _fetched(message: Message) -> Fetched:
    offset, value = message.offset(), message.value()
    assert offset is not None
    kind, time_ms = message.timestamp()
    return Fetched(
        offset,
        time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else -1,
        b"" if value is None else value,
    )
