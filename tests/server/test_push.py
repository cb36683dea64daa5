"""Push against a real HTTP server: what arrives, what its answers do."""

from __future__ import annotations

import base64
import itertools
import json
import urllib.request
from collections import defaultdict
from threading import Condition, Event, Semaphore

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument
from google.pubsub_v1.types import Subscription
from standardwebhooks.webhooks import Webhook

from fanlog import limits
from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S
from server.receiver import push_elsewhere, receiving

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"t" * 32).decode()


def push_to(url, **fields):
    return {"push_config": {"push_endpoint": url} | fields}


def test_messages_arrive_wrapped_and_are_acknowledged(server):
    with receiving() as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url("/a?x=1")))
        [message_id] = server.publish(topic, b"hello", colour="blue")
        [got] = receiver.wait(1)
        server.await_drained(name)
    assert got.path == "/a?x=1"
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["X-Event-Id"] == message_id
    assert got.headers["X-Event-Type"] == topic.rpartition("/")[2]
    assert got.headers["X-Delivery-Attempt"] == "1"
    assert got.data == b"hello"
    assert got.json["subscription"] == name
    assert got.json["message"]["attributes"] == {"colour": "blue"}
    assert got.json["message"]["messageId"] == got.json["message"]["message_id"] == message_id
    assert "deliveryAttempt" not in got.json
    assert len(receiver.received) == 1
    server.await_metric("fanlog_push_attempts_total", name, 1)
    server.await_metric("fanlog_push_breaker", name, 0)


def test_many_messages_arrive_once_each(server):
    with receiving() as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, *(b"%d" % n for n in range(500)))
        receiver.wait(500)
        server.await_drained(name)
    assert sorted(int(got.data) for got in receiver.received) == list(range(500))


def test_large_messages_arrive_whole(server):
    data = bytes(range(256)) * 30_000
    with receiving() as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, data)
        [got] = receiver.wait(1)
        server.await_drained(name)
    assert got.data == data
    assert int(got.headers["Content-Length"]) == len(got.body)


def test_the_other_bodies(server):
    with receiving() as receiver:
        topic = server.topic()
        for path, fields in {
            "/bare": push_to(receiver.url("/bare"), no_wrapper={}),
            "/meta": push_to(receiver.url("/meta"), no_wrapper={"write_metadata": True}),
            "/plain": push_to(receiver.url("/plain")) | {"labels": {"fanlog-push-body": "plain"}},
            "/ce": push_to(receiver.url("/ce")) | {"labels": {"fanlog-push-body": "cloudevents"}},
            "/event": push_to(receiver.url("/event")) | {"labels": {"fanlog-push-body": "event"}},
        }.items():
            assert path
            server.subscription(topic, **fields)
        [message_id] = server.publish(topic, b"\x00\xff", colour="blue")
        got = {one.path: one for one in receiver.wait(5)}
    assert got["/bare"].body == got["/meta"].body == got["/ce"].body == b"\x00\xff"
    assert "x-goog-pubsub-message-id" not in got["/bare"].headers
    assert got["/meta"].headers["x-goog-pubsub-message-id"] == message_id
    assert got["/meta"].headers["colour"] == "blue"
    assert got["/plain"].json["message"]["id"] == message_id
    assert got["/plain"].json["ack_id"]
    assert got["/ce"].headers["ce-id"] == message_id
    assert got["/ce"].headers["ce-specversion"] == "1.0"
    event = got["/event"].json
    assert event.pop("published_at").endswith("Z")
    assert event == {
        "event_id": message_id,
        "event_type": topic.rpartition("/")[2],
        "source_service": "test",
        "schema_version": None,
        "payload": "AP8=",
    }
    assert got["/event"].headers["X-Event-Id"] == message_id
    assert got["/event"].headers["X-Event-Type"] == topic.rpartition("/")[2]
    assert got["/event"].headers["X-Event-Encoding"] == "base64"


def test_failures_are_redelivered_and_counted(server):
    statuses = iter([500, 404, 302, 429, 204])
    with receiving(lambda _: next(statuses)) as receiver:
        dead = server.topic()
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()), dead_letter_policy={"dead_letter_topic": dead}
        )
        server.publish(topic, b"x")
        got = receiver.wait(5)
        server.await_drained(name)
    assert [one.json["deliveryAttempt"] for one in got] == [1, 2, 3, 4, 5]
    assert [one.headers["X-Delivery-Attempt"] for one in got] == ["1", "2", "3", "4", "5"]
    page = server.metrics()
    for kind, count in (("2xx", 1), ("3xx", 1), ("4xx", 2), ("5xx", 1)):
        labels = f'{{outcome="{kind}",subscription="{name}"}}'
        assert f"fanlog_push_outcomes_total{labels} {count}.0" in page


def test_the_dead_letter_says_what_the_endpoint_answered(server):
    with receiving(lambda _: (503, {}, b"secret page")) as receiver:
        dead, name = server.topic_and_subscription()
        topic = server.topic()
        server.subscription(
            topic,
            **push_to(receiver.url()),
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 2},
        )
        server.publish(topic, b"x")
        [letter] = server.await_pull(name)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert reason == "2 of 2 delivery attempts, the last one nacked: HTTP 503: secret page"
    assert len(receiver.received) == 2


def test_redirects_are_not_followed(server):
    with (
        receiving() as target,
        receiving(lambda _: (307, {"Location": target.url()}, b"")) as receiver,
    ):
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        receiver.wait(2)
        server.subscriber.delete_subscription(subscription=name)
    assert target.received == []


def test_retry_after_is_obeyed(start_server):
    answers = iter([(503, {"Retry-After": "100"}, b""), 204])
    with receiving(lambda _: next(answers)) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        receiver.wait(1)
        server.await_metric("fanlog_nacks_total", name, 1)
        server.advance(99)
        assert server.outstanding(name) == 0
        assert len(receiver.received) == 1
        server.advance(2)
        receiver.wait(2)
        server.await_drained(name)


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_is_left_alone_as_long_as_it_asks(start_server, status):
    answers = itertools.chain([(status, {"Retry-After": "100"}, b"")], itertools.repeat(204))
    with receiving(lambda _: next(answers)) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        server.await_metric("fanlog_push_breaker", name, 2)
        server.publish(topic, *(b"%d" % n for n in range(10)))
        server.advance(99)
        push_elsewhere(server)
        assert len(receiver.received) == 1
        shown = server.subscriber.get_subscription(subscription=name)
        assert shown.state == Subscription.State.RESOURCE_ERROR
        server.advance(2)
        receiver.wait(12)
        server.await_drained(name)
        server.await_metric("fanlog_push_breaker", name, 0)


def test_a_refused_message_that_asks_for_time_holds_up_no_other(start_server):
    def answer(got):
        return (400, {"Retry-After": "100"}, b"") if got.data == b"poison" else 204

    with receiving(answer) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"poison")
        server.await_metric("fanlog_nacks_total", name, 1)
        server.publish(topic, b"fine")
        receiver.wait(2)
        server.subscriber.delete_subscription(subscription=name)


def test_410_turns_push_off_until_it_is_set_anew(start_server, caplog):
    answers = itertools.chain([410], itertools.repeat(204))
    with receiving(lambda _: next(answers)) as receiver:
        server = start_server("embedded")
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        server.await_metric("fanlog_push_breaker", name, 3)
        assert "action=push_off" in caplog.text
        for _ in range(2):
            shown = server.subscriber.get_subscription(subscription=name)
            assert shown.state == Subscription.State.RESOURCE_ERROR
            assert shown.push_config.push_endpoint == receiver.url()
            server.publish(topic, b"y")
            assert len(receiver.received) == 1
            server.restart()
        server.subscriber.modify_push_config(
            subscription=name, push_config={"push_endpoint": receiver.url("/again")}
        )
        receiver.wait(3, "/again")
        server.await_drained(name)
        shown = server.subscriber.get_subscription(subscription=name)
        assert shown.state == Subscription.State.ACTIVE


def test_huge_answers_and_broken_ones(server):
    def endless(_):
        return 200, {"Content-Length": str(1 << 40)}, b"x" * 1_000_000

    answers = iter([None, None, endless(None)])
    with receiving(lambda _: next(answers, 204)) as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        server.await_drained(name)
        # A connection that is closed without a word is tried once more at once.
        assert len(receiver.received) == 3


def test_nobody_there(server):
    with receiving() as receiver:
        pass
    topic, name = server.topic_and_subscription(**push_to(receiver.url()))
    server.publish(topic, b"x")
    server.await_metric("fanlog_push_breaker", name, 2)
    shown = server.subscriber.get_subscription(subscription=name)
    assert shown.state == Subscription.State.RESOURCE_ERROR
    server.subscriber.delete_subscription(subscription=name)


def test_the_breaker_opens_probes_and_closes(start_server):
    is_well = False
    with receiving(lambda _: 204 if is_well else 500) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, *(b"%d" % n for n in range(20)))
        server.await_metric("fanlog_push_breaker", name, 2)
        server.outstanding(name)
        seen = len(receiver.received)
        assert seen < 20
        server.advance(0.5)
        assert len(receiver.received) == seen
        server.advance(0.6)
        receiver.wait(seen + 1)
        server.await_metric("fanlog_push_breaker", name, 2)
        assert len(receiver.received) == seen + 1
        assert server.metric("fanlog_push_window", name) == 1
        is_well = True
        server.advance(60)
        server.await_drained(name)
        server.await_metric("fanlog_push_breaker", name, 0)
        assert server.metric("fanlog_push_window", name) > 1


def test_one_message_that_is_refused_holds_up_nobody(server):
    def answer(got):
        return 400 if got.data == b"poison" else 204

    with receiving(answer) as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"poison")
        receiver.wait(3)
        server.publish(topic, *(b"fine" for _ in range(100)))
        receiver.wait_until(lambda came: sum(got.data == b"fine" for got in came) == 100)
        assert server.metric("fanlog_push_breaker", name) == 0
        server.subscriber.delete_subscription(subscription=name)


def test_keys_stay_in_order(server):
    came, running, order = Condition(), defaultdict(int), defaultdict(list)
    fails = itertools.cycle([False, False, True])

    def answer(got):
        key = got.json["message"]["orderingKey"]
        with came:
            running[key] += 1
            came.notify_all()
            # A second one of the key would come now.
            assert not came.wait_for(lambda: running[key] > 1, 0.002)
            running[key] -= 1
            if next(fails):
                return 409
            order[key].append(int(got.data))
        return 204

    with receiving(answer) as receiver:
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url()),
            enable_message_ordering=True,
            retry_policy={"minimum_backoff": {"nanos": 1000}, "maximum_backoff": {"nanos": 1000}},
        )
        for n in range(30):
            for key in "abc":
                server.publish(topic, b"%d" % n, key=key)
        server.await_drained(name)
    assert order == {key: list(range(30)) for key in "abc"}


def test_signatures_and_secrets_that_nobody_sees(server):
    attributes = {"fanlog-webhook-secret": f"{SECRET} {OTHER}", "x-goog-version": "v1"}
    with receiving() as receiver:
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url(), attributes=attributes)
        )
        shown = server.subscriber.get_subscription(subscription=name)
        assert dict(shown.push_config.attributes) == {"x-goog-version": "v1"}
        [message_id] = server.publish(topic, b"x")
        [got] = receiver.wait(1)
        for secret in (SECRET, OTHER):
            Webhook(secret).verify(got.body.decode(), got.headers)
        assert got.headers["webhook-id"] == message_id
        # Sent back as it was read, it keeps its secrets; an empty text takes them away.
        for attribute, is_signed in (({}, True), ({"fanlog-webhook-secret": ""}, False)):
            changed = push_to(receiver.url(f"/{is_signed}"), attributes=attribute)
            server.subscriber.update_subscription(
                request={
                    "subscription": {"name": name} | changed,
                    "update_mask": {"paths": ["push_config"]},
                }
            )
            server.publish(topic, b"y")
            [got] = receiver.wait(1, f"/{is_signed}")
            assert ("webhook-signature" in got.headers) == is_signed
        server.await_drained(name)


def test_oidc_tokens_and_the_published_key(start_server):
    with receiving() as receiver:
        server = start_server("embedded")
        topic, name = server.topic_and_subscription(
            **push_to(receiver.url(), oidc_token={"service_account_email": "me@here.org"})
        )
        server.publish(topic, b"x")
        server.await_drained(name)
        server.restart()
        server.publish(topic, b"y")
        tokens = [one.headers["Authorization"] for one in receiver.wait(2)]
        issuer, kids = set(), set()
        for token in tokens:
            kind, _, rest = token.partition(" ")
            assert kind == "Bearer"
            head, claims, _ = (base64.urlsafe_b64decode(p + "==") for p in rest.split("."))
            kids.add(json.loads(head)["kid"])
            said = json.loads(claims)
            assert (said["aud"], said["email"]) == (receiver.url(), "me@here.org")
            issuer.add(said["iss"])
        url = server.http("/.well-known/openid-configuration")
        with urllib.request.urlopen(url) as answer:
            discovered = json.load(answer)
        assert discovered["issuer"] in issuer
        with urllib.request.urlopen(discovered["jwks_uri"]) as answer:
            keys = json.load(answer)["keys"]
        assert {key["kid"] for key in keys} == kids


def test_push_and_pull_exclude_each_other(server):
    with receiving() as receiver:
        topic, name = server.topic_and_subscription()
        stream = server.open_stream(name)
        server.await_waiters(name, 1)
        server.subscriber.modify_push_config(
            subscription=name, push_config={"push_endpoint": receiver.url()}
        )
        assert isinstance(stream.error(), FailedPrecondition)
        with pytest.raises(FailedPrecondition, match="pushes its messages"):
            server.pull(name)
        assert isinstance(server.open_stream(name).error(), FailedPrecondition)
        server.publish(topic, b"pushed")
        receiver.wait(1)
        server.await_drained(name)
        server.subscriber.modify_push_config(subscription=name, push_config={})
        server.publish(topic, b"pulled")
        [got] = server.await_pull(name)
        assert got.message.data == b"pulled"
        assert len(receiver.received) == 1


def test_exactly_once_is_for_pull(server):
    with pytest.raises(InvalidArgument, match="enable_exactly_once_delivery"):
        server.topic_and_subscription(
            **push_to("http://127.0.0.1:1/"), enable_exactly_once_delivery=True
        )


def test_a_restart_resumes(start_server):
    is_well = False
    with receiving(lambda _: 204 if is_well else 500) as receiver:
        server = start_server("embedded")
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, *(b"%d" % n for n in range(50)))
        receiver.wait(1)
        is_well = True
        server.restart()
        server.await_drained(name)
    assert {int(got.data) for got in receiver.received} == set(range(50))


def test_a_stop_waits_for_answers(start_server, monkeypatch):
    is_stopping = Event()

    def slow(_):
        is_stopping.wait(PATIENCE_S)
        return 204

    with receiving(slow) as receiver:
        server = start_server("embedded")
        drain = server.broker.drain
        monkeypatch.setattr(server.broker, "drain", lambda: (drain(), is_stopping.set()))
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        receiver.wait(1)
        server.restart()
        server.await_drained(name)
        assert len(receiver.received) == 1


def test_a_commit_that_fails_stops_nothing(start_server):
    from fanlog.errors import CommitFailed

    with receiving() as receiver:
        # No sweep on a clock that stands still: nothing else commits.
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        server.publish(topic, b"x")
        server.await_drained(name)
        server.store.failures.append(CommitFailed("no"))
        with pytest.raises(Exception, match="no"):
            server.publish(topic, b"lost")
        server.publish(topic, b"y")
        server.await_drained(name)
        assert {got.data for got in receiver.received} == {b"x", b"y"}


def test_one_dead_endpoint_and_two_hundred_live_ones(start_server):
    with receiving() as receiver:
        receiver.answer = lambda got: (receiver.hang() if got.path == "/dead" else None) or 204
        server = start_server()
        topic = server.topic()
        # Given up by nobody while this lasts.
        dead = server.subscription(
            topic, **push_to(receiver.url("/dead")), labels={"fanlog-push-timeout": "600"}
        )
        for n in range(200):
            server.subscription(topic, **push_to(receiver.url(f"/live/{n}")))
        for _ in range(5):
            server.publish(topic, b"x")
        receiver.wait_until(lambda came: sum(got.path != "/dead" for got in came) == 1_000)
        assert server.metric("fanlog_acks_total", dead) == 0


def test_a_message_that_waits_for_a_connection_keeps_its_lease(start_server, monkeypatch):
    monkeypatch.setattr(limits, "PUSH_CONNECTIONS_PER_HOST_MAX", 1)
    with receiving() as receiver:
        server = start_server(clock=ManualClock())
        extended = Semaphore(0)
        settle_some = server.broker.settle_some

        async def noted(*args):
            refused = await settle_some(*args)
            extended.release()
            return refused

        connections = server.senders.connections
        host = ("http", "127.0.0.1", receiver.port)
        server.run(connections.enter(host))
        topic, name = server.topic_and_subscription(**push_to(receiver.url()))
        monkeypatch.setattr(server.broker, "settle_some", noted)
        server.publish(topic, b"x")
        server.await_metric("fanlog_deliveries_total", name, 1)
        # Twice as long as the lease.
        for _ in range(4):
            assert server.outstanding(name) == 1
            server.advance((10 + limits.PUSH_LEASE_MARGIN_S) / 2)
            assert extended.acquire(timeout=PATIENCE_S)
        assert receiver.received == []
        server.run(_left(connections, host))
        server.await_drained(name)
        assert len(receiver.received) == 1
        assert server.metric("fanlog_expiries_total", name) == 0


async def _left(connections, host):
    connections.leave(host)
