"""Push over HTTP: one request for each message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fanlog.model.attributes import ORIGINAL_ID
from fanlog.model.ids import message_id
from fanlog.model.resources import Subscription
from fanlog.push.rules import (
    Outcome,
    PushedMessage,
    event_id,
    of_error,
    push_request,
    webhook_headers,
)
from fanlog.push.senders.sender import Leased, Sender
from fanlog.wire import types


class WebSender(Sender):
    def _most(self, room: int) -> int:
        return room

    def _requests(self, taken: Iterable[Leased]) -> Iterator[Sequence[Leased]]:
        return ((one,) for one in taken)

    async def _send(self, messages: Sequence[Leased]) -> None:
        [leased] = messages
        host = await self._enter(messages)
        if host is None:
            return
        subscription, endpoint = self._subscription, self._endpoint
        try:
            outcome = await self._post(subscription, self._message(leased))
        finally:
            self._tools.gate.leave(host)
        self._note(endpoint, outcome)
        if outcome.is_ack:
            self._acknowledge(messages)
        else:
            await self._refused(subscription, messages, outcome)

    def _message(self, leased: Leased) -> PushedMessage:
        batch, index = leased.batch, leased.index
        content = batch.content[batch.starts[index] : batch.starts[index + 1]]
        # What is stored is one `messages` field of a PublishRequest, tag and length included.
        message = types.PublishRequest.FromString(content).messages[0]
        subscription = self._subscription
        topic = subscription.topic
        if subscription.is_pattern:
            topic = self._broker.hard.catalog.topic_name_of(batch.partition)
        is_copy = batch.seal is not None and bool(batch.seal.addressee)
        return PushedMessage(
            data=message.data,
            attributes={**message.attributes, **batch.attributes, **(leased.added or {})},
            ordering_key=message.ordering_key,
            message_id=message_id(*leased.key),
            publish_time_ns=batch.publish_time_ns,
            topic=topic,
            subscription=subscription.name,
            ack_id=leased.ack_id,
            # Only of what the broker copied: anybody may publish such an attribute.
            original_id=message.attributes.get(ORIGINAL_ID, "") if is_copy else "",
            attempt=leased.attempt or self._failures.get(leased.key, 0) + 1,
            is_counted=leased.attempt > 0,
        )

    async def _post(self, subscription: Subscription, message: PushedMessage) -> Outcome:
        push = subscription.push
        assert push is not None
        request = push_request(message, subscription.push_form)
        headers = request.headers
        if push.webhook_secrets:
            wall_s = self._tools.clock.wall_ns() // 1_000_000_000
            headers |= webhook_headers(
                push.webhook_secrets, event_id(message), wall_s, request.body
            )
        token = await self._token(push)
        if token is None:
            return of_error("NoToken")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return await self._tools.client.post(
            self._endpoint, request.body, headers, subscription.push_timeout_s
        )
