"""Clients of Kafka: which settings they have, and why.

One record is in flight, an acknowledgement comes from all replicas in sync, and a record that is
sent again by the library is not there twice. Readers have no group and no place but the one they
are told; a place that is not there is an error. No client makes a topic by accident.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fanlog import limits
from fanlog.errors import ConfigError

Client = TypeVar("Client", Producer, Consumer, AdminClient)

#: Of Kafka's own limit for names of topics, what `.shards` leaves.
_CLUSTER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}")

#: A request that Kafka does not answer: the connection is given up, and the leader looked for
#: anew. Longer than any that answers takes, a record of 32 MiB on a slow network included.
_REQUEST_MS = 5_000
#: How often the leader is asked for while all is well.
_METADATA_MS = 1_000
#: A fetch that finds nothing ends after this; new records end it at once.
_FETCH_WAIT_MS = 100
#: Bytes that a reader fetches ahead.
_READ_AHEAD_KIB = 64 * 1024
_FETCH_BYTES = 16 * 1024 * 1024
#: A reader must have a name of a group, which is never joined.
_NO_GROUP = "fanlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Where the partition is, and how it is reached.

    Raises:
        ConfigError: The name of the cluster makes no name of a topic.
    """

    #: `host:port`, several with commas: any nodes of the Kafka cluster.
    servers: str
    cluster: str
    #: Settings of the connection, from the user's file (`fanlog.log.kafka.settings`).
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Fewer than three are for those who asked for it.
    replicas: int = limits.KAFKA_REPLICAS
    #: Each replica syncs a record before it counts.
    is_flushed: bool = False
    #: How long a record is tried before its outcome is unknown.
    delivery_s: float = limits.KAFKA_DELIVERY_S

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster):
            raise ConfigError(
                f"cluster {self.cluster!r}: a name has letters, digits, '.', '_' and '-', begins"
                " with a letter or digit, and has at most 100 of them"
            )
        if not 1 <= self.replicas <= limits.KAFKA_REPLICAS_MAX:
            raise ConfigError(
                f"{self.replicas} replicas of the topic: from 1 to {limits.KAFKA_REPLICAS_MAX} are"
                " possible"
            )

    @property
    def topic(self) -> str:
        return f"{self.cluster}.shards"


class Complaints:
    """The last words of the library on a connection: errors of calls say only that time is up."""

    #: After so long they belong to another matter.
    _LIFE_S = 30.0

    def __init__(self) -> None:
        self._last: tuple[float, str] | None = None

    def add(self, error: KafkaError) -> None:
        # That all are down says less than the error of each, which came before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.said():
            self._last = (time.monotonic(), error.str())

    def said(self) -> str:
        """The end of a sentence, or nothing."""
        last = self._last
        return f" ({last[1]})" if last and time.monotonic() - last[0] < self._LIFE_S else ""


def new_producer(options: KafkaOptions, complaints: Complaints) -> Producer:
    """A producer, which begins to ask for its id at once: that takes about a second.

    Raises:
        ConfigError: The library refuses a setting.
    """
    return _made(
        Producer,
        options,
        {
            "acks": "all",
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 0,
            "delivery.timeout.ms": int(options.delivery_s * 1_000),
            "message.max.bytes": limits.KAFKA_BATCH_BYTES_MAX,
            # The library's own default has Kafka make a topic that was deleted.
            "allow.auto.create.topics": False,
            "error_cb": complaints.add,
        },
    )


def new_consumer(options: KafkaOptions, complaints: Complaints) -> Consumer:
    """A reader that has no place yet.

    Raises:
        ConfigError: The library refuses a setting.
    """
    return _made(
        Consumer,
        options,
        {
            "group.id": _NO_GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # All that all replicas in sync have; no transaction of anybody holds it up.
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            "fetch.error.backoff.ms": 50,
            "fetch.message.max.bytes": _FETCH_BYTES,
            "fetch.max.bytes": limits.KAFKA_BATCH_BYTES_MAX,
            "queued.max.messages.kbytes": _READ_AHEAD_KIB,
            "error_cb": complaints.add,
        },
    )


def new_admin(options: KafkaOptions, complaints: Complaints) -> AdminClient:
    """A client that asks about the topic, and changes it.

    Raises:
        ConfigError: The library refuses a setting.
    """
    own = {"allow.auto.create.topics": False, "error_cb": complaints.add}
    return _made(AdminClient, options, own)


def _made(
    kind: Callable[[dict[str, Any]], Client], options: KafkaOptions, own: dict[str, Any]
) -> Client:
    config: dict[str, Any] = {
        "client.id": "fanlog",
        # Its lines are for programmers of the library; errors come as sentences.
        "log_level": 0,
        "socket.timeout.ms": _REQUEST_MS,
        "topic.metadata.refresh.interval.ms": _METADATA_MS,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 500,
        **options.settings,
        "bootstrap.servers": options.servers,
        **own,
    }
    try:
        return kind(config)
    except KafkaException as error:
        raise ConfigError(f"Kafka's settings: {sentence(error)}") from error


def sentence(error: KafkaException | KafkaError) -> str:
    """What went wrong, as Kafka or the library says it."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)


def code_of(error: KafkaException) -> int:
    cause = error.args[0]
    return cause.code() if isinstance(cause, KafkaError) else KafkaError.UNKNOWN
