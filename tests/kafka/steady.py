"""Google's publisher as it comes, with its own batches and retries, at a steady pace."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.types import PublisherOptions
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

from acceptance.served import PATIENCE_S
from crash.world import topic_name
from fanlog.testing.history import History

#: The client tries an unordered publish for so long by itself.
CLIENT_RETRIES_S = 600.0


@dataclass(slots=True)
class Attempts:
    """What became of publishes; written by threads of clients under `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: int = 0
    answered: int = 0
    #: How often by what failed for good, after the client's own retries.
    failures: Counter[str] = field(default_factory=Counter)
    #: The longest wait for an answer, and the longest time without any, since `begin_act`.
    longest_s: float = 0.0
    silence_s: float = 0.0
    last_s: float = field(default_factory=time.monotonic)

    def begin_act(self) -> None:
        with self.lock:
            self.longest_s = self.silence_s = 0.0

    def begin(self) -> None:
        with self.lock:
            self.begun += 1

    def end(self, begun_s: float, failure: str) -> None:
        now = time.monotonic()
        with self.lock:
            if failure:
                self.failures[failure] += 1
                return
            self.answered += 1
            self.longest_s = max(self.longest_s, now - begun_s)
            self.silence_s = max(self.silence_s, now - self.last_s)
            self.last_s = now

    @property
    def success(self) -> float:
        """The part of the publishes that succeeded, of those that ended."""
        ended = self.answered + self.failures.total()
        return self.answered / ended if ended else 1.0


class SteadyPublisher:
    """Publishes so many messages a second on a thread, whether or not answers come.

    Args:
        target: Of gRPC; the channel has the client's own settings.
        attributes: Of the message with a number.
    """

    def __init__(
        self,
        target: str,
        topic: str,
        history: History,
        attempts: Attempts,
        *,
        per_s: float,
        keys: Sequence[str] = ("",),
        attributes: Callable[[int], dict[str, str]] = lambda _: {},
    ) -> None:
        self._topic = topic
        self._history = history
        self._attempts = attempts
        self._per_s = per_s
        self._keys = keys
        self._attributes = attributes
        self._is_ending = threading.Event()
        self._waiting: set[Any] = set()
        self._channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._client = pubsub_v1.PublisherClient(
            transport=PublisherGrpcTransport(channel=self._channel),
            publisher_options=PublisherOptions(enable_message_ordering=any(keys)),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when the client said of every message what became of it."""
        self._is_ending.set()
        self._thread.join(PATIENCE_S)
        self._client.stop()
        end_s = time.monotonic() + CLIENT_RETRIES_S + PATIENCE_S
        while self._waiting:
            assert time.monotonic() < end_s, f"{len(self._waiting)} publishes never ended"
            time.sleep(0.05)
        self._channel.close()

    def _run(self) -> None:
        number, next_s = 0, time.monotonic()
        while not self._is_ending.wait(max(0.0, next_s - time.monotonic())):
            self._publish(number)
            number += 1
            next_s += 1 / self._per_s

    def _publish(self, number: int) -> None:
        key, begun_s = self._keys[number % len(self._keys)], time.monotonic()
        data = f"{self._topic} {number} ".encode() + bytes(100)
        self._attempts.begin()
        future = self._client.publish(
            topic_name(self._topic), data, ordering_key=key, **self._attributes(number)
        )
        self._waiting.add(future)
        future.add_done_callback(lambda done: self._ended(done, key, data, begun_s))

    def _ended(self, future: Any, key: str, data: bytes, begun_s: float) -> None:
        error = future.exception()
        if error is None:
            self._history.published(self._topic, [(future.result(), data)], key=key)
        elif key:
            # The client sends nothing more of a key that failed until it is told to.
            self._client.resume_publish(topic_name(self._topic), key)
        self._attempts.end(begun_s, "" if error is None else f"{type(error).__name__}: {error}")
        self._waiting.discard(future)
