"""Google's own client as a surface, over gRPC and over REST."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import google.pubsub_v1 as gapic
import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.protobuf import json_format

from fanlog.config import PROJECT_DEFAULT as PROJECT
from server.conftest import PATIENCE_S, RunningServer
from server.rest.surfaces import Received, Refused, snapshot_name, subscription_name, topic_name


class Gapic:
    """Google's own client, over gRPC or REST."""

    def __init__(self, publisher: Any, subscriber: Any) -> None:
        self._publisher, self._subscriber = publisher, subscriber

    def _call(self, verb: Any, **request: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return verb(request=request, retry=None, timeout=PATIENCE_S)
        except GoogleAPICallError as error:
            raise _refused(error) from error

    def _shown(self, message: Any) -> Any:
        return json_format.MessageToDict(
            type(message).pb(message), preserving_proto_field_name=True
        )

    def create_topic(self, topic: str, **fields: Any) -> Any:
        return self._shown(
            self._call(self._publisher.create_topic, name=topic_name(topic), **fields)
        )

    def get_topic(self, topic: str) -> Any:
        return self._shown(self._call(self._publisher.get_topic, topic=topic_name(topic)))

    def update_topic(self, topic: str, **fields: Any) -> Any:
        found = self._call(
            self._publisher.update_topic,
            topic={"name": topic_name(topic), **fields},
            update_mask={"paths": list(fields)},
        )
        return self._shown(found)

    def delete_topic(self, topic: str) -> None:
        self._call(self._publisher.delete_topic, topic=topic_name(topic))

    def list_topics(self, page_size: int = 100) -> list[str]:
        found = self._call(
            self._publisher.list_topics, project=f"projects/{PROJECT}", page_size=page_size
        )
        return [one.name for one in found]

    def list_topic_subscriptions(self, topic: str) -> list[str]:
        return list(self._call(self._publisher.list_topic_subscriptions, topic=topic_name(topic)))

    def publish(self, topic: str, *messages: Mapping[str, Any]) -> list[str]:
        found = self._call(
            self._publisher.publish, topic=topic_name(topic), messages=list(messages)
        )
        return list(found.message_ids)

    def create_subscription(self, subscription: str, topic: str, **fields: Any) -> Any:
        found = self._call(
            self._subscriber.create_subscription,
            name=subscription_name(subscription),
            topic=topic_name(topic),
            **fields,
        )
        return self._shown(found)

    def get_subscription(self, subscription: str) -> Any:
        found = self._call(
            self._subscriber.get_subscription, subscription=subscription_name(subscription)
        )
        return self._shown(found)

    def update_subscription(self, subscription: str, **fields: Any) -> Any:
        found = self._call(
            self._subscriber.update_subscription,
            subscription={"name": subscription_name(subscription), **fields},
            update_mask={"paths": list(fields)},
        )
        return self._shown(found)

    def delete_subscription(self, subscription: str) -> None:
        self._call(
            self._subscriber.delete_subscription, subscription=subscription_name(subscription)
        )

    def detach(self, subscription: str) -> None:
        self._call(
            self._publisher.detach_subscription, subscription=subscription_name(subscription)
        )

    def list_subscriptions(self, page_size: int = 100) -> list[str]:
        found = self._call(
            self._subscriber.list_subscriptions,
            project=f"projects/{PROJECT}",
            page_size=page_size,
        )
        return [one.name for one in found]

    def pull(self, subscription: str, max_messages: int = 100, *, wait: bool = False) -> Any:
        found = self._call(
            self._subscriber.pull,
            subscription=subscription_name(subscription),
            max_messages=max_messages,
            return_immediately=not wait,
        )
        return [
            Received(
                ack_id=one.ack_id,
                data=one.message.data,
                attributes=dict(one.message.attributes),
                ordering_key=one.message.ordering_key,
                message_id=one.message.message_id,
                attempt=one.delivery_attempt,
            )
            for one in found.received_messages
        ]

    def ack(self, subscription: str, ack_ids: list[str]) -> None:
        self._call(
            self._subscriber.acknowledge,
            subscription=subscription_name(subscription),
            ack_ids=ack_ids,
        )

    def modify(self, subscription: str, ack_ids: list[str], seconds: int) -> None:
        self._call(
            self._subscriber.modify_ack_deadline,
            subscription=subscription_name(subscription),
            ack_ids=ack_ids,
            ack_deadline_seconds=seconds,
        )

    def nack(self, subscription: str, ack_ids: list[str]) -> None:
        self.modify(subscription, ack_ids, 0)

    def create_snapshot(self, snapshot: str, subscription: str, **fields: Any) -> Any:
        found = self._call(
            self._subscriber.create_snapshot,
            name=snapshot_name(snapshot),
            subscription=subscription_name(subscription),
            **fields,
        )
        return self._shown(found)

    def get_snapshot(self, snapshot: str) -> Any:
        return self._shown(
            self._call(self._subscriber.get_snapshot, snapshot=snapshot_name(snapshot))
        )

    def update_snapshot(self, snapshot: str, **fields: Any) -> Any:
        found = self._call(
            self._subscriber.update_snapshot,
            snapshot={"name": snapshot_name(snapshot), **fields},
            update_mask={"paths": list(fields)},
        )
        return self._shown(found)

    def delete_snapshot(self, snapshot: str) -> None:
        self._call(self._subscriber.delete_snapshot, snapshot=snapshot_name(snapshot))

    def list_snapshots(self) -> list[str]:
        found = self._call(self._subscriber.list_snapshots, project=f"projects/{PROJECT}")
        return [one.name for one in found]

    def seek_to_time(self, subscription: str, time: str) -> None:
        timestamp = gapic.SeekRequest.pb()().time
        timestamp.FromJsonString(time)
        self._call(
            self._subscriber.seek, subscription=subscription_name(subscription), time=timestamp
        )

    def seek_to_snapshot(self, subscription: str, snapshot: str) -> None:
        self._call(
            self._subscriber.seek,
            subscription=subscription_name(subscription),
            snapshot=snapshot_name(snapshot),
        )


def official_rest(server: RunningServer) -> Gapic:
    """Google's own client with its REST transport."""
    endpoint = server.http("").removeprefix("http://")

    def client(of: Any) -> Any:
        transport = of.get_transport_class("rest")(
            host=endpoint, url_scheme="http", credentials=AnonymousCredentials()
        )
        return of(transport=transport)

    return Gapic(client(gapic.PublisherClient), client(gapic.SubscriberClient))


def _refused(error: GoogleAPICallError) -> Refused:
    # Over REST the client keeps the HTTP code only; the body has the status.
    if isinstance(error.response, requests.Response):
        status = error.response.json()["error"]["status"]
    else:
        status = error.grpc_status_code.name
    return Refused(status, error.code or 0, error.reason or "", error.message)
