"""Requests that are too large are refused before anything is made of them."""

from __future__ import annotations

import gzip

import grpc
import pytest
from google.iam.v1 import iam_policy_pb2
from google.protobuf.struct_pb2 import Struct

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge, Unimplemented
from fanlog.server.services import LARGE, SERVICES
from fanlog.wire import fields, iam, types
from fanlog.wire.jobs import values_of
from server.rest.http import Http


@pytest.fixture
def server(start_server):
    return start_server("memory")


def call(server, service, method, raw, **options):
    with server.channel() as channel:
        return channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=None,
            response_deserializer=None,
        )(raw, timeout=60, **options)


def test_every_method_has_a_bound_that_comes_before_parsing(server):
    """The bytes are no message of any kind: whoever parsed them would say that."""
    for service in SERVICES:
        for method in service.methods:
            most = method.request_bytes_max
            if most >= limits.GRPC_RECEIVE_BYTES_MAX:
                continue
            with pytest.raises(grpc.RpcError, match=f"at most {most} are allowed") as refused:
                call(server, service.name, method.name, b"\xff" * (most + 1))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_folded_requests_are_measured_unfolded(server):
    policy = b"\x12\x02\x0a\x00" * (6 * 1024 * 1024)
    assert len(gzip.compress(policy)) < 128 * 1024
    with pytest.raises(grpc.RpcError, match="unfolded"):
        call(
            server,
            "google.iam.v1.IAMPolicy",
            "SetIamPolicy",
            policy,
            compression=grpc.Compression.Gzip,
        )


def test_streams(server):
    _, subscription = server.topic_and_subscription()
    for request, says in (
        (b"\xff" * (limits.ACK_BYTES_MAX + 1), "at most"),
        (
            types.StreamingPullRequest(
                subscription=subscription,
                stream_ack_deadline_seconds=10,
                ack_ids=["x"] * (limits.ACK_IDS_MAX + 1),
            ).SerializeToString(),
            "ack_ids: 100001 values",
        ),
    ):
        with server.channel() as channel, pytest.raises(grpc.RpcError, match=says):
            list(
                channel.stream_stream(
                    "/google.pubsub.v1.Subscriber/StreamingPull",
                    request_serializer=None,
                    response_deserializer=None,
                )(iter([request]), timeout=60)
            )


def test_reads_of_the_log(server):
    with server.channel() as channel, pytest.raises(grpc.RpcError, match="at most"):
        list(
            channel.unary_stream(
                "/fanlog.v1.Log/Read", request_serializer=None, response_deserializer=None
            )(b"\xff" * (limits.REQUEST_BYTES_MAX + 1), timeout=60)
        )


def test_rest_bodies(server):
    http = Http(server)
    large = b'{"labels": {"a": "' + b"x" * 2 * limits.REQUEST_BYTES_MAX + b'"}}'
    headers = {"content-type": "application/json"}
    said = http.refused(413, "PUT", "/v1/projects/p/topics/large", data=large, headers=headers)
    assert "the most this method takes" in said
    # A message may be that large.
    topic = server.topic()
    body = {"messages": [{"data": "eHh4" * (limits.REQUEST_BYTES_MAX // 2)}]}
    assert http("POST", f"/v1/{topic}:publish", body).status_code == 200
    http.close()


def test_a_publish_says_its_own_limit(server):
    raw = types.PublishRequest(
        topic=server.topic(),
        messages=[types.PubsubMessage(data=b"x" * (limits.PUBLISH_BYTES_MAX + 1))],
    ).SerializeToString()
    with pytest.raises(grpc.RpcError, match="the publish request has"):
        call(server, "google.pubsub.v1.Publisher", "Publish", raw)
    assert "Publisher.Publish" in LARGE


class TestCountsComeFirst:
    """How much is looked at, not how long it takes."""

    def test_bindings_are_counted_before_one_is_looked_at(self):
        request = iam_policy_pb2.SetIamPolicyRequest()
        request.policy.SetInParent()
        for _ in range(limits.IAM_BINDINGS_MAX + 1):
            # With a condition: looking at one would refuse that.
            request.policy.bindings.add().condition.title = "t"
        with pytest.raises(InvalidArgument, match="101 bindings"):
            iam.bindings_of(request)

    def test_members_are_counted_before_one_is_made(self):
        request = iam_policy_pb2.SetIamPolicyRequest()
        request.policy.bindings.add(
            members=[""] * (limits.IAM_MEMBERS_MAX + 1)
        ).condition.title = "t"
        with pytest.raises(InvalidArgument, match="1501 members"):
            iam.bindings_of(request)

    def test_a_search_for_unknown_fields_ends(self, monkeypatch):
        looked = []
        monkeypatch.setattr(
            fields, "UnknownFieldSet", lambda part: looked.append(part) or (), raising=True
        )
        request = types.PublishRequest(messages=[types.PubsubMessage()] * 50_000)
        with pytest.raises(Unimplemented, match="PublishRequest: a field that is not known"):
            fields.refuse_unknown(request)
        assert len(looked) == limits.UNKNOWN_PARTS_MAX

    def test_arguments_of_a_job_are_weighed_before_they_are_read(self, monkeypatch):
        monkeypatch.setattr("google.protobuf.json_format.MessageToDict", pytest.fail)
        large = Struct()
        large["x"] = "y" * limits.JOB_BYTES_MAX
        with pytest.raises(TooLarge, match="arguments: "):
            values_of(large, "arguments")
