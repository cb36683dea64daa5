"""Push over gRPC against a real server: what arrives, what its answers do."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from google.api_core.exceptions import InvalidArgument
from google.protobuf.any_pb2 import Any
from google.pubsub_v1.types import Subscription
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from fanlog import limits
from fanlog.broker.clock import ManualClock, SystemClock
from fanlog.model.endpoints import parse_web
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.packing import Request
from fanlog.push.senders import host_resolver
from fanlog.push.senders.grpc_transport import GrpcTransport
from fanlog.v1.receiver_pb2 import Refusal
from server.grpc_receiver import receiving
from server.receiver import push_elsewhere


def push_to(receiver, **fields):
    return {"push_config": {"push_endpoint": receiver.url} | fields}


def outcomes(server, name, kind):
    labels = f'{{outcome="{kind}",subscription="{name}"}}'
    start = f"fanlog_push_outcomes_total{labels} "
    found = [line for line in server.metrics().splitlines() if line.startswith(start)]
    return float(found[0].removeprefix(start)) if found else 0


def test_messages_arrive_and_are_acknowledged(server):
    with receiving() as receiver:
        topic, name = server.topic_and_subscription(**push_to(receiver))
        [message_id] = server.publish(topic, b"hello", key="k", colour="blue")
        [got] = receiver.wait(1)
        server.await_drained(name)
    assert receiver.calls[0].subscription == name
    assert got.ack_id
    assert got.delivery_attempt == 0
    assert got.message.data == b"hello"
    assert dict(got.message.attributes) == {"colour": "blue"}
    assert got.message.message_id == message_id
    assert got.message.ordering_key == "k"
    assert abs(got.message.publish_time.seconds - time.time()) < 60
    assert "fanlog-push" in receiver.metadata[0]["user-agent"]
    assert "authorization" not in receiver.metadata[0]
    server.await_metric("fanlog_push_attempts_total", name, 1)
    server.await_metric("fanlog_push_breaker", name, 0)
    assert outcomes(server, name, "2xx") == 1


def test_many_messages_come_in_few_calls_once_each(server):
    with receiving() as receiver:
        topic = server.topic()
        name = server.subscription(topic)
        server.publish(topic, *(b"%d" % n for n in range(1000)))
        server.publish(topic, *(b"%d" % n for n in range(1000, 1200)))
        server.subscriber.modify_push_config(
            subscription=name, push_config=push_to(receiver)["push_config"]
        )
        receiver.wait(1200)
        server.await_drained(name)
    assert [int(data) for data in sorted(receiver.data, key=int)] == list(range(1200))
    sizes = [len(call.messages) for call in receiver.calls]
    assert max(sizes) <= limits.PUSH_CALL_MESSAGES_MAX
    assert len(sizes) < 20
    for call in receiver.calls:
        assert [int(one.message.data) for one in call.messages] == sorted(
            int(one.message.data) for one in call.messages
        )


def test_calls_are_bounded_by_bytes(server):
    with receiving() as receiver:
        topic = server.topic()
        name = server.subscription(topic)
        for _ in range(4):
            server.publish(topic, *(bytes(700_000) for _ in range(5)))
        server.subscriber.modify_push_config(
            subscription=name, push_config=push_to(receiver)["push_config"]
        )
        receiver.wait(20)
        server.await_drained(name)
    # All of them are below what a gRPC server takes unless it is told otherwise.
    assert len(receiver.received) == 20
    assert 1 < max(len(call.messages) for call in receiver.calls) <= 4


def test_what_is_refused_is_nacked_and_the_rest_acknowledged(server):
    def answer(request, _):
        return [
            Refusal(ack_id=one.ack_id, reason="no \x1b\u202esuch\norder")
            for one in request.messages
            if one.message.data == b"2"
        ]

    with receiving(answer) as receiver:
        dead, letters = server.topic_and_subscription()
        topic, name = server.topic_and_subscription(
            **push_to(receiver),
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 3},
        )
        server.publish(topic, *(b"%d" % n for n in range(5)))
        [letter] = server.await_pull(letters)
        server.await_drained(name)
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert reason == "3 of 3 delivery attempts, the last one nacked: no such order"
    counts = defaultdict(list)
    for one in receiver.received:
        counts[one.message.data].append(one.delivery_attempt)
    assert counts.pop(b"2") == [1, 2, 3]
    assert set(map(tuple, counts.values())) == {(1,)}
    # The endpoint is well: it is messages that it refuses.
    assert server.metric("fanlog_push_breaker", name) == 0


def test_a_refusal_for_good_and_one_for_later(start_server):
    def answer(request, _):
        return [
            Refusal(ack_id=one.ack_id, reason="never", terminal=True)
            if one.message.data == b"never"
            else Refusal(ack_id=one.ack_id, delay_seconds=100)
            for one in request.messages
            if receiver.data.count(one.message.data) == 1
        ]

    with receiving(answer) as receiver:
        server = start_server(clock=ManualClock())
        dead, letters = server.topic_and_subscription()
        topic, name = server.topic_and_subscription(
            **push_to(receiver), dead_letter_policy={"dead_letter_topic": dead}
        )
        server.publish(topic, b"never")
        [letter] = server.await_pull(letters)
        reason = letter.message.attributes["fanlog-dead-letter-reason"]
        assert reason == "1 of 5 delivery attempts, nacked for good: never"
        server.publish(topic, b"later")
        server.await_metric("fanlog_nacks_total", name, 2)
        server.advance(99)
        push_elsewhere(server)
        assert receiver.data == [b"never", b"later"]
        server.advance(2)
        receiver.wait(3)
        server.await_drained(name)


def test_an_answer_about_something_else_acknowledges_nothing(server):
    answers = itertools.chain([[Refusal(ack_id="what?")]], itertools.repeat(None))
    with receiving(lambda *_: next(answers)) as receiver:
        dead = server.topic()
        topic, name = server.topic_and_subscription(
            **push_to(receiver), dead_letter_policy={"dead_letter_topic": dead}
        )
        server.publish(topic, b"x")
        got = receiver.wait(2)
        server.await_drained(name)
    assert [one.delivery_attempt for one in got] == [1, 2]
    assert outcomes(server, name, "error") == 1


@pytest.mark.parametrize(
    ("status", "kind", "is_failing"),
    [
        ("INVALID_ARGUMENT", "4xx", False),
        ("PERMISSION_DENIED", "4xx", False),
        ("ABORTED", "4xx", False),
        ("RESOURCE_EXHAUSTED", "4xx", True),
        ("UNIMPLEMENTED", "5xx", True),
        ("UNAVAILABLE", "5xx", True),
        ("INTERNAL", "5xx", True),
        ("DEADLINE_EXCEEDED", "timeout", True),
    ],
)
def test_statuses(still_server, status, kind, is_failing):
    server = still_server

    def answer(_, context):
        context.abort(grpc.StatusCode[status], "a \tword\u202e" + "!" * 300)

    with receiving(answer) as receiver:
        dead, letters = server.topic_and_subscription()
        topic, name = server.topic_and_subscription(
            **push_to(receiver),
            dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 6},
        )
        server.publish(topic, b"x")
        # The second comes at once.
        for count in range(2, 7):
            receiver.wait(count)
            server.await_metric("fanlog_nacks_total", name, count)
            if count == 5:
                server.await_metric("fanlog_push_breaker", name, 2 if is_failing else 0)
                shown = server.subscriber.get_subscription(subscription=name)
                failing = Subscription.State.RESOURCE_ERROR
                assert shown.state == (failing if is_failing else Subscription.State.ACTIVE)
            server.advance(20)
        [letter] = server.await_pull(letters)
    said = "a word" + "!" * 194
    why = "no answer within 10 s" if kind == "timeout" else f"gRPC {status}: {said}"
    reason = letter.message.attributes["fanlog-dead-letter-reason"]
    assert reason == f"6 of 6 delivery attempts, the last one nacked: {why}"
    assert outcomes(server, name, kind) == 6


def test_what_failed_comes_alone(server):
    """One that makes the receiver fall costs those beside it one attempt."""

    def answer(request, _):
        if any(one.message.data == b"poison" for one in request.messages):
            raise ValueError

    with receiving(answer) as receiver:
        dead, letters = server.topic_and_subscription()
        topic = server.topic()
        name = server.subscription(
            topic, dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 3}
        )
        server.publish(topic, *(b"%d" % n for n in range(50)), b"poison")
        server.subscriber.modify_push_config(
            subscription=name, push_config=push_to(receiver)["push_config"]
        )
        [letter] = server.await_pull(letters)
        server.await_drained(name)
    assert letter.message.data == b"poison"
    assert all(
        one.delivery_attempt <= 2 for one in receiver.received if one.message.data != b"poison"
    )
    assert server.pull(letters) == []


def _with_retry_info(context):
    detail = Any()
    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds = 100
    detail.Pack(info)
    status = status_pb2.Status(code=14, message="later", details=[detail])
    context.abort_with_status(rpc_status.to_status(status))


def _with_metadata(name, value):
    def abort(context):
        context.set_trailing_metadata(((name, value),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "later")

    return abort


@pytest.mark.parametrize(
    "abort",
    [
        _with_retry_info,
        _with_metadata("retry-after", "100"),
        _with_metadata("grpc-retry-pushback-ms", "100000"),
    ],
)
def test_an_endpoint_is_left_alone_as_long_as_it_asks(start_server, abort):
    first = itertools.chain([True], itertools.repeat(False))

    def answer(_, context):
        if next(first):
            abort(context)

    with receiving(answer) as receiver:
        server = start_server(clock=ManualClock())
        topic, name = server.topic_and_subscription(**push_to(receiver))
        server.publish(topic, b"x")
        server.await_metric("fanlog_push_breaker", name, 2)
        server.publish(topic, b"y")
        server.advance(99)
        push_elsewhere(server)
        assert receiver.data == [b"x"]
        server.advance(2)
        receiver.wait(3)
        server.await_drained(name)
        server.await_metric("fanlog_push_breaker", name, 0)


def test_gone_turns_push_off_until_it_is_set_anew(start_server):
    first = itertools.chain([True], itertools.repeat(False))

    def answer(_, context):
        if next(first):
            context.set_trailing_metadata((("fanlog-gone", "true"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no longer here")

    with receiving(answer) as receiver:
        server = start_server("embedded")
        topic, name = server.topic_and_subscription(**push_to(receiver))
        server.publish(topic, b"x")
        server.await_metric("fanlog_push_breaker", name, 3)
        server.restart()
        server.publish(topic, b"y")
        shown = server.subscriber.get_subscription(subscription=name)
        assert shown.state == Subscription.State.RESOURCE_ERROR
        assert receiver.data == [b"x"]
        server.subscriber.modify_push_config(
            subscription=name, push_config=push_to(receiver)["push_config"]
        )
        server.await_drained(name)
        assert sorted(receiver.data) == [b"x", b"x", b"y"]


def test_a_receiver_that_hangs_is_given_the_push_time_out(start_server):
    hangs = iter([True])
    with receiving() as receiver:
        receiver.answer = lambda *_: receiver.hang() if next(hangs, False) else None
        server = start_server()
        topic, name = server.topic_and_subscription(
            **push_to(receiver), labels={"fanlog-push-timeout": "1"}
        )
        begun = time.monotonic()
        server.publish(topic, b"x")
        receiver.wait(2)
        assert 0.9 < time.monotonic() - begun < 5
        server.await_drained(name)
        assert server.metric("fanlog_expiries_total", name) == 0
        assert outcomes(server, name, "timeout") == 1


def test_nobody_there_and_then_somebody(server):
    with receiving() as receiver:
        pass
    topic, name = server.topic_and_subscription(**push_to(receiver))
    server.publish(topic, b"x")
    server.await_metric("fanlog_push_breaker", name, 2)
    with receiving(port=receiver.port) as receiver:
        receiver.wait(1)
        server.await_drained(name)


def test_keys_stay_in_order(server):
    came, running, order = threading.Condition(), defaultdict(int), defaultdict(list)
    turns = itertools.count()

    def answer(request, context):
        keys = [one.message.ordering_key for one in request.messages]
        assert len(set(keys)) == len(keys)
        with came:
            for key in keys:
                running[key] += 1
            came.notify_all()
            turn = next(turns)
            # A second one of a key would come now.
            assert not came.wait_for(lambda: any(running[key] > 1 for key in keys), 0.002)
            for key in keys:
                running[key] -= 1
            refused = [one for one in request.messages if turn % 3 == 0 and turn < 60]
            for one in request.messages:
                if one not in refused:
                    order[one.message.ordering_key].append(int(one.message.data))
        return [Refusal(ack_id=one.ack_id, delay_seconds=0.01) for one in refused]

    with receiving(answer) as receiver:
        topic, name = server.topic_and_subscription(
            **push_to(receiver), enable_message_ordering=True
        )
        for n in range(30):
            for key in "abc":
                server.publish(topic, b"%d" % n, key=key)
        server.await_drained(name)
    assert dict(order) == {key: list(range(30)) for key in "abc"}


def test_oidc_tokens_are_metadata(server):
    with receiving() as receiver:
        token = {"service_account_email": "push@example.com", "audience": "mine"}
        topic, name = server.topic_and_subscription(**push_to(receiver, oidc_token=token))
        server.publish(topic, b"x")
        server.await_drained(name)
    scheme, _, jwt = receiver.metadata[0]["authorization"].partition(" ")
    claims = jwt.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (scheme, found["aud"], found["email"]) == ("Bearer", "mine", "push@example.com")


def test_patterns_say_where_messages_come_from(server):
    with receiving() as receiver:
        topic = server.topic()
        pattern = topic.replace("topic-", "topic*")[: topic.rindex("/") + 1] + "topic-*"
        name = server.subscription(pattern, **push_to(receiver))
        server.publish(topic, b"x")
        [got] = receiver.wait(1)
        server.await_drained(name)
        server.subscriber.delete_subscription(subscription=name)
    assert dict(got.message.attributes) == {"fanlog-topic": topic}


def test_another_kind_of_endpoint_takes_over(server):
    from server.receiver import receiving as receiving_web

    with receiving() as receiver, receiving_web() as web:
        topic, name = server.topic_and_subscription(**push_to(receiver))
        server.publish(topic, b"1")
        server.await_drained(name)
        server.subscriber.modify_push_config(
            subscription=name, push_config={"push_endpoint": web.url()}
        )
        server.publish(topic, b"2")
        server.await_drained(name)
        server.subscriber.modify_push_config(
            subscription=name, push_config=push_to(receiver)["push_config"]
        )
        server.publish(topic, b"3")
        server.await_drained(name)
    assert receiver.data == [b"1", b"3"]
    assert [got.data for got in web.received] == [b"2"]


@pytest.mark.parametrize(
    "fields",
    [
        {"no_wrapper": {}},
        {"no_wrapper": {"write_metadata": True}},
        {"pubsub_wrapper": {}},
        {"attributes": {"x-goog-version": "v1"}},
        {"attributes": {"fanlog-webhook-secret": "whsec_" + base64.b64encode(b"s" * 32).decode()}},
    ],
)
def test_what_means_nothing_there_is_refused(server, fields):
    config = {"push_endpoint": "grpc://127.0.0.1:9"} | fields
    with pytest.raises(InvalidArgument, match="messages, not bodies"):
        server.topic_and_subscription(push_config=config)
    _, name = server.topic_and_subscription()
    with pytest.raises(InvalidArgument, match="messages, not bodies"):
        server.subscriber.modify_push_config(subscription=name, push_config=config)


def test_a_body_by_label_is_refused(server):
    with pytest.raises(InvalidArgument, match="messages, not bodies"):
        server.topic_and_subscription(
            push_config={"push_endpoint": "grpc://127.0.0.1:9"},
            labels={"fanlog-push-body": "plain"},
        )


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("grpc://127.0.0.1", "port"),
        ("grpcs://example.com", "port"),
        ("grpc://127.0.0.1:9/path", "host and port"),
        ("grpc://127.0.0.1:9?x=1", "host and port"),
        ("grpc://127.0.0.1:9#x", "fragment"),
        ("grpc://me@127.0.0.1:9", "password"),
        ("grpc:127.0.0.1:9", "host"),
        ("grpc://10.0.0.1:9", "--push-allow"),
        ("grpcs://169.254.169.254:443", "--push-allow"),
        ("grpc://[::1]:9", "--push-allow"),
        ("grpc://2130706433:9", "IPv4"),
        ("dns://127.0.0.1:9", "not an address"),
    ],
)
def test_endpoints_that_are_refused(server, url, word):
    with pytest.raises(InvalidArgument, match=word):
        server.topic_and_subscription(push_config={"push_endpoint": url})


def _signed(folder):
    """An authority and a certificate of `receiver.test` that it signed."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in ("ca", "receiver")]
    begun = datetime(2020, 1, 1, tzinfo=UTC)

    def certificate(subject, key):
        builder = x509.CertificateBuilder(
            issuer_name=names[0],
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=begun,
            not_valid_after=begun + timedelta(days=36_500),
        )
        is_authority = x509.BasicConstraints(ca=key is keys[0], path_length=None)
        builder = builder.add_extension(is_authority, critical=True)
        if key is not keys[0]:
            alternative = x509.SubjectAlternativeName([x509.DNSName("receiver.test")])
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(keys[0], SHA256()).public_bytes(Encoding.PEM)

    (folder / "ca.pem").write_bytes(certificate(names[0], keys[0]))
    private = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own = certificate(names[1], keys[1])
    return grpc.ssl_server_credentials([(private, own)]), str(folder / "ca.pem")


@pytest.mark.parametrize(
    ("host", "is_trusted", "arrives"),
    [("receiver.test", True, True), ("other.test", True, False), ("receiver.test", False, False)],
)
def test_tls_is_with_whom_the_endpoint_names(
    start_server, monkeypatch, tmp_path, host, is_trusted, arrives
):
    async def lookup(_):
        return ["127.0.0.1"]

    credentials, authority = _signed(tmp_path)
    monkeypatch.setattr(host_resolver, "lookup", lookup)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", authority)
    with receiving(credentials=credentials) as receiver:
        server = start_server("memory")
        url = f"grpcs://{host}:{receiver.port}"
        topic, name = server.topic_and_subscription(push_config={"push_endpoint": url})
        server.publish(topic, b"x")
        if arrives:
            server.await_drained(name)
            assert receiver.data == [b"x"]
        else:
            server.await_metric("fanlog_push_breaker", name, 2)
            assert receiver.calls == []
            server.subscriber.delete_subscription(subscription=name)


async def _received(url, *allowed):
    clock = SystemClock()
    found = host_resolver.HostResolver(Guard(map(ip_network, allowed)), clock.now)
    transport = GrpcTransport(found, clock)
    try:
        outcome = await transport.send(Request(parse_web(url), (), b"", {}, 5.0))
    finally:
        await transport.close()
        await found.close()
    return outcome.reason or outcome.kind


async def test_addresses_are_judged_at_each_call_and_nobody_is_asked_again(monkeypatch):
    asked = []

    async def lookup(host):
        asked.append(host)
        return ["10.1.1.1", "127.0.0.1"]

    monkeypatch.setattr(host_resolver, "lookup", lookup)
    # A proxy that would be asked to connect to whatever it likes.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    with receiving() as receiver:
        for host in ("127.0.0.1", "both.test", "[::ffff:127.0.0.1]"):
            url = f"grpc://{host}:{receiver.port}"
            assert await _received(url) == "AddressRefused"
        assert receiver.calls == []
        asked.clear()
        assert await _received(f"grpc://both.test:{receiver.port}", "127.0.0.0/8") == "2xx"
        assert asked == ["both.test"]
        assert await _received(receiver.url, "127.0.0.0/8") == "2xx"


async def test_few_channels_are_kept(monkeypatch):
    monkeypatch.setattr(limits, "PUSH_CHANNELS_MAX", 2)
    clock = SystemClock()
    found = host_resolver.HostResolver(Guard([ip_network("127.0.0.0/8")]), clock.now)
    transport = GrpcTransport(found, clock)
    with receiving() as receiver:
        for n in range(1, 6):
            url = f"grpc://127.0.0.{n}:{receiver.port}"
            await transport.send(Request(parse_web(url), (), b"", {}, 5.0))
        assert len(transport._channels._channels) == 2
        await transport.close()
