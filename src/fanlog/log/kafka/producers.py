"""The sending end: one record at a time, by a producer that can be thrown away.

A producer that gave no acknowledgement may still send its record. So it is closed before the log
asks what became of the record, and another takes its place: a warm one, for a new producer takes
about a second to get its id.
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from fanlog import limits
from fanlog.errors import ConfigError
from fanlog.log.kafka.client import Complaints, KafkaOptions, code_of, new_producer, sentence
from fanlog.log.replicated.partition import Produced, RecordTooLarge, Uncertain

#: The library tells the outcome within the delivery's time-out; beyond this much more it is broken.
_SPARE_S = 5.0
#: How long one look for the acknowledgement takes at most; an acknowledgement ends it.
_POLL_S = 0.2

#: Kafka says so before it appends anything.
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


class Producers:
    """Sends records to the partition, and keeps a second producer warm.

    `send` and `reset` are called by one thread at a time; `serve` by any.
    """

    def __init__(self, options: KafkaOptions, complaints: Complaints) -> None:
        self._options = options
        self._complaints = complaints
        #: Held while the producers are used or replaced.
        self._using = threading.Lock()
        self._current: Producer | None = new_producer(options, complaints)
        self._spare: Producer | None = new_producer(options, complaints)

    def send(self, value: bytes) -> Produced | Uncertain:
        """See `Partition.produce`."""
        if len(value) > limits.KAFKA_RECORD_BYTES_MAX:
            raise RecordTooLarge(
                f"a record of {len(value):,} bytes; {limits.KAFKA_RECORD_BYTES_MAX:,} are allowed"
            )
        with self._using:
            if self._current is None:
                return Uncertain("there is no producer: the last one could not be made")
            return self._sent(self._current, value)

    def reset(self) -> None:
        """See `Partition.reset_producer`."""
        with self._using:
            _end(self._current)
            self._current = self._spare or self._made()
            self._spare = self._made()

    def serve(self) -> None:
        """Let the producers say what went wrong with their connections; called now and then.

        The library keeps such words until somebody comes for them.
        """
        if not self._using.acquire(blocking=False):
            return  # `send` does it: its acknowledgement must not come to another thread.
        try:
            for producer in (self._current, self._spare):
                if producer is not None:
                    producer.poll(0)
        finally:
            self._using.release()

    def close(self) -> None:
        with self._using:
            _end(self._current)
            _end(self._spare)
            self._current = self._spare = None

    def _sent(self, producer: Producer, value: bytes) -> Produced | Uncertain:
        told: list[tuple[KafkaError | None, Message]] = []
        try:
            producer.produce(
                self._options.topic,
                value,
                partition=0,
                on_delivery=lambda error, message: told.append((error, message)),
            )
        except KafkaException as error:
            if code_of(error) in _TOO_LARGE:
                raise RecordTooLarge(sentence(error)) from error
            return Uncertain(sentence(error))
        except BufferError as error:
            return Uncertain(str(error))
        end = time.monotonic() + self._options.delivery_s + _SPARE_S
        while not told and time.monotonic() < end:
            producer.poll(_POLL_S)
        if self._spare is not None:
            self._spare.poll(0)
        return _outcome(*told[0]) if told else Uncertain("the client said nothing of the record")

    def _made(self) -> Producer | None:
        try:
            return new_producer(self._options, self._complaints)
        except ConfigError:
            return None  # A file that the settings name is gone: said when a record is to be sent.


def _outcome(error: KafkaError | None, message: Message) -> Produced | Uncertain:
    if error is not None:
        if error.code() in _TOO_LARGE:
            raise RecordTooLarge(error.str())
        return Uncertain(error.str())
    offset = message.offset()
    kind, time_ms = message.timestamp()
    return Produced(
        # A record that was sent twice may be acknowledged without a word where the first is.
        offset if offset is not None and offset >= 0 else -1,
        time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else -1,
    )


def _end(producer: Producer | None) -> None:
    if producer is not None:
        producer.purge(in_queue=True, in_flight=True)
        producer.close()
