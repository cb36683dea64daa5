"""Leased messages become groups, and groups become requests of HTTP or calls of gRPC."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest

from fanlog.core.redelivery import Nack
from fanlog.log.batch import Batch
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.attributes import ORIGINAL_ID
from fanlog.model.endpoints import parse_web
from fanlog.model.ids import ack_id, message_id
from fanlog.model.resources import (
    PartitionId,
    PushConfig,
    Subscription,
    SubscriptionId,
    TopicId,
)
from fanlog.push.rules.outcome import TAKEN, of_answer
from fanlog.push.rules.packing import Destination, LeasedMessage, group, max_taken
from fanlog.push.rules.signatures import webhook_headers
from fanlog.push.senders.grpc_transport import GrpcTransport
from fanlog.push.senders.web_transport import WebTransport
from fanlog.v1.receiver_pb2 import ReceiveRequest, ReceiveResponse, Refusal
from fanlog.wire.publish import build_body

PARTITION, BASE, PREFIX = PartitionId(7), 40, "1a.7-"
NAME, TOPIC = "projects/p/subscriptions/s", "projects/p/topics/orders"
URL = "http://8.8.8.8/hook"
SECRETS = ("whsec_" + "c" * 32,)
WALL_S = 1_700_000_000


def batch_of(
    *messages: tuple[bytes, Mapping[str, str], str],
    attributes: Mapping[str, str] | None = None,
    seal: Seal | None = UNSEALED,
) -> Batch:
    body = build_body(messages)
    return Batch(
        topic=1,
        partition=PARTITION,
        base_offset=BASE,
        sequence=1,
        publish_time_ns=1_600_000_000_000_000_000,
        starts=body.starts,
        key_hashes=body.key_hashes,
        attributes=attributes or {},
        content=body.content,
        seal=seal,
    )


def leased(
    batch: Batch,
    index: int = 0,
    *,
    attempt: int = 0,
    failures: int = 0,
    added: Mapping[str, str] | None = None,
) -> LeasedMessage:
    return LeasedMessage(batch, index, ack_id(PREFIX, BASE + index), attempt, failures, added)


def some(count: int) -> list[LeasedMessage]:
    batch = batch_of(*((b"%d" % n, {}, "") for n in range(count)))
    return [leased(batch, n) for n in range(count)]


def destination(*, token: str = "", topic: str = TOPIC, url: str = URL, **fields) -> Destination:
    push = PushConfig(endpoint=url, webhook_secrets=fields.pop("secrets", ()))
    subscription = Subscription(
        id=SubscriptionId(1),
        name=NAME,
        topic=topic,
        topic_id=TopicId(1),
        partitions=(PARTITION,),
        push=push,
        **fields,
    )
    return Destination(subscription, parse_web(url), token, WALL_S)


def pack_one(one: LeasedMessage, **fields):
    return WebTransport.pack((one,), destination(**fields))


class TestGroups:
    def test_over_http_each_message_goes_alone(self):
        messages = some(3)
        assert list(group(messages, WebTransport.messages_max)) == [(one,) for one in messages]

    def test_over_grpc_those_that_failed_before_go_alone(self):
        messages = some(5)
        messages[1].attempt, messages[3].failures = 2, 1
        # A first delivery that a dead letter policy counts has not failed.
        messages[4].attempt = 1
        assert list(group(messages, GrpcTransport.messages_max)) == [
            (messages[1],),
            (messages[3],),
            [messages[0], messages[2], messages[4]],
        ]

    def test_nothing_is_no_group(self):
        assert list(group([], 1)) == list(group([], 100)) == []

    @pytest.mark.parametrize(
        ("room", "messages_max", "has_failures", "most"),
        [
            (8, 1, False, 8),
            (8, 1, True, 8),
            (8, 100, False, 100),
            (8, 100, True, 8),
            (200, 100, True, 100),
        ],
    )
    def test_every_message_that_is_leased_can_be_sent(self, room, messages_max, has_failures, most):
        assert max_taken(room, messages_max, has_failures=has_failures) == most


class TestWeb:
    def test_a_request_has_its_message_and_its_settings(self):
        one = leased(
            batch_of((b"0", {}, ""), (b"data", {"k": "v"}, "key"), attributes={"of": "batch"}), 1
        )
        request = pack_one(one, labels={"fanlog-push-timeout": "20"})
        assert request.endpoint.url == URL
        assert request.messages == (one,)
        assert request.timeout_s == 20
        assert json.loads(request.body) == {
            "message": {
                "data": base64.b64encode(b"data").decode(),
                "attributes": {"k": "v", "of": "batch"},
                "orderingKey": "key",
                "messageId": message_id(PARTITION, BASE + 1),
                "message_id": message_id(PARTITION, BASE + 1),
                "publishTime": "2020-09-13T12:26:40Z",
                "publish_time": "2020-09-13T12:26:40Z",
            },
            "subscription": NAME,
        }
        assert request.headers["X-Event-Id"] == message_id(PARTITION, BASE + 1)
        assert request.headers["X-Event-Type"] == "orders"
        assert request.headers["X-Delivery-Attempt"] == "1"
        assert "Authorization" not in request.headers
        assert "webhook-signature" not in request.headers

    def test_the_form_is_the_subscriptions(self):
        one = leased(batch_of((b"data", {}, "")))
        body = json.loads(pack_one(one, labels={"fanlog-push-body": "plain"}).body)
        assert body["ack_id"] == one.ack_id

    @pytest.mark.parametrize(
        ("attempt", "failures", "shown", "is_counted"),
        [(0, 0, "1", False), (0, 4, "5", False), (1, 0, "1", True), (3, 1, "3", True)],
    )
    def test_attempts_of_a_policy_come_before_those_a_sender_remembers(
        self, attempt, failures, shown, is_counted
    ):
        one = leased(batch_of((b"", {}, "")), attempt=attempt, failures=failures)
        request = pack_one(one)
        assert request.headers["X-Delivery-Attempt"] == shown
        assert ("deliveryAttempt" in json.loads(request.body)) == is_counted

    def test_on_a_pattern_the_topic_is_the_messages(self):
        added = {"fanlog-topic": "projects/p/topics/a.b"}
        one = leased(batch_of((b"", {}, "")), added=added)
        request = pack_one(one, topic="projects/p/topics/a.*")
        assert request.headers["X-Event-Type"] == "a.b"
        assert json.loads(request.body)["message"]["attributes"] == added

    @pytest.mark.parametrize(
        ("seal", "event"),
        [
            (Seal(is_copy=True, addressee=1), "original"),
            (UNSEALED, message_id(PARTITION, BASE)),
            (None, message_id(PARTITION, BASE)),
        ],
    )
    def test_a_redriven_copy_has_the_event_id_of_its_original(self, seal, event):
        one = leased(batch_of((b"", {ORIGINAL_ID: "original"}, ""), seal=seal))
        request = pack_one(one, secrets=SECRETS)
        assert request.headers["X-Event-Id"] == request.headers["webhook-id"] == event

    def test_signatures_and_tokens(self):
        request = pack_one(leased(batch_of((b"x", {}, ""))), secrets=SECRETS, token="t.o.k")
        proofs = webhook_headers(SECRETS, message_id(PARTITION, BASE), WALL_S, request.body)
        assert proofs.items() <= request.headers.items()
        assert request.headers["Authorization"] == "Bearer t.o.k"


class TestGrpc:
    def pack(self, messages, **fields):
        return GrpcTransport.pack(messages, destination(url="grpc://8.8.8.8:9000", **fields))

    def test_a_call_has_all_messages_of_its_group(self):
        batch = batch_of((b"0", {"k": "v"}, "key"), (b"1", {}, ""), attributes={"of": "batch"})
        messages = [
            leased(batch, 0, attempt=3),
            leased(batch, 1, added={"fanlog-topic": "projects/p/topics/a.b"}),
        ]
        request = self.pack(messages)
        call = ReceiveRequest.FromString(request.body)
        assert call.subscription == NAME
        assert [one.ack_id for one in call.messages] == [one.ack_id for one in messages]
        assert [one.message.message_id for one in call.messages] == [
            message_id(PARTITION, BASE),
            message_id(PARTITION, BASE + 1),
        ]
        assert [one.message.data for one in call.messages] == [b"0", b"1"]
        assert [one.delivery_attempt for one in call.messages] == [3, 0]
        first, second = (dict(one.message.attributes) for one in call.messages)
        assert first == {"k": "v", "of": "batch"}
        assert second == {"of": "batch", "fanlog-topic": "projects/p/topics/a.b"}
        assert call.messages[0].message.ordering_key == "key"
        assert request.messages == messages
        assert request.endpoint.port == 9000
        assert request.timeout_s == 10
        assert request.headers == {}

    def test_a_token_is_metadata(self):
        assert self.pack(some(1), token="t").headers == {"authorization": "Bearer t"}


class TestAnswers:
    ACK_IDS = ("a", "b")

    def answer(self, *refused: Refusal) -> bytes:
        return ReceiveResponse(refusals=refused).SerializeToString()

    def test_nothing_refused(self):
        assert of_answer(self.answer(), self.ACK_IDS) is TAKEN

    def test_messages_are_refused_one_by_one(self):
        refusal = Refusal(ack_id="b", reason="no\x1b[31m way", delay_seconds=3, terminal=True)
        outcome = of_answer(self.answer(refusal), self.ACK_IDS)
        assert outcome.is_ack
        assert outcome.refused == {
            "b": Nack(delay_s=3.0, is_terminal=True, reason="no[31m way"),
        }

    @pytest.mark.parametrize("answer", [b"\xff", ReceiveResponse(refusals=[Refusal(ack_id="c")])])
    def test_an_answer_without_meaning_is_a_failure(self, answer):
        raw = answer if isinstance(answer, bytes) else answer.SerializeToString()
        outcome = of_answer(raw, self.ACK_IDS)
        assert not outcome.is_ack
        assert outcome.is_failing
        assert outcome.reason.startswith("the answer")
