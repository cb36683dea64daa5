"""The kinds of nacks on every surface: the same words, the same effects, the same refusals."""

from __future__ import annotations

import re

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument

from commands import invoke
from fanlog.client import CallFailed, Client
from fanlog.v1.receiver_pb2 import Refusal
from server import grpc_receiver, options_page, receiver
from server.conftest import unique
from server.rest.http import Http

POLICY_MAX = 5
OWN_PROJECT = "fanlog"


def words_of(requeue=True, counted=True, delay_s=None, reason=None):
    """The metadata, or the headers, that say it."""
    words = []
    words += [("fanlog-requeue", "false")] if not requeue else []
    words += [("fanlog-counted", "false")] if not counted else []
    words += [("fanlog-delay-seconds", str(delay_s))] if delay_s is not None else []
    words += [("fanlog-reason", reason)] if reason is not None else []
    return words


class Refused(Exception):
    """A surface refused a nack, with a sentence."""


def by_unary(server, subscription, ack_ids, **said):
    try:
        server.subscriber.modify_ack_deadline(
            subscription=subscription,
            ack_ids=ack_ids,
            ack_deadline_seconds=0,
            metadata=words_of(**said),
        )
    except (InvalidArgument, FailedPrecondition) as error:
        raise Refused(error.message) from error


def by_stream(server, subscription, ack_ids, **said):
    stream = server.open_stream(
        subscription,
        metadata=words_of(**said),
        modify_deadline_ack_ids=ack_ids,
        modify_deadline_seconds=[0] * len(ack_ids),
    )
    stream.half_close()
    try:
        stream.wait_closed()
    except (InvalidArgument, FailedPrecondition) as error:
        raise Refused(error.message) from error


def _by_rest(server, path, body, headers=None):
    http = Http(server)
    try:
        response = http("POST", path, body, headers=headers or {})
    finally:
        http.close()
    if response.status_code >= 400:
        raise Refused(response.json()["error"]["message"])


def by_google_form(server, subscription, ack_ids, **said):
    body = {"ackIds": ack_ids, "ackDeadlineSeconds": 0}
    _by_rest(server, f"/v1/{subscription}:modifyAckDeadline", body, dict(words_of(**said)))


def by_path_form(server, subscription, ack_ids, **said):
    body = {"ackIds": ack_ids, "ackDeadlineSeconds": 0}
    _by_rest(server, f"/v1/{subscription}/modifyAckDeadline", body, dict(words_of(**said)))


def by_short_form(server, subscription, ack_ids, **said):
    if "delay_s" in said:
        said["delay_seconds"] = said.pop("delay_s")
    name = subscription.rpartition("/")[2]
    _by_rest(server, f"/v1/subscriptions/{name}:nack", {"ack_ids": ack_ids, **said})


def by_command(server, subscription, ack_ids, **said):
    options = ["--terminal"] if not said.get("requeue", True) else []
    options += ["--uncounted"] if not said.get("counted", True) else []
    options += ["--delay", str(said["delay_s"])] if "delay_s" in said else []
    options += ["--reason", said["reason"]] if "reason" in said else []
    environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
    done = invoke(["sub", "nack", subscription, *ack_ids, *options], env=environ)
    if done.exit_code:
        raise Refused(" ".join(done.stderr.split()))


def by_client(server, subscription, ack_ids, **said):
    try:
        with Client(server.endpoint) as client:
            client.nack(subscription, ack_ids, **said)
    except CallFailed as failure:
        raise Refused(failure.message) from failure


SURFACES = [
    *(by_unary, by_stream, by_google_form, by_path_form, by_short_form, by_command, by_client),
]
every_surface = pytest.mark.parametrize("nack", SURFACES)


def new(server, **fields):
    """A topic and a subscription in the server's own project, which the short form is about."""
    topic = f"projects/{OWN_PROJECT}/topics/{unique('nacks')}"
    subscription = f"projects/{OWN_PROJECT}/subscriptions/{unique('nacks')}"
    server.publisher.create_topic(name=topic)
    request = {"name": subscription, "topic": topic, **fields}
    server.subscriber.create_subscription(request=request)
    return topic, subscription


@pytest.fixture
def topics(still_server):
    """A topic, a subscription with a dead letter policy, and a reader of its dead letters."""
    letters, reader = new(still_server)
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": POLICY_MAX}
    return *new(still_server, dead_letter_policy=policy), reader


def held(server, subscription):
    return [one.ack_id for one in server.pull(subscription)]


@every_surface
def test_later(still_server, topics, nack):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    nack(still_server, subscription, held(still_server, subscription), delay_s=90)
    still_server.advance(89)
    assert still_server.pull(subscription) == []
    still_server.advance(2)
    [again] = still_server.pull(subscription)
    assert again.delivery_attempt == 2


@pytest.mark.parametrize("nack", [one for one in SURFACES if one is not by_stream])
def test_without_counting(still_server, topics, nack):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    for _ in range(POLICY_MAX + 1):
        [one] = still_server.pull(subscription)
        assert one.delivery_attempt == 1
        nack(still_server, subscription, [one.ack_id], counted=False)


def test_without_counting_on_a_stream(still_server, topics):
    topic, subscription, _ = topics
    stream = still_server.open_stream(subscription, metadata=words_of(counted=False))
    still_server.publish(topic, b"x")
    for _ in range(POLICY_MAX + 1):
        [one] = stream.messages(1)
        assert one.delivery_attempt == 1
        stream.send(modify_deadline_ack_ids=[one.ack_id], modify_deadline_seconds=[0])
        still_server.await_metric("fanlog_outstanding_messages", subscription, 0)
        still_server.advance(1)


@every_surface
def test_for_good_and_why(still_server, topics, nack):
    topic, subscription, reader = topics
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    nack(still_server, subscription, ack_ids, requeue=False, reason="no such order")
    [letter] = still_server.await_pull(reader)
    assert letter.message.attributes["fanlog-dead-letter-reason"] == (
        "1 of 5 delivery attempts, nacked for good: no such order"
    )


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"delay_s": 43201}, "is out of range; 0 to 43200 seconds are allowed"),
        ({"requeue": False, "delay_s": 1}, "a message that is not requeued has no next delivery"),
        ({"requeue": False, "counted": False}, "a message that is not requeued is a dead letter"),
        ({"reason": "x" * 513}, "513 bytes; at most 512 are allowed"),
    ],
)
@every_surface
def test_the_same_is_refused_everywhere(still_server, topics, nack, said, sentence):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    with pytest.raises(Refused, match=sentence):
        nack(still_server, subscription, ack_ids, **said)
    assert still_server.pull(subscription) == [], "nothing changed"


@every_surface
def test_nowhere_to_go(still_server, nack):
    topic, subscription = new(still_server)
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    with pytest.raises(Refused, match="has no dead letter policy"):
        nack(still_server, subscription, ack_ids, requeue=False)
    assert still_server.pull(subscription) == [], "nothing changed"


@pytest.mark.parametrize("nack", [by_short_form, by_client, by_google_form, by_path_form])
def test_reasons_in_any_script(still_server, topics, nack):
    topic, subscription, reader = topics
    still_server.publish(topic, b"x")
    said = "kein Auftrag ✗"
    is_header = nack in (by_google_form, by_path_form)
    reason = said.encode() if is_header else said
    ack_ids = held(still_server, subscription)
    nack(still_server, subscription, ack_ids, requeue=False, reason=reason)
    [letter] = still_server.await_pull(reader)
    assert letter.message.attributes["fanlog-dead-letter-reason"].endswith(f": {said}")


TABLE = options_page.rows("Kinds of nacks")


@pytest.mark.parametrize(("said", "policy", "answer"), TABLE, ids=[row[0] for row in TABLE])
@pytest.mark.parametrize("is_stream", [False, True], ids=["unary", "stream"])
def test_the_reference_is_right(still_server, topics, said, policy, answer, is_stream):
    topic, subscription = topics[:2] if policy == "yes" else new(still_server)
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    sentence, metadata = options_page.sentence(answer), options_page.words(said)
    request = {"ack_ids": ack_ids, "ack_deadline_seconds": 0}
    if is_stream:
        request = {"modify_deadline_ack_ids": ack_ids, "modify_deadline_seconds": [0]}
        stream = still_server.open_stream(subscription, metadata=metadata, **request)
        stream.half_close()
        settled = stream.wait_closed
    else:
        request["subscription"] = subscription

        def settled():
            still_server.subscriber.modify_ack_deadline(request=request, metadata=metadata)

    if sentence is None:
        settled()
    else:
        with pytest.raises((InvalidArgument, FailedPrecondition), match=re.escape(sentence)):
            settled()


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ([("fanlog-reason", "a"), ("fanlog-reason", "b")], "fanlog-reason: is there twice"),
        ([("fanlog-delay-second", "3")], "did you mean 'fanlog-delay-seconds'"),
        ([("fanlog-delay-seconds", "1_0")], "'1_0' is out of range"),
        ([("fanlog-delay-seconds", "-1")], "'-1' is out of range"),
        ([("fanlog-counted", "no")], "'no' is not 'true' or 'false'"),
    ],
)
def test_words_that_make_no_sense(still_server, topics, metadata, sentence):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    with pytest.raises(InvalidArgument, match=sentence):
        still_server.subscriber.modify_ack_deadline(
            subscription=subscription,
            ack_ids=ack_ids,
            ack_deadline_seconds=0,
            metadata=metadata,
        )


def test_an_acknowledgement_is_no_nack(still_server, topics):
    topic, subscription, _ = topics
    still_server.publish(topic, b"x")
    ack_ids = held(still_server, subscription)
    with pytest.raises(InvalidArgument, match="speaks of a nack, and this is an acknowledgement"):
        still_server.subscriber.acknowledge(
            subscription=subscription, ack_ids=ack_ids, metadata=[("fanlog-reason", "x")]
        )


def test_a_stream_whose_policy_goes_is_told(still_server, topics):
    topic, subscription, _ = topics
    stream = still_server.open_stream(subscription, metadata=[("fanlog-requeue", "false")])
    still_server.publish(topic, b"x")
    [one] = stream.messages(1)
    still_server.subscriber.update_subscription(
        subscription={"name": subscription}, update_mask={"paths": ["dead_letter_policy"]}
    )
    stream.send(modify_deadline_ack_ids=[one.ack_id], modify_deadline_seconds=[0])
    assert "has no dead letter policy" in str(stream.error())


class TestPush:
    """What an endpoint answers: a status, and the words of a nack."""

    def letter(self, server, endpoint, **fields):
        letters, reader = server.topic_and_subscription()
        topic = server.topic()
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": POLICY_MAX}
        name = server.subscription(
            topic, push_config={"push_endpoint": endpoint}, dead_letter_policy=policy, **fields
        )
        server.publish(topic, b"x")
        return name, reader

    def test_for_good_and_why(self, server):
        headers = {"fanlog-requeue": "false", "fanlog-reason": "no such order"}
        with receiver.receiving(lambda _: (422, headers, b"a page")) as endpoint:
            _, reader = self.letter(server, endpoint.url())
            [letter] = server.await_pull(reader)
        assert len(endpoint.received) == 1
        assert letter.message.attributes["fanlog-dead-letter-reason"] == (
            "1 of 5 delivery attempts, nacked for good: HTTP 422: no such order"
        )

    def test_without_counting(self, server):
        answers = [409] * POLICY_MAX + [204]
        headers = {"fanlog-counted": "false", "fanlog-delay-seconds": "0.01"}
        with receiver.receiving(lambda _: (answers.pop(0), headers, b"")) as endpoint:
            name, _ = self.letter(server, endpoint.url())
            endpoint.wait(POLICY_MAX + 1)
            server.await_drained(name)
        attempts = {one.headers["X-Delivery-Attempt"] for one in endpoint.received}
        assert attempts == {"1"}

    def test_words_without_sense_are_in_the_reason(self, server):
        headers = {"fanlog-requeue": "never", "Retry-After": "0"}
        with receiver.receiving(lambda _: (400, headers, b"a page")) as endpoint:
            _, reader = self.letter(server, endpoint.url())
            [letter] = server.await_pull(reader)
        assert letter.message.attributes["fanlog-dead-letter-reason"] == (
            "5 of 5 delivery attempts, the last one nacked: HTTP 400: "
            "fanlog-requeue: 'never' is not 'true' or 'false'"
        )

    def test_a_call_that_fails(self, server):
        def answer(_, context):
            context.set_trailing_metadata(
                [("fanlog-requeue", "false"), ("fanlog-reason", "no such order")]
            )
            context.abort(grpc_receiver.grpc.StatusCode.NOT_FOUND, "a sentence")

        with grpc_receiver.receiving(answer) as endpoint:
            _, reader = self.letter(server, endpoint.url)
            [letter] = server.await_pull(reader)
        assert letter.message.attributes["fanlog-dead-letter-reason"] == (
            "1 of 5 delivery attempts, nacked for good: gRPC NOT_FOUND: no such order"
        )

    def test_an_uncounted_refusal(self, server):
        def answer(request, _):
            if len(endpoint.calls) > POLICY_MAX:
                return None
            return [
                Refusal(ack_id=one.ack_id, uncounted=True, delay_seconds=0.01)
                for one in request.messages
            ]

        with grpc_receiver.receiving(answer) as endpoint:
            name, _ = self.letter(server, endpoint.url)
            server.await_drained(name)
        assert [one.delivery_attempt for one in endpoint.received] == [1] * (POLICY_MAX + 1)
