"""gRPC health, reflection, and the small pages of the HTTP port."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.schema_service.transports import SchemaServiceGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from server.conftest import PATIENCE_S, RunningServer

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMA_SERVICE = "google.pubsub.v1.SchemaService"
IAM_POLICY = "google.iam.v1.IAMPolicy"
CATALOG = "fanlog.v1.Catalog"
JOBS = "fanlog.v1.Jobs"
LOG = "fanlog.v1.Log"
SINK = "fanlog.v1.Sink"
EXPORTS = "fanlog.v1.Exports"
REPLAY = "fanlog.v1.Replay"


def get(server: RunningServer, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(server.http(path), method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    "service",
    [
        "",
        PUBLISHER,
        SUBSCRIBER,
        SCHEMA_SERVICE,
        IAM_POLICY,
        CATALOG,
        JOBS,
        LOG,
        SINK,
        EXPORTS,
        REPLAY,
    ],
)
def test_grpc_health_says_serving(server, service):
    with closing(server.channel()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(request).status == SERVING
        watch = stub.Watch(request)
        assert next(watch).status == SERVING
        watch.cancel()


def test_a_service_nobody_knows(server):
    with closing(server.channel()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="nobody")
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(request)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        assert "nobody" in refused.value.details()
        watch = stub.Watch(request)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


def test_watchers_are_told_of_a_drain_and_sent_away(start_server):
    server = start_server(engine="memory")
    with closing(server.channel()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [
            stub.Watch(health_pb2.HealthCheckRequest(service=service))
            for service in ("", PUBLISHER, SUBSCRIBER)
        ]
        assert [next(watch).status for watch in watches] == [SERVING] * 3
        server.stop()
        assert [next(watch).status for watch in watches] == [NOT_SERVING] * 3
        for watch in watches:
            with pytest.raises(grpc.RpcError) as ended:
                next(watch)
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE


def test_reflection_describes_what_is_served(server):
    with closing(server.channel()) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services == {
            PUBLISHER,
            SUBSCRIBER,
            SCHEMA_SERVICE,
            IAM_POLICY,
            CATALOG,
            JOBS,
            LOG,
            SINK,
            EXPORTS,
            REPLAY,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "fanlog.v1.Cluster",
            "fanlog.v1.Lake",
            "fanlog.v1.Auth",
            "fanlog.v1.Browse",
            "fanlog.v1.Overview",
            "fanlog.v1.Inspection",
            "fanlog.v1.Pipelines",
            "fanlog.v1.Schedules",
            "fanlog.v1.Alerts",
        }
        pool = DescriptorPool(database)
        for service in services:
            described = pool.FindServiceByName(service)
            assert all(method.input_type.fields is not None for method in described.methods)
        streaming = pool.FindMethodByName(f"{SUBSCRIBER}.StreamingPull")
        assert streaming.client_streaming
        assert streaming.server_streaming
        described = {method.name for method in pool.FindServiceByName(IAM_POLICY).methods}
        assert described == {"GetIamPolicy", "SetIamPolicy", "TestIamPermissions"}


def test_reflection_describes_every_method_that_the_official_client_has(server):
    with closing(server.channel()) as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        for service, transport in (
            (PUBLISHER, PublisherGrpcTransport),
            (SUBSCRIBER, SubscriberGrpcTransport),
            (SCHEMA_SERVICE, SchemaServiceGrpcTransport),
        ):
            described = {method.name for method in pool.FindServiceByName(service).methods}
            assert described == set(methods_of(transport))


def methods_of(transport: type) -> Iterator[str]:
    """Names of a client's calls, as the server spells them."""
    for name, member in vars(transport).items():
        is_call = isinstance(member, property) and not name.startswith(("_", "kind", "grpc"))
        if is_call and name not in ("set_iam_policy", "get_iam_policy", "test_iam_permissions"):
            yield "".join(word.capitalize() for word in name.split("_"))


def test_health_and_readiness_over_http(server):
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz") == (200, "ready\n")


def test_pages_that_do_not_exist_and_methods_that_do_not_fit(server):
    assert get(server, "/console")[0] == 404
    assert get(server, "/v1/projects/p/queues")[0] == 404
    assert get(server, "/healthz", method="POST")[0] == 405
