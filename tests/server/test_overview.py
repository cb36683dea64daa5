"""Tables of topics and subscriptions, problems, and the server itself, over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core.exceptions import ResourceExhausted

from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.client.overview import OverviewClient
from fanlog.v1 import overview_pb2 as pb
from server.conftest import RunningServer, StartServer
from server.unique import unique

MINUTE = 60.0


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def overview(server: RunningServer) -> Iterator[OverviewClient]:
    client = Client(server.endpoint)
    yield OverviewClient(client)
    client.close()


@pytest.fixture
def project() -> str:
    return f"projects/{unique('project')}"


def topics(server: RunningServer, project: str, *ids: str) -> list[str]:
    return [server.topic(name=f"{project}/topics/{one}") for one in ids]


def subscribed(server: RunningServer, topic: str, name: str, **fields: Any) -> str:
    project = topic.rpartition("/topics/")[0]
    return server.subscription(topic, name=f"{project}/subscriptions/{name}", **fields)


def short(rows: Any) -> list[str]:
    return [row.name.rpartition("/")[2] for row in rows]


class TestTopics:
    def test_a_row_has_the_numbers_of_a_topic(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        subscribed(server, topic, "billing")
        subscribed(server, topic, "audit")
        server.publish(topic, b"0", b"1", b"2")
        [row] = overview.topics(project)
        assert (row.name, row.subscriptions) == (topic, 2)
        assert (row.messages, row.published_total) == (3, 3)
        assert row.create_time.ToSeconds() == int(server.clock.now())
        assert not row.HasField("published")

    def test_by_a_fragment_of_the_name_in_any_case(self, server, overview, project):
        topics(server, project, "Orders", "reorders", "bills")
        assert short(overview.topics(project, contains="ORDER")) == ["Orders", "reorders"]
        assert short(overview.topics(project, contains="nothing")) == []
        # Of the id alone: the project is in every name.
        assert short(overview.topics(project, contains="topics/")) == []

    @pytest.mark.parametrize("order", ["name", "messages", "total", "rate"])
    def test_pages_have_every_row_once(self, server, overview, project, order):
        names = topics(server, project, *(f"t{n:02}" for n in range(23)))
        for number, name in enumerate(names[:5]):
            server.publish(name, *[b"x"] * (number + 1))
        call = server._channel.unary_unary("/fanlog.v1.Overview/SearchTopics")
        found: list[str] = []
        request = pb.SearchTopicsRequest(project=project, order_by=order, page_size=5)
        while True:
            raw = call(request.SerializeToString(), timeout=20)
            page = pb.SearchTopicsResponse.FromString(raw)
            assert page.total == 23
            found += short(page.topics)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert sorted(found) == [f"t{n:02}" for n in range(23)]
        if order in ("messages", "total"):
            assert found[:6] == ["t04", "t03", "t02", "t01", "t00", "t05"]

    def test_the_rate_is_that_since_somebody_asked_before(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        server.advance(limits.RATES_KEPT_S + 1)
        list(overview.topics(project))
        server.publish(topic, *[b"x"] * 20)
        server.advance(10)
        [row] = overview.topics(project)
        assert row.published == 2.0
        server.advance(5)
        [row] = overview.topics(project)
        assert row.published == pytest.approx(20 / 15, abs=0.001)

    def test_nobody_asked_for_long(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        server.advance(limits.RATES_KEPT_S + 1)
        list(overview.topics(project))
        server.publish(topic, b"x")
        server.advance(limits.RATES_KEPT_S + 1)
        [row] = overview.topics(project)
        assert not row.HasField("published")


class TestSubscriptions:
    def test_a_row_has_the_numbers_of_a_subscription(self, server, overview, project):
        topic, dead = topics(server, project, "orders", "dead")
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        name = subscribed(
            server, topic, "billing", filter="attributes:a", dead_letter_policy=policy
        )
        server.publish(topic, b"0", b"1", a="1")
        server.pull(name, 1)
        server.advance(30)
        [row] = overview.subscriptions(project)
        assert (row.name, row.topic, row.mode) == (name, topic, "pull")
        assert (row.backlog, row.outstanding, row.filter) == (2, 0, "attributes:a")
        assert row.oldest_unacked_age.ToSeconds() == 30
        assert row.dead_letter_topic == dead

    def test_those_of_a_topic_patterns_among_them(self, server, overview, project):
        orders, bills = topics(server, project, "orders.eu", "bills")
        subscribed(server, orders, "aaa")
        subscribed(server, bills, "bbb")
        subscribed(server, f"{project}/topics/orders.*", "ccc")
        assert short(overview.subscriptions(project, topic=orders)) == ["aaa", "ccc"]
        assert short(overview.subscriptions(project, topic=f"{project}/topics/orders.*")) == ["ccc"]

    def test_the_longest_backlog_and_the_oldest_come_first(self, server, overview, project):
        one, two, three = topics(server, project, "one", "two", "three")
        subscribed(server, one, "few-and-old")
        subscribed(server, two, "many")
        subscribed(server, three, "none")
        server.publish(one, b"x")
        server.advance(60)
        server.publish(two, *[b"x"] * 10)
        server.advance(limits.ROWS_LOOKED_AT_S)
        expected = ["many", "few-and-old", "none"]
        assert short(overview.subscriptions(project, order_by="backlog")) == expected
        expected = ["few-and-old", "many", "none"]
        assert short(overview.subscriptions(project, order_by="age")) == expected

    def test_the_rate_of_acknowledgements(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        server.publish(topic, *[b"x"] * 10)
        # Nobody has looked of late: rates count from the look that comes now.
        server.advance(limits.RATES_KEPT_S + 1)
        list(overview.subscriptions(project))
        server.ack(name, server.pull(name))
        server.advance(10)
        [row] = overview.subscriptions(project, order_by="rate")
        assert row.acknowledged == 1.0

    def test_the_other_rates_and_an_order_for_each_number(self, server, overview, project):
        topic, quiet = topics(server, project, "orders", "quiet")
        busy = subscribed(server, topic, "m-busy")
        subscribed(server, topic, "a-read-by-nobody")
        subscribed(server, quiet, "z-quiet")
        everything = subscribed(server, f"{project}/topics/#", "b-pattern")
        server.advance(limits.RATES_KEPT_S + 1)
        list(overview.subscriptions(project))
        server.publish(topic, *[b"x"] * 20)
        received = server.pull(busy)
        server.nack(busy, received[:5])
        server.ack(busy, received[5:])
        server.advance(10)
        server.pull(busy, 5)
        rows = {short([row])[0]: row for row in overview.subscriptions(project)}
        row = rows["m-busy"]
        assert (row.published, row.delivered, row.failed) == (2.0, 2.5, 0.5)
        assert rows["z-quiet"].HasField("published")
        assert rows["z-quiet"].published == 0.0
        # Its topics are many: see theirs.
        assert not rows["b-pattern"].HasField("published")
        for order in ("outstanding", "delivered", "failed"):
            assert short(overview.subscriptions(project, order_by=order))[0] == "m-busy", order
        by_published = ["a-read-by-nobody", "m-busy", "b-pattern", "z-quiet"]
        assert short(overview.subscriptions(project, order_by="published")) == by_published
        stream = server.open_stream(everything)
        stream.messages(20)
        assert short(overview.subscriptions(project, order_by="consumers"))[0] == "b-pattern"
        stream.close()

    def test_the_fullest_comes_first(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        subscribed(server, topic, "a-without-limits")
        labels = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "10"}
        subscribed(server, topic, "b-limited", labels=labels)
        server.publish(topic, b"0", b"1")
        assert short(overview.subscriptions(project, order_by="pressure"))[0] == "b-limited"

    def test_consumers_are_counted(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        stream = server.open_stream(name)
        server.await_waiters(name, 1)
        [row] = overview.subscriptions(project)
        assert row.consumers == 1
        stream.close()

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"order_by": "colour"}, "order_by: 'colour' is none of name, backlog, age, rate"),
            ({"contains": "x" * 256}, "contains: has 256 characters"),
            ({"topic": "orders"}, "topic"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, overview, project, fields, words):
        with pytest.raises(CallFailed) as caught:
            list(overview.subscriptions(project, **fields))
        assert caught.value.status == "INVALID_ARGUMENT"
        assert words in caught.value.message


class TestProblems:
    def test_a_subscription_that_nobody_reads(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        server.publish(topic, b"0", b"1")
        assert list(overview.problems(project).problems) == []
        server.advance(14 * MINUTE)
        [found] = overview.problems(project).problems
        assert (found.code, found.severity) == ("subscription_unattended", "WARNING")
        assert (found.kind, found.resource) == ("subscription", name)
        assert found.sentence == (
            "billing has no consumer, and no message was acknowledged for 14 min; 2 messages wait"
        )
        server.ack(name, server.pull(name))
        server.advance(limits.ROWS_LOOKED_AT_S)
        assert list(overview.problems(project).problems) == []

    def test_one_whose_consumer_does_not_acknowledge(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        stream = server.open_stream(name)
        server.publish(topic, b"0")
        stream.messages(1)
        server.advance(11 * MINUTE)
        [found] = overview.problems(project).problems
        assert found.sentence == "billing has not acknowledged for 11 min; 1 message waits"
        stream.close()

    def test_a_topic_without_its_schema(self, server, overview, project):
        from server.registry import Registry

        registry = Registry(server)
        made = registry.create()
        topic = server.topic(
            name=f"{project}/topics/orders", schema_settings={"schema": made.name, "encoding": 1}
        )
        registry.client.delete_schema(name=made.name)
        server.advance(limits.RATE_WINDOW_S)
        [found] = overview.problems(project).problems
        assert (found.code, found.resource) == ("schema_deleted", topic)

    def test_of_all_projects_or_of_one(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        server.publisher.delete_topic(topic=topic)
        server.advance(limits.ROWS_LOOKED_AT_S)
        assert [one.code for one in overview.problems(project).problems] == ["topic_deleted"]
        assert name in [one.resource for one in overview.problems().problems]
        assert list(overview.problems(f"projects/{unique('other')}").problems) == []

    def test_those_of_deleted_subscriptions_are_gone(self, server, overview, project):
        [topic] = topics(server, project, "orders")
        name = subscribed(server, topic, "billing")
        server.publisher.delete_topic(topic=topic)
        server.advance(limits.ROWS_LOOKED_AT_S)
        assert len(overview.problems(project).problems) == 1
        server.subscriber.delete_subscription(subscription=name)
        server.advance(limits.ROWS_LOOKED_AT_S)
        assert list(overview.problems(project).problems) == []


def test_what_the_server_is(server, overview, project):
    topics(server, project, "orders")
    found = overview.server()
    assert found.version
    assert (found.auth, found.project) == ("none", "projects/fanlog")
    assert found.message_bytes_max == limits.MESSAGE_BYTES_MAX
    assert project in found.projects
    assert found.start_time.ToSeconds() <= int(server.clock.now())


def test_publishing_that_is_refused_is_an_error(start_server: StartServer):
    server = start_server(disk_reserve_bytes=2**60)
    client = Client(server.endpoint)
    try:
        topic = server.topic()
        with pytest.raises(ResourceExhausted):
            server.publish(topic, b"x")
        found = OverviewClient(client).problems().problems
        assert [one.code for one in found] == ["publishing_refused"]
        assert found[0].severity == "ERROR"
    finally:
        client.close()
