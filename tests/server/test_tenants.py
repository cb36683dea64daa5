"""Turns of tenants, on a running server and on every surface."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core.exceptions import InvalidArgument

from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.client import types
from fanlog.limits import TENANT_TURN_MESSAGES as TURN
from server.conftest import PROJECT
from server.rest.http import Http
from server.test_publisher_sequences import take
from server.unique import unique

FAIR = {"fanlog-fairness": "tenant"}


@pytest.fixture
def server(still_server):
    return still_server


def tenants(received):
    return [one.message.attributes.get("fanlog-tenant", "") for one in received]


def by(server, topic, tenant, count=1, **attributes):
    server.publish(topic, *[b"x"] * count, **{"fanlog-tenant": tenant}, **attributes)


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("most", [1, 5, 1_000])
def test_a_noisy_tenant_does_not_hold_up_another(server, most, exactly_once):
    topic, subscription = server.topic_and_subscription(
        labels=FAIR, enable_exactly_once_delivery=exactly_once
    )
    by(server, topic, "noisy", 500)
    by(server, topic, "noisy", 500)
    server.publish(topic, *[b"x"] * 50)
    by(server, topic, "quiet")
    found = []
    while "quiet" not in found:
        received = server.pull(subscription, most)
        assert received
        found += tenants(received)
    assert found.index("quiet") <= 2 * TURN


def test_without_the_label_messages_come_as_ever(server):
    topic, subscription = server.topic_and_subscription()
    by(server, topic, "noisy", 50)
    by(server, topic, "quiet")
    assert tenants(server.pull(subscription)) == ["noisy"] * 50 + ["quiet"]


def test_what_fails_again_and_again_has_no_more_than_its_turn(server):
    topic, subscription = server.topic_and_subscription(labels=FAIR)
    by(server, topic, "noisy", 100)
    for _ in range(5):
        server.nack(subscription, server.pull(subscription))
    by(server, topic, "quiet")
    assert "quiet" in tenants(server.pull(subscription, TURN + 1))


def test_priorities_do_not_give_more_turns(server):
    topic, subscription = server.topic_and_subscription(labels=FAIR)
    by(server, topic, "quiet", 3)
    by(server, topic, "noisy", 200, **{"fanlog-priority": "9"})
    assert tenants(server.pull(subscription, TURN + 3)).count("quiet") == 3


def test_delayed_messages_have_their_turn_when_they_are_due(server):
    topic, subscription = server.topic_and_subscription(labels=FAIR)
    by(server, topic, "late", **{"fanlog-delay": "10"})
    by(server, topic, "noisy", 100)
    assert set(tenants(server.pull(subscription, 20))) == {"noisy"}
    server.advance(10)
    assert "late" in tenants(server.pull(subscription, TURN + 1))


def test_all_come_once_over_a_restart_a_seek_and_a_purge_of_the_log(start_server):
    server = start_server("embedded")
    topic, subscription = server.topic_and_subscription(labels=FAIR, retain_acked_messages=True)
    for number in range(40):
        by(server, topic, f"tenant-{number % 7}", 3)
    server.publish(topic, *[b"x"] * 20)
    first = server.pull(subscription, 60)
    server.ack(subscription, first)
    server.restart()
    rest = server.drain(subscription, 80)
    ids = [one.message.message_id for one in (*first, *rest)]
    assert len(set(ids)) == 140
    server.subscriber.seek(request={"subscription": subscription, "time": {"seconds": 1}})
    assert len({one.message.message_id for one in server.drain(subscription, 140)}) == 140


def test_forwards_and_dead_letters_keep_the_tenant(server):
    target, source = server.topic(), server.topic()
    reader = server.subscription(target, labels=FAIR)
    server.subscription(source, push_config={"push_endpoint": f"topic:{target}"}, labels=FAIR)
    by(server, source, "noisy", 60)
    by(server, source, "quiet")
    found = server.drain(reader, 61)
    assert sorted(set(tenants(found))) == ["noisy", "quiet"]
    [partition] = server.broker.hard.catalog.topic(target).partitions
    assert len(server.broker.hard.agendas.find(partition).tenants) == 2


# Beside gaps in the numbers of publishers.


def numbered(server, topic, tenant, *numbers):
    """Publish messages of a tenant, with these numbers of one publisher in a request each."""
    for number in numbers:
        said = {"fanlog-publisher": "p", "fanlog-sequence": str(number), "fanlog-tenant": tenant}
        server.publish(topic, b"%d" % number, **said)


def payloads(received):
    return [one.message.data for one in received]


@pytest.mark.parametrize("most", [1, 3, 1_000])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_gap_ends_the_turns_and_loses_nothing(server, most, exactly_once):
    topic, subscription = server.topic_and_subscription(
        labels=FAIR, enable_exactly_once_delivery=exactly_once
    )
    by(server, topic, "noisy", 60)
    numbered(server, topic, "quiet", 1)
    # Out of their order in the log, for now tenants have turns.
    before = server.pull(subscription, 2 * TURN)
    assert "quiet" in tenants(before)
    numbered(server, topic, "quiet", 3, 4)
    by(server, topic, "noisy", 5)
    found, held = [], {b"3", b"4"}
    while received := server.pull(subscription, most):
        found += received
        assert not held & set(payloads(received))
    numbered(server, topic, "quiet", 2)
    by(server, topic, "noisy", 1)
    after = []
    while received := server.pull(subscription, most):
        after += received
    assert payloads(after) == [b"2", b"3", b"4", b"x"]
    # What fails comes again, in whichever order; each message is there.
    server.nack(subscription, [*before, *found, *after])
    rest = []
    while received := server.pull(subscription, most):
        server.ack(subscription, received)
        rest += payloads(received)
    assert sorted(rest) == [b"1", b"2", b"3", b"4", *[b"x"] * 66]


def test_behind_a_gap_that_is_given_up(server):
    topic = server.topic(labels={"fanlog-gap-timeout": "20"})
    subscription = server.subscription(topic, labels=FAIR)
    numbered(server, topic, "quiet", 1)
    numbered(server, topic, "noisy", 3)
    by(server, topic, "noisy", 30)
    first = server.pull(subscription)
    assert b"3" not in payloads(first)
    assert len(first) == 31
    server.ack(subscription, first)
    server.advance(20)
    assert payloads(server.await_pull(subscription)) == [b"3"]


def test_turns_come_back_when_retention_has_let_go_of_the_places(start_server):
    server = start_server(clock=ManualClock())
    kept = {"message_retention_duration": timedelta(minutes=10)}
    topic = server.topic(**kept)
    subscription = server.subscription(topic, labels=FAIR, **kept)
    numbered(server, topic, "quiet", 1, 3, 2)
    assert take(server, subscription) == [b"1", b"2", b"3"]
    by(server, topic, "noisy", 3 * TURN)
    by(server, topic, "quiet")
    in_order = tenants(received := server.pull(subscription))
    assert in_order.index("quiet") == 3 * TURN, "in the order of the log"
    server.ack(subscription, received)
    server.advance(601)
    server.sweep()
    by(server, topic, "noisy", 3 * TURN)
    by(server, topic, "quiet")
    assert tenants(server.pull(subscription)).index("quiet") <= TURN


def test_over_a_restart_behind_a_gap(start_server):
    server = start_server("embedded")
    topic, subscription = server.topic_and_subscription(labels=FAIR)
    by(server, topic, "noisy", 20)
    numbered(server, topic, "quiet", 1)
    server.ack(subscription, server.pull(subscription, TURN + 1))
    numbered(server, topic, "quiet", 4, 3)
    server.restart()
    numbered(server, topic, "quiet", 2)
    rest = payloads(server.drain(subscription, 19 - TURN + 4))
    assert [one for one in rest if one != b"x"] in ([b"2", b"3", b"4"], [b"1", b"2", b"3", b"4"])
    assert server.pull(subscription) == []


def test_names_that_are_refused(server):
    topic = server.topic()
    for name in ("", "x" * 257):
        with pytest.raises(InvalidArgument, match="1 to 256 bytes"):
            by(server, topic, name)


def test_the_label_stays(server):
    _, subscription = server.topic_and_subscription(labels=FAIR)
    request = {
        "subscription": {"name": subscription, "labels": {"team": "a"}},
        "update_mask": {"paths": ["labels"]},
    }
    with pytest.raises(InvalidArgument, match="cannot be changed later"):
        server.subscriber.update_subscription(request=request)


def test_every_surface(server):
    http, name = Http(server), unique("tenants")
    topic, path = f"projects/{PROJECT}/topics/{name}", f"/v1/projects/{PROJECT}"
    assert http("PUT", f"{path}/topics/{name}", {}).status_code == 200
    subscription = server.subscription(topic, labels=FAIR)
    with Client(server.endpoint) as client:
        client.publish(topic, [types.PubsubMessage(data=b"x")], tenant="python")
    assert tenants(server.pull(subscription)) == ["python"]
    short = unique("tenants")
    assert http("POST", "/v1/topics", {"name": short}).status_code == 201
    fields = {"name": short, "topic": short, "fairness": "tenant"}
    made = http("POST", "/v1/subscriptions", fields)
    assert (made.status_code, made.json()["fairness"]) == (201, "tenant")
    text = http.refused(400, "PATCH", f"/v1/subscriptions/{short}", {"fairness": "tenant"})
    assert "cannot be changed later" in text
    messages = [{"data": "eA==", "tenant": "rest"}]
    http("POST", f"/v1/topics/{short}:publish", {"messages": messages})
    body = {"return_immediately": True}
    pulled = http("POST", f"/v1/subscriptions/{short}:pull", body).json()["received_messages"]
    assert pulled[0]["message"]["attributes"] == {"fanlog-tenant": "rest"}
    http.close()
