"""Full backlogs: the memory they take under each policy, and what a publish costs that drops."""

from __future__ import annotations

import grpc
from google.pubsub_v1.types import Subscription

from bench.api import BATCH_MESSAGES, publish_request
from bench.meter import Meter, anonymous_mib
from bench.servers import Server
from bench.session import Sample, Session

SIZE_BYTES = 20
IN_FLIGHT = 8
#: Of the backlog, this part is published on top of it, under each policy.
PART = 100
WAYS = ("keep", "drop-oldest", "drop-newest", "drop-random", "drop-by-priority", "sample")


def measure(server: Server, count: int) -> Sample:
    """Fill a topic; for each policy, have a reader of all of it, and publish some more."""
    with Session(server) as session:
        topic = session.topic()
        # Something has to keep them.
        session.subscription(topic)
        request = publish_request(topic, count=BATCH_MESSAGES, size_bytes=SIZE_BYTES)
        requests = [request] * (IN_FLIGHT * 10)
        for _ in range(count // (BATCH_MESSAGES * len(requests))):
            session.api.in_parallel(IN_FLIGHT, session.api.publish, requests)
        figures: dict[str, float | None] = {}
        cpu_s: dict[str, float | None] = {}
        before_mib = anonymous_mib(server)
        most_mib = 0.0
        more = [request] * max(1, count // PART // BATCH_MESSAGES)
        for way in WAYS:
            name = session.subscription_name()
            _subscribe(server, name, topic, way, count)
            session.api.in_parallel(IN_FLIGHT, session.api.publish, more)
            with Meter(server) as meter:
                session.api.in_parallel(IN_FLIGHT, session.api.publish, more)
            cpu_s[way] = meter.cost.server_cpu_s
            after_mib = anonymous_mib(server)
            if before_mib is not None and after_mib is not None:
                most_mib = max(most_mib, after_mib - before_mib)
            session.delete_subscriptions([name])
        figures["memory"] = None if before_mib is None else most_mib
        base = cpu_s["keep"]
        for way in WAYS[1:]:
            spent = cpu_s[way]
            figures[way] = None if not base or spent is None else spent / base
        return Sample(figures=figures, messages=count)


def _subscribe(server: Server, name: str, topic: str, way: str, count: int) -> None:
    labels = {"fanlog-start": "earliest"}
    if way != "keep":
        labels |= {"fanlog-backlog-policy": way, "fanlog-backlog-messages": str(count)}
    request = Subscription.pb(Subscription(name=name, topic=topic, labels=labels))
    with grpc.insecure_channel(server.endpoint) as channel:
        channel.unary_unary(
            "/google.pubsub.v1.Subscriber/CreateSubscription",
            request_serializer=type(request).SerializeToString,
            response_deserializer=type(request).FromString,
        )(request)
