"""Clients under load against a server that is killed: publishers, pulls and streams in threads.

Each worker writes down what it sees in a `History`. When the server dies, its calls fail; it waits
for the next server on the same folder and goes on. What a worker does next is decided by a seed;
when the kernel lets it happen is not, so a seed repeats the intent of a run and not its every step.
"""

from __future__ import annotations

import queue
import random
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import google.pubsub_v1 as gapic
import grpc
from google.api_core.exceptions import (
    DeadlineExceeded,
    FailedPrecondition,
    GoogleAPICallError,
)
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from acceptance.served import PATIENCE_S, Served
from fanlog.testing.history import History

#: Messages asked for by one pull: small answers, so that a kill finds many calls open.
PULL_MAX = 50
SOURCE_ID = "fanlog-source-message-id"
BACKLOG = re.compile(r'^fanlog_backlog_messages\{subscription="([^"]+)"\} (\S+)$', re.MULTILINE)


def topic_name(name: str) -> str:
    return f"projects/crash/topics/{name}"


def subscription_name(name: str) -> str:
    return f"projects/crash/subscriptions/{name}"


class Clients:
    """The official clients of one life of the server."""

    def __init__(self, endpoint: str) -> None:
        self.channel = grpc.insecure_channel(endpoint)
        self.publisher = gapic.PublisherClient(
            transport=PublisherGrpcTransport(channel=self.channel)
        )
        self.subscriber = gapic.SubscriberClient(
            transport=SubscriberGrpcTransport(channel=self.channel)
        )


class World:
    """A server that dies and comes again, and the workers that do not mind."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.history = History()
        self.random = random.Random(seed)
        self._changed = threading.Condition()
        self._life = 0
        self._clients: Clients | None = None
        self._threads: list[threading.Thread] = []
        #: What ended a worker that should not have ended.
        self.broken: list[BaseException] = []
        #: No more publishing, no more nacks.
        self.is_closing = threading.Event()
        self.is_over = threading.Event()

    def start(self) -> Clients:
        self.served.start()
        clients = Clients(self.served.endpoint)
        with self._changed:
            self._life += 1
            self._clients = clients
            self._changed.notify_all()
        return clients

    def kill(self) -> None:
        self.served.stop(signal.SIGKILL)
        assert self._clients is not None
        self._clients.channel.close()

    def worker(self, work: Callable[[Clients, random.Random], None]) -> None:
        """Run `work` in a thread, again with each life of the server, until all is over."""
        chance = random.Random(self.random.random())
        thread = threading.Thread(target=self._run, args=(work, chance), daemon=True)
        self._threads.append(thread)
        thread.start()

    def await_more(self, *, published: Iterable[str], delivered: Iterable[str]) -> None:
        """Wait until enough happened in this life for its end to mean something.

        A hundred messages more on each topic, and ten more on each subscription.
        """
        enough = dict.fromkeys(published, 100 * self._life)
        enough_came = dict.fromkeys(delivered, 10 * self._life)
        late_s = time.monotonic() + 2 * PATIENCE_S
        while not self.broken and (
            any(self.history.published_count(one) <= count for one, count in enough.items())
            or any(self.history.delivered_count(one) <= n for one, n in enough_came.items())
        ):
            assert time.monotonic() < late_s, "hardly anything happens"
            self.is_over.wait(0.01)

    def finish(self) -> None:
        """Publish and nack no more, drain every subscription, and let the workers go."""
        self.is_closing.set()
        waited = 0.0
        while (left := self.backlogs()) and not self.broken:
            assert waited < 2 * PATIENCE_S, f"not drained: {left}"
            self.is_over.wait(0.1)
            waited += 0.1
        self.is_over.set()
        assert self._clients is not None
        self._clients.channel.close()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert not self.broken, self.broken

    def backlogs(self) -> dict[str, int]:
        """Subscriptions that have something unacknowledged."""
        with urllib.request.urlopen(f"http://{self.served.http}/metrics") as response:
            page = response.read().decode()
        counts = {name: int(float(count)) for name, count in BACKLOG.findall(page)}
        assert counts, page
        return {name: count for name, count in counts.items() if count}

    def _next_life(self, life: int) -> tuple[int, Clients | None]:
        """Wait for a server that came after `life`; its clients, or None when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._life > life or self.is_over.is_set())
            return self._life, None if self.is_over.is_set() else self._clients

    def _run(self, work: Callable[[Clients, random.Random], None], chance: random.Random) -> None:
        life = 0
        try:
            while not self.is_over.is_set():
                life, clients = self._next_life(life)
                if clients is None:
                    return
                try:
                    work(clients, chance)
                    return
                except (GoogleAPICallError, ValueError) as error:
                    # A closed channel is a ValueError; anything but the server's end is a bug.
                    if not _is_end_of_server(error):
                        raise
        except BaseException as error:
            self.broken.append(error)

    # Work.

    def publish(self, topic: str, keys: Iterable[str], size_max: int = 200) -> None:
        """Publish small requests; those of a key one after the other, by this worker alone."""
        names = list(keys)

        def work(clients: Clients, chance: random.Random) -> None:
            while not self.is_closing.is_set():
                key = chance.choice(names)
                messages = [
                    {"data": chance.randbytes(chance.randrange(1, size_max)), "ordering_key": key}
                    for _ in range(chance.randrange(1, 20))
                ]
                answer = clients.publisher.publish(
                    request={"topic": topic_name(topic), "messages": messages}, retry=None
                )
                data = [message["data"] for message in messages]
                self.history.published(topic, zip(answer.message_ids, data, strict=True), key=key)

        self.worker(work)

    def pull(self, subscription: str, *, nacks: float = 0.0, is_doomed: Any = None) -> None:
        """Pull, then acknowledge most and nack some; what `is_doomed` is nacked always."""
        name = subscription_name(subscription)

        def work(clients: Clients, chance: random.Random) -> None:
            subscriber = clients.subscriber
            while not self.is_over.is_set():
                request = {"subscription": name, "max_messages": chance.randrange(1, PULL_MAX)}
                try:
                    answer = subscriber.pull(request=request, retry=None, timeout=5)
                except DeadlineExceeded:
                    continue
                received = answer.received_messages
                self._delivered(subscription, received)
                some = 0.0 if self.is_closing.is_set() else nacks
                nacked = [
                    one
                    for one in received
                    if (is_doomed and is_doomed(one.message)) or chance.random() < some
                ]
                if nacked:
                    self._nack(subscriber, name, nacked)
                self._acknowledge(
                    subscriber, subscription, [one for one in received if one not in nacked]
                )

        self.worker(work)

    def stream(self, subscription: str, *, nacks: float = 0.0) -> None:
        """Stream; acks and nacks ride on the stream, and nobody confirms them."""
        name = subscription_name(subscription)

        def work(clients: Clients, chance: random.Random) -> None:
            requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
            requests.put(
                gapic.StreamingPullRequest(
                    subscription=name,
                    stream_ack_deadline_seconds=10,
                    max_outstanding_messages=PULL_MAX,
                )
            )
            try:
                answers = clients.subscriber.streaming_pull(iter(requests.get, None), retry=None)
                for answer in answers:
                    received = answer.received_messages
                    self._delivered(subscription, received)
                    some = 0.0 if self.is_closing.is_set() else nacks
                    nacked = [one for one in received if chance.random() < some]
                    acked = [one for one in received if one not in nacked]
                    self.history.ack_sent(subscription, [one.message.message_id for one in acked])
                    requests.put(
                        gapic.StreamingPullRequest(
                            ack_ids=[one.ack_id for one in acked],
                            modify_deadline_ack_ids=[one.ack_id for one in nacked],
                            modify_deadline_seconds=[0] * len(nacked),
                        )
                    )
            finally:
                requests.put(None)

        self.worker(work)

    def _delivered(self, subscription: str, received: Iterable[Any]) -> None:
        for one in received:
            self.history.delivered(
                subscription,
                one.message.message_id,
                one.message.data,
                key=one.message.ordering_key,
                source_id=one.message.attributes.get(SOURCE_ID, ""),
            )

    def _nack(self, subscriber: Any, name: str, received: list[Any]) -> None:
        # Exactly-once: refused when the lease is over; then the messages come again anyway.
        with suppress(FailedPrecondition):
            subscriber.modify_ack_deadline(
                subscription=name,
                ack_ids=[one.ack_id for one in received],
                ack_deadline_seconds=0,
                retry=None,
            )

    def _acknowledge(self, subscriber: Any, subscription: str, received: list[Any]) -> None:
        if not received:
            return
        ids = [one.message.message_id for one in received]
        self.history.ack_sent(subscription, ids)
        # Exactly-once: if an id is refused nothing of the request is done; the messages come again.
        with suppress(FailedPrecondition):
            subscriber.acknowledge(
                subscription=subscription_name(subscription),
                ack_ids=[one.ack_id for one in received],
                retry=None,
            )
            self.history.acked(subscription, ids)


def _is_end_of_server(error: Exception) -> bool:
    if isinstance(error, GoogleAPICallError):
        return error.grpc_status_code in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.CANCELLED,
        )
    return "Cannot invoke RPC" in str(error)
