"""IAM policies, through the official clients over gRPC and over REST."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import (
    Aborted,
    BadRequest,
    Conflict,
    MethodNotImplemented,
    NotFound,
    ServiceUnavailable,
)
from google.auth.credentials import AnonymousCredentials
from google.iam.v1 import options_pb2, policy_pb2
from google.protobuf.field_mask_pb2 import FieldMask
from google.type import expr_pb2

from fanlog.broker.clock import ManualClock
from server.conftest import PROJECT, RunningServer
from server.registry import Registry
from server.unique import unique

VIEWER, PUBLISHER = "roles/pubsub.viewer", "roles/pubsub.publisher"
ADA, EVE = "user:ada@example.com", "user:eve@example.com"


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


class Iam:
    """The IAM verbs of an official client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get(self, resource: str, version: int = 0) -> Any:
        request: dict[str, Any] = {"resource": resource}
        if version:
            request["options"] = options_pb2.GetPolicyOptions(requested_policy_version=version)
        return self._client.get_iam_policy(request=request)

    def set(self, resource: str, policy: Any, *mask: str) -> Any:
        request = {"resource": resource, "policy": policy}
        if mask:
            request["update_mask"] = FieldMask(paths=mask)
        return self._client.set_iam_policy(request=request)

    def test(self, resource: str, *permissions: str) -> list[str]:
        request = {"resource": resource, "permissions": permissions}
        return list(self._client.test_iam_permissions(request=request).permissions)


def policy(*members: str, role: str = VIEWER, **fields: Any) -> Any:
    bindings = [policy_pb2.Binding(role=role, members=members)] if members else []
    return policy_pb2.Policy(bindings=bindings, **fields)


def snapshot_of(server: RunningServer, subscription: str) -> str:
    name = f"projects/{PROJECT}/snapshots/{unique('snap')}"
    request = {"name": name, "subscription": subscription}
    return str(server.subscriber.create_snapshot(request=request).name)


def rest_client(server: RunningServer, of: Any) -> Any:
    transport = of.get_transport_class("rest")(
        host=server.http("").removeprefix("http://"),
        url_scheme="http",
        credentials=AnonymousCredentials(),
    )
    return of(transport=transport)


SURFACES = ["grpc-publisher", "grpc-subscriber", "rest-publisher", "rest-subscriber"]


@pytest.fixture(params=SURFACES)
def iam(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Iam]:
    match request.param:
        case "grpc-publisher":
            yield Iam(server.publisher)
        case "grpc-subscriber":
            yield Iam(server.subscriber)
        case "rest-publisher":
            with rest_client(server, gapic.PublisherClient) as client:
                yield Iam(client)
        case _:
            with rest_client(server, gapic.SubscriberClient) as client:
                yield Iam(client)


@pytest.fixture(params=["topic", "subscription", "snapshot", "schema"])
def resource(request: pytest.FixtureRequest, server: RunningServer) -> str:
    if request.param == "schema":
        return str(Registry(server).create().name)
    topic, subscription = server.topic_and_subscription()
    if request.param == "snapshot":
        return snapshot_of(server, subscription)
    return topic if request.param == "topic" else subscription


class TestPolicies:
    def test_read_change_write(self, iam, resource):
        found = iam.get(resource)
        assert found.etag
        assert (found.version, list(found.bindings)) == (0, [])
        found.bindings.add(role=VIEWER, members=[ADA])
        stored = iam.set(resource, found)
        assert stored.etag != found.etag
        assert (stored.version, stored.bindings) == (1, found.bindings)
        assert iam.get(resource) == stored
        stored.bindings.add(role=PUBLISHER, members=[EVE, "allUsers", ADA])
        again = iam.set(resource, stored)
        assert {one.role: set(one.members) for one in again.bindings} == {
            VIEWER: {ADA},
            PUBLISHER: {EVE, "allUsers", ADA},
        }
        emptied = iam.set(resource, policy(etag=again.etag))
        assert (emptied.version, list(emptied.bindings)) == (1, [])

    def test_a_conflicting_etag_is_refused_and_changes_nothing(self, iam, resource):
        found = iam.get(resource)
        stored = iam.set(resource, policy(ADA, etag=found.etag))
        with pytest.raises(Conflict, match=r"policy\.etag") as refused:
            iam.set(resource, policy(EVE, etag=found.etag))
        assert refused.value.reason == "ABORTED"
        assert iam.get(resource) == stored
        overwritten = iam.set(resource, policy(EVE))
        assert [list(one.members) for one in overwritten.bindings] == [[EVE]]

    @pytest.mark.parametrize("version", [1, 3])
    def test_versions(self, iam, server, version):
        topic = server.topic()
        stored = iam.set(topic, policy(ADA, version=version))
        assert iam.get(topic, version) == stored
        assert stored.version == 1, "as of a policy without conditions"

    def test_what_does_not_exist(self, iam):
        for collection in ("topics", "subscriptions", "snapshots", "schemas"):
            name = f"projects/{PROJECT}/{collection}/nothing"
            with pytest.raises(NotFound):
                iam.get(name)
            with pytest.raises(NotFound):
                iam.set(name, policy(ADA))
            assert iam.test(name, f"pubsub.{collection}.get") == []

    def test_permissions_are_all_granted(self, iam, resource):
        collection = resource.split("/")[2]
        asked = [f"pubsub.{collection}.{verb}" for verb in ("getIamPolicy", "get", "delete", "get")]
        assert iam.test(resource, *asked) == asked[:3]
        assert iam.test(resource) == []
        for other in ("storage.objects.get", "pubsub.topics.*", "pubsub.nothing.get"):
            with pytest.raises(BadRequest) as refused:
                iam.test(resource, asked[0], other)
            assert f"permissions[1]: '{other}'" in refused.value.message

    @pytest.mark.parametrize(
        ("bad", "error", "word"),
        [
            (policy(ADA, role="roles/pubsub.king"), BadRequest, "'roles/pubsub.king'"),
            (policy("ada"), BadRequest, "policy.bindings[0].members[0]: 'ada'"),
            (policy(ADA, version=2), BadRequest, "policy.version: 2"),
            (
                policy_pb2.Policy(
                    version=3,
                    bindings=[
                        policy_pb2.Binding(
                            role=VIEWER, members=[ADA], condition=expr_pb2.Expr(expression="true")
                        )
                    ],
                ),
                MethodNotImplemented,
                "policy.bindings[0].condition",
            ),
            (
                policy(ADA, audit_configs=[policy_pb2.AuditConfig(service="allServices")]),
                MethodNotImplemented,
                "policy.audit_configs",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_not_honoured_is_refused_by_name(self, iam, server, bad, error, word):
        topic = server.topic()
        stored = iam.set(topic, policy(ADA))
        with pytest.raises(error) as refused:
            iam.set(topic, bad)
        assert word in refused.value.message
        assert iam.get(topic) == stored

    def test_a_version_that_is_none_cannot_be_asked_for(self, iam, server):
        with pytest.raises(BadRequest, match=r"options\.requested_policy_version: 2"):
            iam.get(server.topic(), 2)


class TestMasks:
    def test_what_it_does_not_name_stays(self, server):
        iam, topic = Iam(server.publisher), server.topic()
        iam.set(topic, policy(ADA), "bindings", "etag")
        stored = iam.set(topic, policy(EVE, version=3), "version")
        assert [list(one.members) for one in stored.bindings] == [[ADA]]
        with pytest.raises(Aborted):
            iam.set(topic, policy(EVE, etag=b"x"), "bindings")

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("audit_configs", MethodNotImplemented),
            ("policy.bindings", BadRequest),
            ("bindings.role", BadRequest),
            ("colour", BadRequest),
        ],
    )
    def test_other_paths_are_refused(self, server, path, error):
        with pytest.raises(error, match=path.partition(".")[0]):
            Iam(server.publisher).set(server.topic(), policy(ADA), path)


class TestRequests:
    @pytest.mark.parametrize(
        "name",
        [
            "",
            "projects/p",
            "projects/p/queues/abc",
            "topics/abc",
            "projects/p/topics/a",
            "projects/p/topics/orders.*",
            "projects//topics/abc",
            "projects/p/topics/abc/x",
        ],
    )
    def test_names_that_are_none(self, server, name):
        iam = Iam(server.publisher)
        for call in (
            lambda: iam.get(name),
            lambda: iam.set(name, policy()),
            lambda: iam.test(name),
        ):
            with pytest.raises(BadRequest, match="resource"):
                call()

    def test_a_policy_is_required(self, server):
        with pytest.raises(BadRequest, match="policy: required"):
            server.publisher.set_iam_policy(request={"resource": server.topic()})

    def test_of_many_who_read_the_same_one_writes(self, server):
        iam, topic = Iam(server.publisher), server.topic()
        etag = iam.get(topic).etag

        def attempt(number: int) -> int:
            try:
                iam.set(topic, policy(f"user:{number}@example.com", etag=etag))
            except Aborted:
                return 0
            return 1

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(attempt, range(16))) == 1


def deleted_and_made_again(server: RunningServer) -> list[str]:
    """Names of a topic, a subscription and a snapshot that are new under their old names."""
    topic, subscription = server.topic_and_subscription()
    snapshot = snapshot_of(server, subscription)
    iam = Iam(server.publisher)
    for name in (topic, subscription, snapshot):
        iam.set(name, policy(ADA))
    assert len(list(server.broker.hard.catalog.policies())) >= 3
    server.subscriber.delete_snapshot(request={"snapshot": snapshot})
    server.subscriber.delete_subscription(request={"subscription": subscription})
    server.publisher.delete_topic(request={"topic": topic})
    server.topic(name=topic)
    server.subscription(topic, name=subscription)
    server.subscriber.create_snapshot(request={"name": snapshot, "subscription": subscription})
    return [topic, subscription, snapshot]


class TestLife:
    def test_a_resource_made_again_has_none(self, start_server):
        server = start_server()
        names = deleted_and_made_again(server)
        assert list(server.broker.hard.catalog.policies()) == []
        server.restart()
        assert list(server.broker.hard.catalog.policies()) == []
        for name in names:
            assert not Iam(server.publisher).get(name).bindings

    def test_it_goes_in_the_commit_of_its_resource(self, start_server):
        server = start_server(engine="memory")
        topic = server.topic()
        Iam(server.publisher).set(topic, policy(ADA))
        server.publisher.delete_topic(request={"topic": topic})
        removed = [
            {key[:1] for key, value in commit.state.items() if value is None}
            for commit in server.store.commits
        ]
        assert {b"T", b"P"} in removed

    def test_a_subscription_that_expires_takes_its_policy_along(self, still_server):
        topic = still_server.topic()
        subscription = still_server.subscription(
            topic, expiration_policy={"ttl": {"seconds": 604_800}}
        )
        Iam(still_server.publisher).set(subscription, policy(ADA))
        still_server.advance(604_800 * 2)
        still_server.sweep()
        assert not still_server.broker.hard.catalog.has_subscription(subscription)
        assert list(still_server.broker.hard.catalog.policies()) == []

    def test_it_survives_a_restart(self, start_server):
        server = start_server()
        topic = server.topic()
        stored = Iam(server.publisher).set(topic, policy(ADA))
        server.restart()
        iam = Iam(server.publisher)
        assert iam.get(topic) == stored
        assert iam.set(topic, policy(EVE, etag=stored.etag)).etag != stored.etag

    def test_a_commit_that_fails_leaves_what_was(self, start_server):
        server = start_server(engine="memory", clock=ManualClock())
        iam, topic = Iam(server.publisher), server.topic()
        stored = iam.set(topic, policy(ADA))
        server.store.failures.append(OSError("no"))
        with pytest.raises(ServiceUnavailable):
            iam.set(topic, policy(EVE))
        assert iam.get(topic) == stored
