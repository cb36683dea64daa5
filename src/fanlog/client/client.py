"""A small synchronous client over the Pub/Sub API: what the command line needs, and no more.

Names are full resource names; messages and resources are the API's own protobuf classes. Every
failure is a `CallFailed` whose sentence a person can act on. Nothing is retried here: the caller
knows whether that is wise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf import empty_pb2, field_mask_pb2

from fanlog.errors import FanlogError
from fanlog.model import attributes
from fanlog.wire import types

ENDPOINT_DEFAULT = "127.0.0.1:8085"
#: Official clients read this one too, so that one setting serves both.
ENDPOINT_VARIABLE = "PUBSUB_EMULATOR_HOST"
TIMEOUT_S_DEFAULT = 30.0

_PAGE_SIZE = 1_000
#: How gRPC begins the details of a call that never reached a server.
_UNREACHED = ("failed to connect", "connection refused", "dns resolution failed", "name resolution")


class CallFailed(FanlogError):
    """A call was refused or did not arrive; the sentence says which, `status` is gRPC's name."""

    code = "CALL_FAILED"

    def __init__(self, message: str, status: str, *, has_arrived: bool = True) -> None:
        super().__init__(message)
        self.status = status
        #: False when no server was there to hear it.
        self.has_arrived = has_arrived


class Client:
    """One connection to one server. Safe to share between threads. Close it, or use `with`.

    `on_hint` is called, in the caller's thread, with what the server says about a call that went
    well but may not be what was meant, such as a pattern that matches no topic.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S_DEFAULT,
        on_hint: Callable[[str], None] | None = None,
    ) -> None:
        self.endpoint = endpoint or os.environ.get(ENDPOINT_VARIABLE) or ENDPOINT_DEFAULT
        self._timeout_s = timeout_s
        self._on_hint = on_hint
        # A single message may be larger than gRPC's default limit of 4 MiB.
        self._channel = grpc.insecure_channel(
            self.endpoint,
            options=[("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    # Topics.

    def create_topic(self, topic: Any) -> Any:
        return self._call("Publisher/CreateTopic", topic, types.Topic)

    def get_topic(self, name: str) -> Any:
        return self._call("Publisher/GetTopic", types.GetTopicRequest(topic=name), types.Topic)

    def update_topic(self, topic: Any, paths: Sequence[str]) -> Any:
        """Change the fields that `paths` name, as the API spells them, and give it as it is now."""
        request = types.UpdateTopicRequest(
            topic=topic, update_mask=field_mask_pb2.FieldMask(paths=paths)
        )
        return self._call("Publisher/UpdateTopic", request, types.Topic)

    def delete_topic(self, name: str) -> None:
        request = types.DeleteTopicRequest(topic=name)
        self._call("Publisher/DeleteTopic", request, empty_pb2.Empty)

    def list_topics(self, project: str) -> Iterator[Any]:
        """Yield every topic of `project`, given as `projects/{id}`."""
        request = types.ListTopicsRequest(project=project, page_size=_PAGE_SIZE)
        for page in self._pages("Publisher/ListTopics", request, types.ListTopicsResponse):
            yield from page.topics

    def list_topic_subscriptions(self, topic: str) -> Iterator[str]:
        """Yield the name of every subscription of `topic`."""
        request = types.ListTopicSubscriptionsRequest(topic=topic, page_size=_PAGE_SIZE)
        for page in self._pages(
            "Publisher/ListTopicSubscriptions", request, types.ListTopicSubscriptionsResponse
        ):
            yield from page.subscriptions

    def publish(self, topic: str, messages: Sequence[Any]) -> list[str]:
        """Publish and return the message ids in order; the messages are durable by then."""
        request = types.PublishRequest(topic=topic, messages=messages)
        reply = self._call("Publisher/Publish", request, types.PublishResponse)
        return list(reply.message_ids)

    # Schemas: each with the compatibility that it promises.

    def create_schema(
        self, parent: str, schema_id: str, schema: Any, compatibility: str | None = None
    ) -> tuple[Any, str]:
        request = types.CreateSchemaRequest(parent=parent, schema_id=schema_id, schema=schema)
        return self._schema_call("CreateSchema", request, compatibility)

    def commit_schema(
        self, name: str, schema: Any, compatibility: str | None = None
    ) -> tuple[Any, str]:
        request = types.CommitSchemaRequest(name=name, schema=schema)
        return self._schema_call("CommitSchema", request, compatibility)

    def get_schema(self, name: str) -> tuple[Any, str]:
        """Give a schema; `name` may end in `@` and a revision id."""
        return self._schema_call("GetSchema", types.GetSchemaRequest(name=name), None)

    def delete_schema(self, name: str) -> None:
        request = types.DeleteSchemaRequest(name=name)
        self._call("SchemaService/DeleteSchema", request, empty_pb2.Empty)

    def list_schemas(self, project: str) -> Iterator[Any]:
        """Yield every schema of `project`, given as `projects/{id}`, without its definition."""
        request = types.ListSchemasRequest(parent=project, page_size=_PAGE_SIZE)
        for page in self._pages("SchemaService/ListSchemas", request, types.ListSchemasResponse):
            yield from page.schemas

    def list_schema_revisions(self, name: str) -> Iterator[Any]:
        """Yield every revision of a schema, the newest first, without its definition."""
        request = types.ListSchemaRevisionsRequest(name=name, page_size=_PAGE_SIZE)
        for page in self._pages(
            "SchemaService/ListSchemaRevisions", request, types.ListSchemaRevisionsResponse
        ):
            yield from page.schemas

    # Subscriptions.

    def create_subscription(self, subscription: Any) -> Any:
        return self._call("Subscriber/CreateSubscription", subscription, types.Subscription)

    def get_subscription(self, name: str) -> Any:
        request = types.GetSubscriptionRequest(subscription=name)
        return self._call("Subscriber/GetSubscription", request, types.Subscription)

    def update_subscription(self, subscription: Any, paths: Sequence[str]) -> Any:
        """Change the fields that `paths` name, as the API spells them, and give it as it is now."""
        request = types.UpdateSubscriptionRequest(
            subscription=subscription, update_mask=field_mask_pb2.FieldMask(paths=paths)
        )
        return self._call("Subscriber/UpdateSubscription", request, types.Subscription)

    def delete_subscription(self, name: str) -> None:
        request = types.DeleteSubscriptionRequest(subscription=name)
        self._call("Subscriber/DeleteSubscription", request, empty_pb2.Empty)

    def list_subscriptions(self, project: str) -> Iterator[Any]:
        """Yield every subscription of `project`, given as `projects/{id}`."""
        request = types.ListSubscriptionsRequest(project=project, page_size=_PAGE_SIZE)
        for page in self._pages(
            "Subscriber/ListSubscriptions", request, types.ListSubscriptionsResponse
        ):
            yield from page.subscriptions

    # Messages.

    def pull(self, name: str, *, max_messages: int, wait_s: float = 0.0) -> list[Any]:
        """Pull up to `max_messages`; with `wait_s`, wait that long for the first one."""
        request = types.PullRequest(
            subscription=name, max_messages=max_messages, return_immediately=wait_s <= 0
        )
        try:
            reply = self._call(
                "Subscriber/Pull", request, types.PullResponse, timeout_s=wait_s or self._timeout_s
            )
        except CallFailed as failure:
            if wait_s > 0 and failure.status == "DEADLINE_EXCEEDED":
                return []
            raise
        return list(reply.received_messages)

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        request = types.AcknowledgeRequest(subscription=name, ack_ids=ack_ids)
        self._call("Subscriber/Acknowledge", request, empty_pb2.Empty)

    def modify_ack_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Give leases so many seconds from now; zero is a nack."""
        request = types.ModifyAckDeadlineRequest(
            subscription=name, ack_ids=ack_ids, ack_deadline_seconds=seconds
        )
        self._call("Subscriber/ModifyAckDeadline", request, empty_pb2.Empty)

    def call(
        self, method: str, request: Any, reply_type: Any, *, timeout_s: float | None = None
    ) -> Any:
        """Call any method, such as `fanlog.v1.Jobs/GetJob`.

        Raises:
            CallFailed: It was refused, or did not arrive.
        """
        return self._call(method, request, reply_type, timeout_s=timeout_s)

    def _pages(self, method: str, request: Any, reply_type: Any) -> Iterator[Any]:
        while True:
            page = self._call(method, request, reply_type)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _schema_call(self, method: str, request: Any, compatibility: str | None) -> tuple[Any, str]:
        metadata = () if compatibility is None else ((attributes.COMPATIBILITY, compatibility),)
        reply, said = self._called(
            f"SchemaService/{method}", request, types.Schema, self._timeout_s, metadata
        )
        return reply, dict(said).get(attributes.COMPATIBILITY, "")

    def _call(
        self, method: str, request: Any, reply_type: Any, *, timeout_s: float | None = None
    ) -> Any:
        reply, said = self._called(method, request, reply_type, timeout_s or self._timeout_s)
        for key, value in said:
            if self._on_hint is not None and key == attributes.HINT:
                self._on_hint(value)
        return reply

    def _called(
        self,
        method: str,
        request: Any,
        reply_type: Any,
        timeout_s: float,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> tuple[Any, list[tuple[str, str]]]:
        """Call; give the reply, and what the server says beside it."""
        is_full = "." in method.partition("/")[0]
        call = self._channel.unary_unary(
            f"/{method}" if is_full else f"/google.pubsub.v1.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply_type.FromString,
        )
        try:
            reply, done = call.with_call(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise self._failure(error, timeout_s) from error
        return reply, [(str(key), str(value)) for key, value in done.trailing_metadata() or ()]

    def _failure(self, error: Any, timeout_s: float) -> CallFailed:
        status = error.code().name
        details = error.details() or ""
        if status == "UNAVAILABLE" and any(word in details.lower() for word in _UNREACHED):
            return CallFailed(
                f"no server answers at {self.endpoint}; start one with `fanlog serve`,"
                " or name another with --endpoint",
                status,
                has_arrived=False,
            )
        if status == "DEADLINE_EXCEEDED":
            return CallFailed(
                f"the server at {self.endpoint} did not answer within {timeout_s:g} s", status
            )
        return CallFailed(
            details or f"the server at {self.endpoint} answered {status} and no reason", status
        )
