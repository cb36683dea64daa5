"""Google's clients with batching, callbacks and retries, and what they see, written down."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import google.pubsub_v1 as gapic
import grpc
from google.api_core import retry as retries
from google.api_core.exceptions import DeadlineExceeded, GoogleAPICallError
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError
from google.cloud.pubsub_v1.types import FlowControl
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from acceptance.served import PATIENCE_S
from crash.world import SOURCE_ID, subscription_name, topic_name
from fanlog.testing.history import History

#: A lease that was lost on its way comes back after the shortest deadline there is.
LEASE_S = 10
#: Tests have no time for gRPC's patience with servers that went away: 1 s to 2 minutes.
OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
]


class Load:
    """Publishers, pullers and subscribers in threads, on one endpoint, and their history.

    The endpoint stays; servers and connections behind it may come and go. What failed for good is
    not in the history; what should not have failed is in `broken`.
    """

    def __init__(self, endpoint: str, seed: int) -> None:
        self.endpoint = endpoint
        self.history = History()
        self.random = random.Random(seed)
        self.broken: list[BaseException] = []
        self._is_closing = threading.Event()
        self._is_over = threading.Event()
        self._publishers: list[threading.Thread] = []
        self._others: list[threading.Thread] = []
        self._clients: list[Any] = []
        self._futures: list[Any] = []
        #: Ids of acknowledgements under exactly-once, neither confirmed nor refused yet.
        self._asked: set[str] = set()

    def publish(self, topic: str, keys: Sequence[str] = ("",), *, pause_s: float = 0.0) -> None:
        """Publish until told otherwise, again whenever a request fails, as official clients do."""
        chance = random.Random(self.random.random())
        self._is_closing.clear()
        channel = self._channel()
        client = gapic.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        again = retries.Retry(
            predicate=lambda error: isinstance(error, GoogleAPICallError),
            initial=0.05,
            maximum=0.5,
            timeout=4 * PATIENCE_S,
        )

        def work() -> None:
            while not self._is_closing.is_set():
                key = chance.choice(keys)
                messages = [
                    {"data": chance.randbytes(chance.randrange(8, 400)), "ordering_key": key}
                    for _ in range(chance.randrange(1, 10))
                ]
                request = {"topic": topic_name(topic), "messages": messages}
                answer = client.publish(request=request, retry=again, timeout=5)
                data: list[Any] = [message["data"] for message in messages]
                self.history.published(topic, zip(answer.message_ids, data, strict=True), key=key)
                self._is_closing.wait(pause_s)

        self._publishers.append(self._run(work, channel))

    def subscribe(
        self,
        subscription: str,
        *,
        exactly_once: bool = False,
        lease_s: int = LEASE_S,
        messages_max: int = 500,
    ) -> None:
        """Receive with callbacks and acknowledge everything; note what is confirmed."""
        channel = grpc.intercept_channel(self._channel(), _Arrivals(self.history, subscription))
        transport = SubscriberGrpcTransport(channel=channel)
        client = pubsub_v1.SubscriberClient(transport=transport)
        flow = FlowControl(
            max_messages=messages_max,
            min_duration_per_lease_extension=lease_s,
            max_duration_per_lease_extension=lease_s,
        )

        def received(message: Any) -> None:
            if exactly_once:
                self._asked.add(message.ack_id)
            self.history.delivered(
                subscription, message.message_id, message.data, key=message.ordering_key
            )
            self.history.ack_sent(subscription, [message.message_id])
            if exactly_once:
                answer = message.ack_with_response()
                answer.add_done_callback(self._confirmed(subscription, message))
            else:
                message.ack()

        name = subscription_name(subscription)
        self._clients.append(client)
        self._futures.append(client.subscribe(name, callback=received, flow_control=flow))

    def pull(
        self, subscription: str, *, nacks: float, is_doomed: Callable[[Any], bool] | None = None
    ) -> None:
        """Pull and acknowledge, nack some by chance, and always those that `is_doomed`."""
        chance = random.Random(self.random.random())
        channel = self._channel()
        client = gapic.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))

        def work() -> None:
            while not self._is_over.is_set():
                # The server may be gone; the next attempt is for the next one.
                with suppress(GoogleAPICallError):
                    self._pull_once(client, subscription, chance, nacks, is_doomed)
                    continue
                self._is_over.wait(0.1)

        self._others.append(self._run(work, channel))

    def churn(self) -> None:
        """Make and remove topics, subscriptions and snapshots all the time, on new connections."""
        chance = random.Random(self.random.random())

        def work() -> None:
            while not self._is_over.wait(0.2):
                with suppress(GoogleAPICallError), self._channel() as channel:
                    self._churn_once(channel, f"churn-{chance.randrange(1 << 30)}")

        self._others.append(self._run(work, None))

    def stop_publishing(self) -> None:
        self._is_closing.set()
        for thread in self._publishers:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()
        self._publishers.clear()
        assert not self.broken, self.broken

    def check_alive(self) -> None:
        """Subscribers are there until they are told to end: official clients come again."""
        ended = [future.exception() for future in self._futures if future.done()]
        assert not ended, ended
        assert not self.broken, self.broken

    @property
    def acks_under_way(self) -> int:
        """Acknowledgements under exactly-once that clients ask for still."""
        return len(self._asked)

    def close(self) -> None:
        """End the subscribers; they must be alive until then."""
        self._is_closing.set()
        self._is_over.set()
        for thread in self._others:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()
        for future in self._futures:
            if future.done():
                self.broken.append(future.exception())
            future.cancel()
        for future in self._futures:
            with suppress(Exception):
                future.result(timeout=PATIENCE_S)
        for client in self._clients:
            client.close()
        assert not self.broken, self.broken

    def _pull_once(
        self,
        client: Any,
        subscription: str,
        chance: random.Random,
        nacks: float,
        is_doomed: Callable[[Any], bool] | None,
    ) -> None:
        name = subscription_name(subscription)
        try:
            received = client.pull(
                subscription=name, max_messages=50, retry=None, timeout=3
            ).received_messages
        except DeadlineExceeded:
            return
        for one in received:
            self.history.delivered(
                subscription,
                one.message.message_id,
                one.message.data,
                key=one.message.ordering_key,
                source_id=one.message.attributes.get(SOURCE_ID, ""),
            )
        nacked = [
            one
            for one in received
            if (is_doomed is not None and is_doomed(one.message)) or chance.random() < nacks
        ]
        if nacked:
            client.modify_ack_deadline(
                subscription=name,
                ack_ids=[one.ack_id for one in nacked],
                ack_deadline_seconds=0,
                retry=None,
            )
        acked = [one for one in received if one not in nacked]
        if acked:
            ids = [one.message.message_id for one in acked]
            self.history.ack_sent(subscription, ids)
            client.acknowledge(subscription=name, ack_ids=[one.ack_id for one in acked], retry=None)
            self.history.acked(subscription, ids)

    def _churn_once(self, channel: grpc.Channel, name: str) -> None:
        publisher = gapic.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        subscriber = gapic.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        topic, subscription = topic_name(name), subscription_name(name)
        snapshot = f"projects/crash/snapshots/{name}"
        publisher.create_topic(name=topic, retry=None)
        subscriber.create_subscription(name=subscription, topic=topic, retry=None)
        publisher.publish(topic=topic, messages=[{"data": bytes(1_000)}] * 5, retry=None)
        request = {"name": snapshot, "subscription": subscription}
        subscriber.create_snapshot(request=request, retry=None)
        subscriber.pull(subscription=subscription, max_messages=3, retry=None)
        subscriber.seek(request={"subscription": subscription, "snapshot": snapshot}, retry=None)
        subscriber.delete_snapshot(snapshot=snapshot, retry=None)
        subscriber.delete_subscription(subscription=subscription, retry=None)
        publisher.delete_topic(topic=topic, retry=None)

    def _confirmed(self, subscription: str, message: Any) -> Callable[[Any], None]:
        def done(answer: Any) -> None:
            self._asked.discard(message.ack_id)
            # Refused when the lease is over: the message comes again.
            with suppress(AcknowledgeError):
                answer.result()
                self.history.acked(subscription, [message.message_id])

        return done

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.endpoint, options=OPTIONS)

    def _run(self, work: Callable[[], None], channel: grpc.Channel | None) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.broken.append(error)
            finally:
                if channel is not None:
                    channel.close()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread


class _Arrivals(grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    """Writes down what a stream brings, before the client puts it in its queues."""

    def __init__(self, history: History, subscription: str) -> None:
        self._history = history
        self._subscription = subscription

    def intercept_stream_stream(
        self, continuation: Callable[..., Any], details: Any, requests: Any
    ) -> Any:
        return _Arriving(continuation(details, requests), self._note)

    def _note(self, response: gapic.StreamingPullResponse) -> None:
        for one in response.received_messages:
            message = one.message
            self._history.arrived(
                self._subscription, message.message_id, message.data, key=message.ordering_key
            )


class _Arriving:
    """The call of a stream, each of its answers noted as it is read."""

    def __init__(self, call: Any, note: Callable[[Any], None]) -> None:
        self._call = call
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __iter__(self) -> _Arriving:
        return self

    def __next__(self) -> Any:
        response = next(self._call)
        self._note(response)
        return response
