"""Packing: leased messages are grouped, and a group becomes one request.

Over HTTP a request has one message. Over gRPC it is a call of `fanlog.v1.Receiver` with as many
messages as there are. A call that fails does not say which message it failed for. So a message that
has failed before goes alone: one that cannot be taken costs its neighbours one attempt, not all of
theirs.

A group is packed just before it is sent: settings may change while it waits for a connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fanlog.log.batch import Batch
from fanlog.model.attributes import ORIGINAL_ID, TOPIC
from fanlog.model.endpoints import WebEndpoint
from fanlog.model.ids import ACK_OFFSET_DIGITS, message_id
from fanlog.model.resources import Offset, PartitionId, Subscription
from fanlog.model.spans import TRACEPARENT
from fanlog.push.rules.message import PushedMessage, event_id
from fanlog.push.rules.signatures import webhook_headers
from fanlog.push.rules.web_content import write_content
from fanlog.wire import types
from fanlog.wire.frame import frame_received
from fanlog.wire.receiver import receive_request

MessageKey = tuple[PartitionId, Offset]


@dataclass(slots=True)
class LeasedMessage:
    """A message from its lease to the end of its request."""

    batch: Batch
    index: int
    ack_id: str
    #: The number of this delivery where a dead letter policy counts them; otherwise 0.
    attempt: int
    #: Requests that failed for this message before, as far as its sender remembers.
    failures: int
    #: Attributes besides those that were published.
    added: Mapping[str, str] | None

    @property
    def key(self) -> MessageKey:
        return self.batch.partition, self.batch.base_offset + self.index

    @property
    def size_bytes(self) -> int:
        return self.batch.starts[self.index + 1] - self.batch.starts[self.index]


class Destination(NamedTuple):
    """The endpoint of a subscription, with the settings and the proofs that a request needs."""

    subscription: Subscription
    endpoint: WebEndpoint
    #: An OIDC token; empty for none.
    token: str
    #: The time that a signature is made for.
    wall_s: int
    #: The context that a trace goes on under; empty for none.
    traceparent: str = ""


class Request(NamedTuple):
    """One request to an endpoint, ready to be sent."""

    endpoint: WebEndpoint
    messages: Sequence[LeasedMessage]
    body: bytes
    #: Headers of HTTP, or metadata of gRPC.
    headers: dict[str, str]
    timeout_s: float
    #: Whether it may be sent twice when it is not known whether it arrived.
    is_repeatable: bool = True


# Groups.


def max_taken(room: int, messages_max: int, *, has_failures: bool) -> int:
    """The messages to lease when `room` more requests may be sent.

    While a sender remembers failures, any message may turn out to need a request of its own.
    """
    if messages_max == 1:
        return room
    return min(room, messages_max) if has_failures else messages_max


def group(leased: Iterable[LeasedMessage], messages_max: int) -> Iterator[Sequence[LeasedMessage]]:
    """Split messages, no more than `max_taken` allows, into those of one request each."""
    together: list[LeasedMessage] = []
    for one in leased:
        if messages_max == 1 or one.attempt > 1 or one.failures:
            yield (one,)
        else:
            together.append(one)
    if together:
        yield together


# Over HTTP.


def pack_web(messages: Sequence[LeasedMessage], destination: Destination) -> Request:
    """Make the request for one message: its form, signed, with its token."""
    [leased] = messages
    subscription = destination.subscription
    push = subscription.push
    assert push is not None
    message = _read(leased, subscription)
    body, headers = write_content(message, subscription.push_form)
    if push.webhook_secrets:
        headers |= webhook_headers(
            push.webhook_secrets, event_id(message), destination.wall_s, body
        )
    if destination.token:
        headers["Authorization"] = f"Bearer {destination.token}"
    if destination.traceparent:
        headers[TRACEPARENT] = destination.traceparent
    return Request(
        destination.endpoint,
        messages,
        body,
        headers,
        subscription.push_timeout_s,
        is_repeatable=not subscription.is_at_most_once,
    )


def _read(leased: LeasedMessage, subscription: Subscription) -> PushedMessage:
    batch, index = leased.batch, leased.index
    content = batch.content[batch.starts[index] : batch.starts[index + 1]]
    # A stored message is one `messages` field of a PublishRequest, tag and length included.
    message = types.PublishRequest.FromString(content).messages[0]
    added = leased.added or {}
    is_copy = batch.seal is not None and bool(batch.seal.addressee)
    return PushedMessage(
        data=message.data,
        attributes={**message.attributes, **batch.attributes, **added},
        ordering_key=message.ordering_key,
        message_id=message_id(*leased.key),
        publish_time_ns=batch.publish_time_ns,
        # On a pattern, every message is given the name of its topic.
        topic=added[TOPIC] if subscription.is_pattern else subscription.topic,
        subscription=subscription.name,
        ack_id=leased.ack_id,
        # The attribute counts on copies that the broker made alone: any publisher may set it.
        original_id=message.attributes.get(ORIGINAL_ID, "") if is_copy else "",
        attempt=leased.attempt or leased.failures + 1,
        is_counted=leased.attempt > 0,
    )


# Over gRPC.


def pack_grpc(messages: Sequence[LeasedMessage], destination: Destination) -> Request:
    """Make the call for some messages: their frames as in a pull's answer, and the token."""
    subscription = destination.subscription
    headers: dict[str, str] = {}
    if destination.token:
        headers["authorization"] = f"Bearer {destination.token}"
    if destination.traceparent:
        headers[TRACEPARENT] = destination.traceparent
    return Request(
        destination.endpoint,
        messages,
        receive_request(map(_frame, messages), subscription.name),
        headers,
        subscription.push_timeout_s,
        is_repeatable=not subscription.is_at_most_once,
    )


def _frame(one: LeasedMessage) -> bytes:
    prefix = one.ack_id[:-ACK_OFFSET_DIGITS].encode()
    return frame_received(one.batch, (one.index,), prefix, attempt=one.attempt, added=one.added)
