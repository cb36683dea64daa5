"""Bytes that no client would send: refused with a status that says whose fault it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.iam.v1 import iam_policy_pb2

from fanlog.wire import types
from server.conftest import PATIENCE_S, PROJECT, RunningServer

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMA_SERVICE = "google.pubsub.v1.SchemaService"
IAM_POLICY = "google.iam.v1.IAMPolicy"

METHODS: dict[str, Any] = {
    f"{PUBLISHER}/CreateTopic": types.Topic,
    f"{PUBLISHER}/UpdateTopic": types.UpdateTopicRequest,
    f"{PUBLISHER}/Publish": types.PublishRequest,
    f"{PUBLISHER}/GetTopic": types.GetTopicRequest,
    f"{PUBLISHER}/ListTopics": types.ListTopicsRequest,
    f"{PUBLISHER}/ListTopicSubscriptions": types.ListTopicSubscriptionsRequest,
    f"{PUBLISHER}/ListTopicSnapshots": types.ListTopicSnapshotsRequest,
    f"{PUBLISHER}/DeleteTopic": types.DeleteTopicRequest,
    f"{PUBLISHER}/DetachSubscription": types.DetachSubscriptionRequest,
    f"{SUBSCRIBER}/CreateSubscription": types.Subscription,
    f"{SUBSCRIBER}/GetSubscription": types.GetSubscriptionRequest,
    f"{SUBSCRIBER}/UpdateSubscription": types.UpdateSubscriptionRequest,
    f"{SUBSCRIBER}/ListSubscriptions": types.ListSubscriptionsRequest,
    f"{SUBSCRIBER}/DeleteSubscription": types.DeleteSubscriptionRequest,
    f"{SUBSCRIBER}/ModifyAckDeadline": types.ModifyAckDeadlineRequest,
    f"{SUBSCRIBER}/Acknowledge": types.AcknowledgeRequest,
    f"{SUBSCRIBER}/Pull": types.PullRequest,
    f"{SUBSCRIBER}/StreamingPull": types.StreamingPullRequest,
    f"{SUBSCRIBER}/ModifyPushConfig": types.ModifyPushConfigRequest,
    f"{SUBSCRIBER}/GetSnapshot": types.GetSnapshotRequest,
    f"{SUBSCRIBER}/ListSnapshots": types.ListSnapshotsRequest,
    f"{SUBSCRIBER}/CreateSnapshot": types.CreateSnapshotRequest,
    f"{SUBSCRIBER}/UpdateSnapshot": types.UpdateSnapshotRequest,
    f"{SUBSCRIBER}/DeleteSnapshot": types.DeleteSnapshotRequest,
    f"{SUBSCRIBER}/Seek": types.SeekRequest,
    f"{SCHEMA_SERVICE}/CreateSchema": types.CreateSchemaRequest,
    f"{SCHEMA_SERVICE}/GetSchema": types.GetSchemaRequest,
    f"{SCHEMA_SERVICE}/ListSchemas": types.ListSchemasRequest,
    f"{SCHEMA_SERVICE}/ListSchemaRevisions": types.ListSchemaRevisionsRequest,
    f"{SCHEMA_SERVICE}/CommitSchema": types.CommitSchemaRequest,
    f"{SCHEMA_SERVICE}/RollbackSchema": types.RollbackSchemaRequest,
    f"{SCHEMA_SERVICE}/DeleteSchemaRevision": types.DeleteSchemaRevisionRequest,
    f"{SCHEMA_SERVICE}/DeleteSchema": types.DeleteSchemaRequest,
    f"{SCHEMA_SERVICE}/ValidateSchema": types.ValidateSchemaRequest,
    f"{SCHEMA_SERVICE}/ValidateMessage": types.ValidateMessageRequest,
    f"{IAM_POLICY}/GetIamPolicy": iam_policy_pb2.GetIamPolicyRequest,
    f"{IAM_POLICY}/SetIamPolicy": iam_policy_pb2.SetIamPolicyRequest,
    f"{IAM_POLICY}/TestIamPermissions": iam_policy_pb2.TestIamPermissionsRequest,
}
#: A caller's fault, all of them; never UNKNOWN or INTERNAL, which are ours.
FAULTS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
}


def send(channel: grpc.Channel, method: str, raw: bytes) -> tuple[grpc.StatusCode, str]:
    """Send bytes as a request; the status, and the sentence with it."""
    call: Any
    try:
        if method.endswith("/StreamingPull"):
            stream = channel.stream_stream(f"/{method}")(iter([raw]), timeout=PATIENCE_S)
            list(stream)
        else:
            channel.unary_unary(f"/{method}")(raw, timeout=PATIENCE_S)
    except grpc.RpcError as error:
        call = error
        return call.code(), call.details()
    return grpc.StatusCode.OK, ""


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tagged(number: int, wire_type: int, payload: bytes) -> bytes:
    length = varint(len(payload)) if wire_type == 2 else b""
    return varint(number << 3 | wire_type) + length + payload


MALFORMED = {
    "truncated tag": b"\x80",
    "truncated length": b"\x0a",
    "length past the end": b"\x0a\x7fabc",
    "tag zero": b"\x00\x01",
    "wire type seven": b"\x0f\x01",
    "end of a group that never began": b"\x0c",
    "a group that never ends": b"\x0b",
    "varint of eleven bytes": b"\x08" + b"\xff" * 11,
    "text that is not UTF-8": tagged(1, 2, b"projects/p/topics/\xff\xfe"),
    "nested too deep": b"\x0b" * 5_000 + b"\x0c" * 5_000,
}


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    channel = server.channel()
    yield channel
    channel.close()


@pytest.mark.parametrize("method", METHODS)
def test_malformed_requests_are_the_callers_fault(channel, method):
    for what, raw in MALFORMED.items():
        status, sentence = send(channel, method, raw)
        assert status == grpc.StatusCode.INVALID_ARGUMENT, (what, status, sentence)
        assert sentence, what


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_request_is_the_callers_fault(channel, method):
    status, sentence = send(channel, method, b"")
    assert status == grpc.StatusCode.INVALID_ARGUMENT, sentence
    assert sentence


# Not Publish: what it does not know of a message is dropped before it is stored.
@pytest.mark.parametrize(
    "method", [method for method in METHODS if not method.endswith("/Publish")]
)
def test_fields_nobody_knows_are_refused_by_number(server, channel, method):
    good = filled(METHODS[method](), *server.topic_and_subscription()).SerializeToString()
    for number, wire_type, payload in (
        (1999, 0, b"\x01"),
        (1999, 2, b"hidden"),
        (1999, 5, b"1234"),
    ):
        status, sentence = send(channel, method, good + tagged(number, wire_type, payload))
        assert status == grpc.StatusCode.UNIMPLEMENTED, sentence
        assert "1999" in sentence


@pytest.mark.parametrize("method", METHODS)
def test_chance_never_finds_a_fault_of_ours(server, channel, method):
    """Seeded noise, and good requests with one thing changed."""
    chance = random.Random(method)
    topic, subscription = server.topic_and_subscription()
    good = filled(METHODS[method](), topic, subscription).SerializeToString()
    for _ in range(60):
        raw = mutated(chance, good) if chance.random() < 0.7 else noise(chance)
        status, sentence = send(channel, method, raw)
        assert status in FAULTS | {grpc.StatusCode.OK}, (raw, status, sentence)
        assert status == grpc.StatusCode.OK or sentence
    # And still it serves.
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    assert len(server.pull(subscription)) == 1


def filled(message: Any, topic: str, subscription: str) -> Any:
    """A request that means something, of any kind."""
    values = {
        "topic": topic,
        "resource": topic,
        "subscription": subscription,
        "project": f"projects/{PROJECT}",
        "name": subscription,
        "snapshot": subscription.replace("subscriptions", "snapshots"),
        "max_messages": 1,
        "return_immediately": True,
        "stream_ack_deadline_seconds": 10,
        "ack_deadline_seconds": 10,
    }
    for field in message.DESCRIPTOR.fields:
        value = values.get(field.name)
        if value is not None and field.message_type is None:
            setattr(message, field.name, value)
    if isinstance(message, types.Topic):
        message.name = topic
    if isinstance(message, types.PublishRequest):
        message.messages.add(data=b"data", attributes={"a": "b"}, ordering_key="k")
    if hasattr(message, "ack_ids"):
        message.ack_ids.append("0" * 50)
    if hasattr(message, "update_mask"):
        is_policy = isinstance(message, iam_policy_pb2.SetIamPolicyRequest)
        message.update_mask.paths.append("bindings" if is_policy else "labels")
    if isinstance(message, iam_policy_pb2.SetIamPolicyRequest):
        message.policy.bindings.add(role="roles/viewer", members=["user:a@example.com"])
    if isinstance(message, iam_policy_pb2.TestIamPermissionsRequest):
        message.permissions.append("pubsub.topics.get")
    return message


def mutated(chance: random.Random, good: bytes) -> bytes:
    raw = bytearray(good)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(raw) + 1)
        kind = chance.randrange(4)
        if kind == 0 and place < len(raw):
            raw[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            raw[place:place] = chance.randbytes(chance.randrange(1, 6))
        elif kind == 2:
            del raw[place : place + chance.randrange(1, 6)]
        else:
            raw += tagged(chance.randrange(1, 30), chance.choice((0, 1, 2, 5)), chance.randbytes(8))
    return bytes(raw)


def noise(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return chance.randbytes(chance.randrange(200))
    return b"".join(
        tagged(chance.randrange(1, 30), 2, chance.randbytes(chance.randrange(40)))
        for _ in range(chance.randrange(6))
    )


def test_a_method_nobody_knows(channel):
    status, _ = send(channel, f"{PUBLISHER}/MakeCoffee", b"")
    assert status == grpc.StatusCode.UNIMPLEMENTED
    status, _ = send(channel, "google.pubsub.v1.CoffeeService/ListCups", b"")
    assert status == grpc.StatusCode.UNIMPLEMENTED


def test_values_at_the_edges_of_their_types(channel, server):
    topic, subscription = server.topic_and_subscription()
    lowest, highest = -(2**31), 2**31 - 1
    requests = [
        (f"{SUBSCRIBER}/Pull", types.PullRequest(subscription=subscription, max_messages=lowest)),
        (
            f"{PUBLISHER}/ListTopics",
            types.ListTopicsRequest(project="projects/p", page_size=lowest),
        ),
        (
            f"{SUBSCRIBER}/ModifyAckDeadline",
            types.ModifyAckDeadlineRequest(
                subscription=subscription, ack_ids=["x"], ack_deadline_seconds=highest
            ),
        ),
        (
            f"{SUBSCRIBER}/CreateSubscription",
            types.Subscription(name=f"{subscription}-a", topic=topic, ack_deadline_seconds=highest),
        ),
        (
            f"{SUBSCRIBER}/CreateSubscription",
            types.Subscription(
                name=f"{subscription}-b",
                topic=topic,
                message_retention_duration={"seconds": 2**63 - 1, "nanos": highest},
            ),
        ),
        (
            f"{SUBSCRIBER}/Seek",
            types.SeekRequest(subscription=subscription, time={"seconds": -(2**63)}),
        ),
        (
            f"{PUBLISHER}/GetTopic",
            types.GetTopicRequest(topic="projects/p/topics/" + "x" * 1_000_000),
        ),
        (
            f"{SUBSCRIBER}/StreamingPull",
            types.StreamingPullRequest(
                subscription=subscription, stream_ack_deadline_seconds=lowest
            ),
        ),
    ]
    for method, request in requests:
        status, sentence = send(channel, method, request.SerializeToString())
        assert status == grpc.StatusCode.INVALID_ARGUMENT, (method, status, sentence)
        assert len(sentence) < 1_000
    # Very large, but not wrong: as many as there are.
    request = types.ListTopicsRequest(project="projects/p", page_size=highest)
    assert send(channel, f"{PUBLISHER}/ListTopics", request.SerializeToString())[0] == (
        grpc.StatusCode.OK
    )
