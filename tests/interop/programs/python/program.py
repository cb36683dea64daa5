"""The Python client as a program: commands on standard input, an answer a line.

`programs/README.md` lists the commands.

    python program.py ENDPOINT [CA [KEEP_ALIVE_S]]
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import google.pubsub_v1 as gapic
import grpc
from google.api_core.exceptions import GoogleAPICallError, ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud import pubsub_v1
from google.oauth2 import service_account
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from google.pubsub_v1.services.publisher.transports import (
    PublisherGrpcTransport,
    PublisherRestTransport,
)
from google.pubsub_v1.services.subscriber.transports import (
    SubscriberGrpcTransport,
    SubscriberRestTransport,
)
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

PATIENCE_S = 60
#: Of a service account; empty where callers are not authenticated.
KEY_FILE = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
#: By itself the client waits up to 60 s after an outage.
RETRY = Retry(
    predicate=if_exception_type(ServiceUnavailable), initial=0.1, maximum=1, timeout=PATIENCE_S
)


class Flow:
    """Messages published and received at the same time, and what became of them."""

    def __init__(self, program: Program, topic: str, subscription: str, size: int, ahead: int):
        self._publish = program.publisher.publish
        self._topic = topic
        self._padding = b"." * size
        self._ahead = ahead
        self._changed = threading.Condition()
        self._is_ending = False
        self.published: set[str] = set()
        self.received: set[str] = set()
        # By message id: a publish that was sent twice may be published twice.
        self.delivered: set[str] = set()
        self.acked: set[str] = set()
        self.again = 0
        self.failed: list[str] = []
        self._pulling = program.subscriber.subscribe(subscription, self._receive)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_ending:
            with self._changed:
                settled = min(len(self.published) + len(self.failed), len(self.received))
                if number - settled >= self._ahead:
                    self._changed.wait(0.1)
                    continue
            name = str(number)
            future = self._publish(self._topic, self._padding, number=name)
            future.add_done_callback(lambda done, name=name: self._told(done, name))
            number += 1
        self._begun = number

    def _told(self, done: Any, name: str) -> None:
        with self._changed:
            if (error := done.exception()) is None:
                self.published.add(name)
            else:
                self.failed.append(str(error))
            self._changed.notify()

    def _receive(self, message: Any) -> None:
        message_id = message.message_id
        with self._changed:
            self.received.add(message.attributes["number"])
            self.delivered.add(message_id)
            self.again += message_id in self.acked
            self._changed.notify()
        acking = message.ack_with_response()
        acking.add_done_callback(lambda done: self._confirmed(done, message_id))

    def _confirmed(self, done: Any, message_id: str) -> None:
        if done.exception() is None:
            with self._changed:
                self.acked.add(message_id)

    def count(self) -> dict[str, Any]:
        with self._changed:
            return {"published": len(self.published), "received": len(self.received)}

    def pause(self) -> dict[str, Any]:
        self._is_ending = True
        self._thread.join(PATIENCE_S)
        with self._changed:
            self._changed.wait_for(self._is_whole, PATIENCE_S)
        return self.count()

    def end(self) -> dict[str, Any]:
        self.pause()
        self._pulling.cancel()
        self._pulling.result(PATIENCE_S)
        return {
            **self.count(),
            "delivered": len(self.delivered),
            "acked": len(self.acked),
            "lost": len(self.published - self.received),
            "again": self.again,
            "failed": self.failed[:3],
        }

    def _is_whole(self) -> bool:
        told = len(self.published) + len(self.failed)
        return told == self._begun and self.published <= self.received


class Program:
    """The commands."""

    def __init__(self, endpoint: str, ca: str = "", keep_alive_s: str = "") -> None:
        self._endpoint, self._ca = endpoint, ca
        self._options = [("grpc.max_receive_message_length", -1)]
        if keep_alive_s:
            self._options += [
                ("grpc.keepalive_time_ms", int(float(keep_alive_s) * 1000)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
            ]
        retrying = pubsub_v1.types.PublisherOptions(retry=RETRY)
        if KEY_FILE:
            # The clients find the key file and the authorities by themselves.
            options = {"api_endpoint": endpoint}
            self.publisher = pubsub_v1.PublisherClient(
                publisher_options=retrying, client_options=options
            )
            self.subscriber = pubsub_v1.SubscriberClient(client_options=options)
        else:
            self.publisher = pubsub_v1.PublisherClient(
                publisher_options=retrying,
                transport=PublisherGrpcTransport(channel=self._channel()),
            )
            self.subscriber = pubsub_v1.SubscriberClient(
                transport=SubscriberGrpcTransport(channel=self._channel())
            )
        self._flow: Flow | None = None

    def _channel(self) -> grpc.Channel:
        if not self._ca:
            return grpc.insecure_channel(self._endpoint, self._options)
        with open(self._ca, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        return grpc.secure_channel(self._endpoint, credentials, self._options)

    def create(self, topic: str, subscription: str, exactly_once: bool) -> dict[str, Any]:
        self.publisher.create_topic(name=topic)
        self.subscriber.create_subscription(
            {
                "name": subscription,
                "topic": topic,
                "retain_acked_messages": True,
                "enable_exactly_once_delivery": exactly_once,
            }
        )
        return {}

    def publish(self, topic: str, data: list[str]) -> dict[str, Any]:
        futures = [self.publisher.publish(topic, one.encode(), client="python") for one in data]
        return {"ids": [future.result(PATIENCE_S) for future in futures]}

    def receive(self, subscription: str, count: int) -> dict[str, Any]:
        received: list[str] = []
        acks: list[Any] = []
        is_done = threading.Event()

        def take(message: Any) -> None:
            acks.append(message.ack_with_response())
            received.append(message.data.decode())
            if len(received) >= count:
                is_done.set()

        pulling = self.subscriber.subscribe(subscription, take)
        is_done.wait(PATIENCE_S)
        for ack in acks:
            ack.result(PATIENCE_S)
        pulling.cancel()
        pulling.result(PATIENCE_S)
        return {"received": received}

    def seek(self, subscription: str, time_s: float) -> dict[str, Any]:
        self.subscriber.seek(
            {"subscription": subscription, "time": datetime.fromtimestamp(time_s, UTC)}
        )
        return {}

    def flow(self, **fields: Any) -> dict[str, Any]:
        self._flow = Flow(self, **fields)
        return {}

    def count(self) -> dict[str, Any]:
        assert self._flow is not None
        return self._flow.count()

    def pause(self) -> dict[str, Any]:
        assert self._flow is not None
        return self._flow.pause()

    def end(self) -> dict[str, Any]:
        assert self._flow is not None
        return self._flow.end()

    def rest(self, topic: str, subscription: str, data: str) -> dict[str, Any]:
        options: dict[str, Any] = {
            "host": self._endpoint,
            "url_scheme": "https" if self._ca else "http",
            "credentials": None if KEY_FILE else AnonymousCredentials(),
        }
        # What this transport trusts is said by REQUESTS_CA_BUNDLE.
        publisher = gapic.PublisherClient(transport=PublisherRestTransport(**options))
        subscriber = gapic.SubscriberClient(transport=SubscriberRestTransport(**options))
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
        publisher.publish(topic=topic, messages=[{"data": data.encode()}])
        pulled = subscriber.pull(subscription=subscription, max_messages=10).received_messages
        subscriber.acknowledge(subscription=subscription, ack_ids=[one.ack_id for one in pulled])
        return {"received": [one.message.data.decode() for one in pulled]}

    def look(self, topic: str) -> dict[str, Any]:
        try:
            self.publisher.get_topic(topic=topic)
        except GoogleAPICallError as error:
            return {"code": getattr(error.grpc_status_code, "name", "")}
        return {"code": "OK"}

    def exchange(self, scope: str, path: str) -> dict[str, Any]:
        credentials = service_account.Credentials.from_service_account_file(
            KEY_FILE, scopes=[scope]
        )
        answer = AuthorizedSession(credentials).get(f"https://{self._endpoint}{path}")
        return {"kind": credentials.token[:4], "status": answer.status_code}

    def reflect(self, service: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
        with self._channel() as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            described = DescriptorPool(database).FindServiceByName(service)
            called = described.methods_by_name[method]
            answered = GetMessageClass(called.output_type)
            call = channel.unary_unary(
                f"/{service}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answered.FromString,
            )
            message = ParseDict(request, GetMessageClass(called.input_type)())
            found = {
                "services": list(database.get_services()),
                "methods": [one.name for one in described.methods],
                "answer": MessageToDict(call(message, timeout=PATIENCE_S)),
            }
            return {"v1alpha": found}


def main(arguments: list[str]) -> None:
    program = Program(*arguments)
    for line in sys.stdin:
        fields = json.loads(line)
        verb: Callable[..., dict[str, Any]] = getattr(program, fields.pop("do"))
        began = time.monotonic()
        try:
            answer = verb(**fields)
        except Exception as error:
            answer = {"error": repr(error)}
        sys.stdout.write(json.dumps({**answer, "took_s": time.monotonic() - began}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
