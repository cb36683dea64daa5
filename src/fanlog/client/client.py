"""A synchronous client of the Pub/Sub API: the methods of Google's services on a `Connection`.

Names are full resource names; messages and resources are the API's own protobuf classes. Every
failure is a `CallFailed`, with a sentence that its reader can act on. Nothing is retried unless the
connection is made with patience: the caller knows whether that is wise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from google.protobuf import empty_pb2, field_mask_pb2
from google.protobuf.message import Message

from fanlog.client.connection import Connection
from fanlog.client.failures import CallFailed
from fanlog.model import attributes, sequences
from fanlog.model import term_attributes as terms
from fanlog.wire import types
from fanlog.wire.schemas import BASIC, FULL

__all__ = ["CallFailed", "Client"]

_PAGE_SIZE: Final = 1_000
_PUBLISHER: Final = "google.pubsub.v1.Publisher"
_SCHEMAS: Final = "google.pubsub.v1.SchemaService"
_SUBSCRIBER: Final = "google.pubsub.v1.Subscriber"


class Client(Connection):
    """A connection with the methods of the Pub/Sub API."""

    # Topics.

    def create_topic(self, topic: types.Topic) -> types.Topic:
        return self.call(f"{_PUBLISHER}/CreateTopic", topic, types.Topic)

    def get_topic(self, name: str) -> types.Topic:
        return self.call(f"{_PUBLISHER}/GetTopic", types.GetTopicRequest(topic=name), types.Topic)

    def update_topic(self, topic: types.Topic, paths: Sequence[str]) -> types.Topic:
        """Change the fields that `paths` name, as the API spells them, and give it as it is now."""
        request = types.UpdateTopicRequest(
            topic=topic, update_mask=field_mask_pb2.FieldMask(paths=paths)
        )
        return self.call(f"{_PUBLISHER}/UpdateTopic", request, types.Topic)

    def delete_topic(self, name: str) -> None:
        request = types.DeleteTopicRequest(topic=name)
        self.call(f"{_PUBLISHER}/DeleteTopic", request, empty_pb2.Empty)

    def list_topics(self, project: str) -> Iterator[types.Topic]:
        """Yield every topic of `project`, given as `projects/{id}`."""
        request = types.ListTopicsRequest(project=project, page_size=_PAGE_SIZE)
        for page in self.pages(f"{_PUBLISHER}/ListTopics", request, types.ListTopicsResponse):
            yield from page.topics

    def list_topic_subscriptions(self, topic: str) -> Iterator[str]:
        """Yield the name of every subscription of `topic`."""
        request = types.ListTopicSubscriptionsRequest(topic=topic, page_size=_PAGE_SIZE)
        for page in self.pages(
            f"{_PUBLISHER}/ListTopicSubscriptions", request, types.ListTopicSubscriptionsResponse
        ):
            yield from page.subscriptions

    def publish(
        self,
        topic: str,
        messages: Sequence[types.PubsubMessage],
        *,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        ttl_s: float | None = None,
        priority: int | None = None,
        depends_on: Sequence[str] = (),
        publisher: str | None = None,
        sequence: int | None = None,
        publisher_epoch: int | None = None,
        tenant: str | None = None,
    ) -> list[str]:
        """Publish and return the message ids in order; the messages are durable by then.

        Args:
            delay_s, deliver_at: When all of them are to be delivered; at once without either.
            ttl_s: How long they are worth delivering, from then on.
            priority: 0 to 9; higher ones are delivered first.
            depends_on: Ids of messages of the topic that are to be acknowledged first, on each
                subscription.
            publisher: Who publishes them.
            sequence: The number of the first one among all of its publisher; the others count on.
                A number that was published before is not published again.
            publisher_epoch: A publisher that counts anew has a higher one.
            tenant: Whose they are: subscriptions may serve tenants in turn.
        """
        asking = terms.attributes_for(
            delay_s=delay_s,
            deliver_at=deliver_at,
            ttl_s=ttl_s,
            priority=priority,
            depends_on=depends_on,
            tenant=tenant,
        )
        request = types.PublishRequest(topic=topic, messages=messages)
        for message in request.messages if asking else ():
            for name, value in asking.items():
                message.attributes[name] = value
        if publisher is not None or sequence is not None or publisher_epoch is not None:
            for index, message in enumerate(request.messages):
                number = None if sequence is None else sequence + index
                message.attributes.update(
                    sequences.attributes_for(
                        publisher=publisher, sequence=number, epoch=publisher_epoch
                    )
                )
        reply = self.call(f"{_PUBLISHER}/Publish", request, types.PublishResponse)
        return list(reply.message_ids)

    # Schemas: each with the compatibility that it promises.

    def create_schema(
        self, parent: str, schema_id: str, schema: types.Schema, compatibility: str | None = None
    ) -> tuple[types.Schema, str]:
        request = types.CreateSchemaRequest(parent=parent, schema_id=schema_id, schema=schema)
        return self._schema_call("CreateSchema", request, compatibility)

    def commit_schema(
        self, name: str, schema: types.Schema, compatibility: str | None = None
    ) -> tuple[types.Schema, str]:
        request = types.CommitSchemaRequest(name=name, schema=schema)
        return self._schema_call("CommitSchema", request, compatibility)

    def get_schema(self, name: str) -> tuple[types.Schema, str]:
        """Give a schema; `name` may end in `@` and a revision id."""
        return self._schema_call("GetSchema", types.GetSchemaRequest(name=name), None)

    def delete_schema(self, name: str) -> None:
        request = types.DeleteSchemaRequest(name=name)
        self.call(f"{_SCHEMAS}/DeleteSchema", request, empty_pb2.Empty)

    def list_schemas(self, project: str) -> Iterator[types.Schema]:
        """Yield every schema of `project`, given as `projects/{id}`, without its definition."""
        request = types.ListSchemasRequest(parent=project, page_size=_PAGE_SIZE)
        for page in self.pages(f"{_SCHEMAS}/ListSchemas", request, types.ListSchemasResponse):
            yield from page.schemas

    def list_schema_revisions(
        self, name: str, *, with_definitions: bool = False
    ) -> Iterator[types.Schema]:
        """Yield every revision of a schema, the newest first."""
        request = types.ListSchemaRevisionsRequest(
            name=name, page_size=_PAGE_SIZE, view=FULL if with_definitions else BASIC
        )
        for page in self.pages(
            f"{_SCHEMAS}/ListSchemaRevisions", request, types.ListSchemaRevisionsResponse
        ):
            yield from page.schemas

    # Subscriptions.

    def create_subscription(self, subscription: types.Subscription) -> types.Subscription:
        return self.call(f"{_SUBSCRIBER}/CreateSubscription", subscription, types.Subscription)

    def get_subscription(self, name: str) -> types.Subscription:
        request = types.GetSubscriptionRequest(subscription=name)
        return self.call(f"{_SUBSCRIBER}/GetSubscription", request, types.Subscription)

    def update_subscription(
        self, subscription: types.Subscription, paths: Sequence[str]
    ) -> types.Subscription:
        """Change the fields that `paths` name, as the API spells them, and give it as it is now."""
        request = types.UpdateSubscriptionRequest(
            subscription=subscription, update_mask=field_mask_pb2.FieldMask(paths=paths)
        )
        return self.call(f"{_SUBSCRIBER}/UpdateSubscription", request, types.Subscription)

    def delete_subscription(self, name: str) -> None:
        request = types.DeleteSubscriptionRequest(subscription=name)
        self.call(f"{_SUBSCRIBER}/DeleteSubscription", request, empty_pb2.Empty)

    def list_subscriptions(self, project: str) -> Iterator[types.Subscription]:
        """Yield every subscription of `project`, given as `projects/{id}`."""
        request = types.ListSubscriptionsRequest(project=project, page_size=_PAGE_SIZE)
        for page in self.pages(
            f"{_SUBSCRIBER}/ListSubscriptions", request, types.ListSubscriptionsResponse
        ):
            yield from page.subscriptions

    # Messages.

    def pull(
        self, name: str, *, max_messages: int, wait_s: float = 0.0
    ) -> list[types.ReceivedMessage]:
        """Pull up to `max_messages`; with `wait_s`, wait that long for the first one."""
        return self.pull_with_ttl(name, max_messages=max_messages, wait_s=wait_s)[0]

    def pull_with_ttl(
        self, name: str, *, max_messages: int, wait_s: float = 0.0
    ) -> tuple[list[types.ReceivedMessage], float | None]:
        """As `pull`; also the time-to-live, in seconds, that the subscription gives messages.

        It holds for messages that have none of their own, from when they could be delivered.
        """
        request = types.PullRequest(
            subscription=name, max_messages=max_messages, return_immediately=wait_s <= 0
        )
        try:
            reply, metadata = self.exchange(
                f"{_SUBSCRIBER}/Pull",
                request,
                types.PullResponse,
                timeout_s=wait_s or self._timeout_s,
            )
        except CallFailed as failure:
            if wait_s > 0 and failure.status == "DEADLINE_EXCEEDED":
                return [], None
            raise
        self.tell_hints(metadata)
        ttl_s = dict(metadata).get(attributes.LABEL_TTL)
        return list(reply.received_messages), None if ttl_s is None else float(ttl_s)

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        request = types.AcknowledgeRequest(subscription=name, ack_ids=ack_ids)
        self.call(f"{_SUBSCRIBER}/Acknowledge", request, empty_pb2.Empty)

    def modify_ack_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Give leases so many seconds from now; zero is a nack, see `nack`."""
        request = types.ModifyAckDeadlineRequest(
            subscription=name, ack_ids=ack_ids, ack_deadline_seconds=seconds
        )
        self.call(f"{_SUBSCRIBER}/ModifyAckDeadline", request, empty_pb2.Empty)

    def nack(
        self,
        name: str,
        ack_ids: Sequence[str],
        *,
        requeue: bool = True,
        counted: bool = True,
        delay_s: float | None = None,
        reason: str = "",
    ) -> None:
        """Give messages back: now or after `delay_s`, with or without counting a failure, or never.

        Without `requeue` they are dead letters at once, which needs a dead letter policy. The
        reason is for the dead letter.
        """
        words: list[tuple[str, str | bytes]] = [
            *([(attributes.NACK_REQUEUE, "false")] if not requeue else []),
            *([(attributes.NACK_COUNTED, "false")] if not counted else []),
            *([(attributes.NACK_DELAY, _number(delay_s))] if delay_s is not None else []),
            *([(attributes.NACK_REASON_BYTES, reason.encode())] if reason else []),
        ]
        request = types.ModifyAckDeadlineRequest(
            subscription=name, ack_ids=ack_ids, ack_deadline_seconds=0
        )
        _, metadata = self.exchange(
            f"{_SUBSCRIBER}/ModifyAckDeadline", request, empty_pb2.Empty, metadata=tuple(words)
        )
        self.tell_hints(metadata)

    def _schema_call(
        self, method: str, request: Message, compatibility: str | None
    ) -> tuple[types.Schema, str]:
        sent = () if compatibility is None else ((attributes.COMPATIBILITY, compatibility),)
        reply, received = self.exchange(
            f"{_SCHEMAS}/{method}", request, types.Schema, metadata=sent
        )
        return reply, dict(received).get(attributes.COMPATIBILITY, "")


def _number(seconds: float) -> str:
    """A number as people write it: 30 and not 30.0."""
    return str(int(seconds)) if float(seconds).is_integer() else str(seconds)
