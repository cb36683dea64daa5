"""At most once: acknowledged when sent, in every way of delivery; never twice."""

from __future__ import annotations

import json
import re

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import FailedPrecondition, GoogleAPICallError, InvalidArgument

from commands import invoke
from fanlog.broker.clock import ManualClock
from server import options_page
from server.grpc_receiver import receiving as receiving_calls
from server.receiver import push_elsewhere, receiving
from server.rest.http import Http

LABELS = {"fanlog-delivery": "at-most-once"}


def made(server, **fields):
    labels = LABELS | fields.pop("labels", {})
    return server.topic_and_subscription(labels=labels, **fields)


def data(received):
    return [one.message.data for one in received]


class TestPull:
    def test_once_and_never_again(self, still_server):
        topic, subscription = made(still_server)
        still_server.publish(topic, b"1", b"2", b"3")
        first = still_server.pull(subscription, 2)
        assert data(first) == [b"1", b"2"]
        assert first[0].delivery_attempt == 0
        still_server.advance(700)
        assert data(still_server.pull(subscription)) == [b"3"]
        still_server.advance(700)
        assert still_server.pull(subscription) == []

    def test_acks_and_nacks_change_nothing_and_a_nack_hears_so(self, still_server):
        topic, subscription = made(still_server)
        still_server.publish(topic, b"x")
        ids = [one.ack_id for one in still_server.pull(subscription)]
        still_server.subscriber.acknowledge(subscription=subscription, ack_ids=ids)
        http = Http(still_server)
        path = f"/v1/{subscription}:modifyAckDeadline"
        answer = http("POST", path, {"ackIds": ids, "ackDeadlineSeconds": 0})
        assert answer.status_code == 200
        assert "delivers at most once" in answer.headers["fanlog-hint"]
        answer = http("POST", path, {"ackIds": ids, "ackDeadlineSeconds": 20})
        assert (answer.status_code, answer.headers.get("fanlog-hint")) == (200, None)
        http.close()
        assert still_server.pull(subscription) == []

    def test_a_nack_that_says_something_is_refused(self, still_server):
        topic, subscription = made(still_server)
        still_server.publish(topic, b"x")
        ids = [one.ack_id for one in still_server.pull(subscription)]
        with pytest.raises(FailedPrecondition, match="delivers at most once"):
            still_server.subscriber.modify_ack_deadline(
                subscription=subscription,
                ack_ids=ids,
                ack_deadline_seconds=0,
                metadata=[("fanlog-delay-seconds", "3")],
            )

    def test_keys_stay_in_order(self, still_server):
        topic, subscription = made(still_server, enable_message_ordering=True)
        still_server.publish(topic, *(b"%d" % n for n in range(9)), key="k")
        found = []
        while some := still_server.pull(subscription, 2):
            found += data(some)
        assert found == [b"%d" % n for n in range(9)]

    def test_a_seek_delivers_again(self, still_server):
        topic, subscription = made(still_server, retain_acked_messages=True)
        still_server.publish(topic, b"x")
        assert len(still_server.pull(subscription)) == 1
        still_server.subscriber.seek(request={"subscription": subscription, "time": {"seconds": 1}})
        assert len(still_server.pull(subscription)) == 1
        assert still_server.pull(subscription) == []

    def test_a_restart_delivers_nothing_again(self, start_server):
        server = start_server(memory=False)
        topic, subscription = made(server)
        server.publish(topic, b"1", b"2")
        assert data(server.pull(subscription, 1)) == [b"1"]
        server.restart()
        assert data(server.pull(subscription)) == [b"2"]
        server.restart()
        assert server.pull(subscription) == []

    def test_a_commit_that_fails_sends_nothing(self, start_server):
        server = start_server()
        topic, subscription = made(server)
        server.publish(topic, b"x")
        server.store.failures.append(OSError("no disk"))
        with pytest.raises(GoogleAPICallError):
            server.subscriber.pull(subscription=subscription, max_messages=1, retry=None)
        assert data(server.await_pull(subscription)) == [b"x"]


class TestStream:
    def test_once_and_without_outstanding_messages(self, still_server):
        topic, subscription = made(still_server)
        stream = still_server.open_stream(subscription, max_outstanding_messages=2)
        still_server.publish(topic, *(b"%d" % n for n in range(20)))
        found = stream.messages(20)
        assert sorted(data(found)) == sorted(b"%d" % n for n in range(20))
        assert still_server.metric("fanlog_outstanding_messages", subscription) == 0
        stream.send(
            modify_deadline_ack_ids=[one.ack_id for one in found],
            modify_deadline_seconds=[0] * 20,
        )
        still_server.advance(700)
        still_server.publish(topic, b"last")
        assert data(stream.messages(1)) == [b"last"]

    def test_a_switch_leaves_leases_as_they_were(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"1", b"2")
        one, two = still_server.pull(subscription)
        request = {
            "subscription": {"name": subscription, "labels": LABELS},
            "update_mask": {"paths": ["labels"]},
        }
        still_server.subscriber.update_subscription(request=request)
        still_server.subscriber.acknowledge(subscription=subscription, ack_ids=[one.ack_id])
        still_server.advance(700)
        assert data(still_server.pull(subscription)) == [two.message.data]
        still_server.advance(700)
        assert still_server.pull(subscription) == []


class TestPush:
    @pytest.mark.parametrize("answer", [200, 400, 429, 500, None])
    def test_one_request_whatever_the_answer(self, start_server, answer):
        server = start_server(clock=ManualClock())
        with receiving(lambda _: answer) as endpoint:
            topic, name = made(server, push_config={"push_endpoint": endpoint.url()})
            server.publish(topic, b"x")
            endpoint.wait(1)
            server.await_drained(name)
            server.advance(700)
            server.publish(topic, b"y")
            endpoint.wait(2)
        assert [one.data for one in endpoint.received] == [b"x", b"y"]

    def test_410_turns_push_off(self, server):
        with receiving(lambda _: 410) as endpoint:
            topic, name = made(server, push_config={"push_endpoint": endpoint.url()})
            server.publish(topic, b"x")
            server.await_metric("fanlog_push_breaker", name, 3)
            found = server.subscriber.get_subscription(subscription=name)
            assert found.state == gapic.Subscription.State.RESOURCE_ERROR
            server.publish(topic, b"y")
            push_elsewhere(server)
        assert [one.data for one in endpoint.received] == [b"x"]

    def test_calls_that_fail_are_not_repeated(self, server):
        def answer(_, context):
            context.abort(grpc_unavailable, "not now")

        import grpc

        grpc_unavailable = grpc.StatusCode.UNAVAILABLE
        with receiving_calls(answer) as endpoint:
            topic, name = made(server, push_config={"push_endpoint": endpoint.url})
            server.publish(topic, b"1", b"2")
            endpoint.wait(2)
            server.await_metric("fanlog_push_attempts_total", name, len(endpoint.calls))
        assert sorted(endpoint.data) == [b"1", b"2"]


ROWS = options_page.rows("Delivery")


@pytest.mark.parametrize(("settings", "answer"), ROWS, ids=[row[0] for row in ROWS])
def test_the_reference_is_right(still_server, settings, answer):
    wanted = json.loads(settings.strip("`").replace("TOPIC", still_server.topic()))
    topic, name = still_server.topic_and_subscription()
    sentence = options_page.sentence(answer)

    def create():
        asked = wanted | {"name": f"{name}-new", "topic": topic}
        request = gapic.Subscription.from_json(json.dumps(asked))
        still_server.subscriber.create_subscription(request=request)

    def update():
        mask = {"paths": [field for field in wanted if field != "enable_message_ordering"]}
        changed = gapic.Subscription.from_json(json.dumps(wanted | {"name": name}))
        request = {"subscription": changed, "update_mask": mask}
        still_server.subscriber.update_subscription(request=request)

    is_fixed = any(
        label in settings
        for label in ("fanlog-ordering", "fanlog-dead-letter", "fanlog-assignment")
    )
    for attempt in (create,) if is_fixed else (create, update):
        if sentence is None:
            attempt()
        else:
            with pytest.raises(InvalidArgument, match=re.escape(sentence)):
                attempt()


class TestSurfaces:
    def test_the_short_form_has_a_field(self, server):
        http = Http(server)
        topic = server.topic()
        name = f"{topic.rpartition('/')[2]}-sub"
        body = {"name": name, "topic": topic, "delivery": "at-most-once"}
        assert http("POST", "/v1/subscriptions", body).json()["delivery"] == "at-most-once"
        path = f"/v1/subscriptions/{name}"
        body = {"delivery": "at-least-once"}
        assert http("PATCH", path, body).json()["delivery"] == "at-least-once"
        assert "delivery" not in http("PATCH", path, {"delivery": None}).json()
        body = {"delivery": "at-most-once", "enable_exactly_once_delivery": True}
        assert "means nothing with the label" in http.refused(400, "PATCH", path, body)
        http.close()

    def test_the_command_line_has_an_option(self, server):
        environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
        topic = server.topic()
        name = f"{topic.replace('/topics/', '/subscriptions/')}-sub"
        words = ["sub", "create", name, "--topic", topic, "--delivery", "at-most-once"]
        assert invoke(words, env=environ).exit_code == 0
        found = server.subscriber.get_subscription(subscription=name)
        assert dict(found.labels) == LABELS
        server.publish(topic, b"x")
        [one] = server.pull(name)
        nacked = invoke(["sub", "nack", name, one.ack_id], env=environ)
        assert "delivers at most once" in " ".join(nacked.stderr.split())
        words = ["sub", "update", name, "--delivery", "at-least-once"]
        assert invoke(words, env=environ).exit_code == 0
        found = server.subscriber.get_subscription(subscription=name)
        assert dict(found.labels) == {"fanlog-delivery": "at-least-once"}

    def test_dead_letters_by_default_leave_it_alone(self, start_server):
        server = start_server(dead_letter_default="auto")
        _, name = made(server)
        found = server.subscriber.get_subscription(subscription=name)
        assert not found.dead_letter_policy.dead_letter_topic
