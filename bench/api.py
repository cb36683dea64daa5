"""The Pub/Sub API for a load generator: raw stubs over one connection.

Requests go out as bytes that were made before the clock started, wherever they can be, and answers
are decoded only where something is read from them, so that the generator costs little of the
machine it shares with the server.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc
from google.pubsub_v1.types import pubsub

Topic = pubsub.Topic.pb()
Subscription = pubsub.Subscription.pb()
PubsubMessage = pubsub.PubsubMessage.pb()
PublishRequest = pubsub.PublishRequest.pb()
PublishResponse = pubsub.PublishResponse.pb()
PullRequest = pubsub.PullRequest.pb()
PullResponse = pubsub.PullResponse.pb()
AcknowledgeRequest = pubsub.AcknowledgeRequest.pb()
StreamingPullRequest = pubsub.StreamingPullRequest.pb()
StreamingPullResponse = pubsub.StreamingPullResponse.pb()
ListTopicsRequest = pubsub.ListTopicsRequest.pb()
SeekRequest = pubsub.SeekRequest.pb()
DeleteTopicRequest = pubsub.DeleteTopicRequest.pb()
DeleteSubscriptionRequest = pubsub.DeleteSubscriptionRequest.pb()

PROJECT = "projects/bench"
#: Pub/Sub allows 1,000 messages in one Publish, and as many in one Pull.
BATCH_MESSAGES = 1_000
CALL_TIMEOUT_S = 120

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Api:
    """One connection to one server. Safe to share between threads; closed on exit."""

    def __init__(self, endpoint: str, authority: Path | None = None, token: str = "") -> None:
        """Connect; over TLS when there is the certificate of the server's authority."""
        self._metadata = (("authorization", f"Bearer {token}"),) if token else None
        if authority:
            credentials = grpc.ssl_channel_credentials(authority.read_bytes())
            self._channel = grpc.secure_channel(endpoint, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)
        self._publish = self._unary("Publisher/Publish")
        self._pull = self._unary("Subscriber/Pull", PullResponse.FromString)
        self._acknowledge = self._unary("Subscriber/Acknowledge")
        self._list_topics = self._unary("Publisher/ListTopics")
        self._streaming_pull = self._channel.stream_stream(
            "/google.pubsub.v1.Subscriber/StreamingPull",
            request_serializer=StreamingPullRequest.SerializeToString,
            response_deserializer=StreamingPullResponse.FromString,
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; calls under way fail at once, in whichever thread they are."""
        self._channel.close()

    def publish(self, request: bytes) -> bytes:
        """Publish; the answer is not decoded, see `message_ids`."""
        answer: bytes = self._publish(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)
        return answer

    def publish_nowait(self, request: bytes) -> Any:
        return self._publish.future(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)

    def pull(self, request: bytes) -> Any:
        """The received messages, as protobuf."""
        answer = self._pull(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)
        return answer.received_messages

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        request = AcknowledgeRequest(subscription=subscription, ack_ids=ack_ids)
        self._acknowledge(
            request.SerializeToString(), timeout=CALL_TIMEOUT_S, metadata=self._metadata
        )

    def streaming_pull(self, requests: Iterable[Any]) -> Any:
        return self._streaming_pull(iter(requests), metadata=self._metadata)

    def list_topics(self, timeout_s: float) -> None:
        """The cheapest call that every server answers: used to see that one is there."""
        request = ListTopicsRequest(project=PROJECT, page_size=1)
        self._list_topics(request.SerializeToString(), timeout=timeout_s, metadata=self._metadata)

    def create_topic(self, name: str) -> None:
        self._once("Publisher/CreateTopic", Topic(name=name))

    def create_subscription(
        self, name: str, topic: str, wanted: str = "", push: str = "", *, is_once: bool = False
    ) -> None:
        request = Subscription(
            name=name,
            topic=topic,
            filter=wanted,
            # The longest lease: nothing comes back while it is measured.
            ack_deadline_seconds=600,
            enable_exactly_once_delivery=is_once,
        )
        if push:
            request.push_config.push_endpoint = push
            request.push_config.no_wrapper.SetInParent()
        self._once("Subscriber/CreateSubscription", request)

    def seek(self, subscription: str, seconds: int) -> None:
        """Go back, or forward, to a time."""
        request = SeekRequest(subscription=subscription)
        request.time.FromSeconds(seconds)
        self._once("Subscriber/Seek", request)

    def delete_topic(self, name: str) -> None:
        self._once("Publisher/DeleteTopic", DeleteTopicRequest(topic=name))

    def delete_subscription(self, name: str) -> None:
        self._once("Subscriber/DeleteSubscription", DeleteSubscriptionRequest(subscription=name))

    def in_parallel(
        self, workers: int, do: Callable[[Item], Result], items: Iterable[Item]
    ) -> list[Result]:
        """Do something for each item, `workers` at once; results in the order of the items.

        The first failure, or Ctrl-C, closes the connection: the other workers then end at once
        instead of finishing what nobody waits for.
        """
        pool = ThreadPoolExecutor(workers)
        try:
            return list(pool.map(do, items))
        except BaseException:
            self.close()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _unary(self, method: str, decode: Callable[[bytes], Any] | None = None) -> Any:
        return self._channel.unary_unary(
            f"/google.pubsub.v1.{method}",
            request_serializer=None,
            response_deserializer=decode,
        )

    def _once(self, method: str, request: Any) -> None:
        self._unary(method)(
            request.SerializeToString(), timeout=CALL_TIMEOUT_S, metadata=self._metadata
        )


def publish_request(topic: str, *, count: int, size_bytes: int) -> bytes:
    """One PublishRequest, serialised, with messages of bytes that do not compress."""
    chance = random.Random(1)
    messages = [PubsubMessage(data=chance.randbytes(size_bytes)) for _ in range(count)]
    request: bytes = PublishRequest(topic=topic, messages=messages).SerializeToString()
    return request


def message_ids(answers: Iterable[bytes]) -> list[str]:
    """Every message id in the answers of `Api.publish`."""
    return [name for answer in answers for name in PublishResponse.FromString(answer).message_ids]


def pull_request(subscription: str, *, max_messages: int = BATCH_MESSAGES) -> bytes:
    """One PullRequest, serialised, that does not wait for messages."""
    request: bytes = PullRequest(
        subscription=subscription, max_messages=max_messages, return_immediately=True
    ).SerializeToString()
    return request
