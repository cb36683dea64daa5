"""fanlog.v1.Alerts: a rule that begins or ends to hold publishes one message, whatever happens."""

from __future__ import annotations

import json

import pytest
from google.api_core.exceptions import ResourceExhausted

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.broker.writer import ROOM_AGE_S
from fanlog.client import CallFailed, Client
from fanlog.client.alerts import AlertClient
from fanlog.errors import CommitFailed
from fanlog.model.quotas import Quotas
from fanlog.v1.alerts_pb2 import Alert
from server.asking_surfaces import rest

PARENT = "projects/test"
NAME = f"{PARENT}/alerts/behind"
TOPIC = f"{PARENT}/topics/fanlog.alerts"
START_S = 1_780_002_000.0


@pytest.fixture
def server(start_server):
    return start_server(clock=ManualClock(START_S))


@pytest.fixture
def asking(server):
    with Client(server.endpoint) as client:
        yield AlertClient(client)


@pytest.fixture
def topic(server):
    return server.topic()


@pytest.fixture
def subscription(server, topic):
    return server.subscription(topic)


def make(asking, subscription="", condition="BACKLOG_MESSAGES", limit=2, seconds=0, **fields):
    alert = Alert(name=NAME, condition=condition, subscription=subscription, **fields)
    if limit is not None:
        alert.limit = limit
    alert.minimum_time.FromSeconds(seconds)
    return asking.create(alert)


def watching(server):
    """A subscription on the alerts, as any consumer has one."""
    return server.subscription(TOPIC)


def watching_first(server):
    """The same, before there is a rule: one whose condition is there may begin at once."""
    server.publisher.create_topic(request={"name": TOPIC})
    return watching(server)


def look(server, seconds=0.0):
    if seconds:
        server.clock.advance(seconds)
    server.run(server.broker.alerting.look())


def told(server, watcher):
    """What was told since the last time."""
    received = server.pull(watcher, return_immediately=True)
    if received:
        server.ack(watcher, received)
    return [one.message for one in received]


def states(server, watcher):
    return [one.attributes["fanlog-alert-state"] for one in told(server, watcher)]


class TestMessages:
    def test_one_when_it_begins_and_one_when_it_ends(self, server, asking, topic, subscription):
        made = make(asking, subscription)
        assert (made.holding, made.messages) == (False, 0)
        watcher = watching(server)
        server.publish(topic, b"a", b"b")
        look(server)
        assert told(server, watcher) == []
        server.publish(topic, b"c")
        for _ in range(3):
            look(server, 1)
        [began] = told(server, watcher)
        assert json.loads(began.data) == {
            "text": f"behind: 3 messages wait for {subscription.rpartition('/')[2]} (limit 2)"
        }
        assert dict(began.attributes) == {
            "fanlog-alert": NAME,
            "fanlog-alert-state": "began",
            "fanlog-alert-condition": "BACKLOG_MESSAGES",
            "fanlog-alert-resource": subscription,
            "fanlog-alert-number": "1",
            "fanlog-alert-time": "2026-05-28T21:00:01Z",
        }
        found = asking.get(NAME)
        assert (found.holding, found.messages) == (True, 1)
        assert found.last_message_id == began.message_id
        assert found.since_time.ToSeconds() == START_S + 1
        server.ack(subscription, server.pull(subscription))
        for _ in range(3):
            look(server, 1)
        [ended] = told(server, watcher)
        assert (ended.attributes["fanlog-alert-state"]) == "ended"
        assert ended.attributes["fanlog-alert-number"] == "2"
        assert "behind is over: 0 messages wait" in json.loads(ended.data)["text"]
        assert not asking.get(NAME).holding

    def test_the_timer_looks_by_itself(self, server, asking, topic, subscription):
        make(asking, subscription)
        watcher = watching(server)
        server.publish(topic, b"a", b"b", b"c")

        def is_told():
            server.clock.advance(limits.ALERT_LOOK_S)
            return len(server.broker.hard.alerts.holding()) == 1

        server.await_that(is_told)
        [received] = server.await_pull(watcher, 1)
        assert received.message.attributes["fanlog-alert-state"] == "began"

    def test_the_topic_is_made_with_the_first_rule_and_again(
        self, server, asking, topic, subscription
    ):
        make(asking, subscription)
        server.publisher.delete_topic(request={"topic": TOPIC})
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        assert asking.get(NAME).messages == 1
        assert server.publisher.get_topic(request={"topic": TOPIC}).name == TOPIC

    def test_a_minimum_time_that_a_restart_does_not_begin_anew(
        self, server, asking, topic, subscription
    ):
        make(asking, subscription, seconds=60)
        watcher = watching(server)
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        server.restart()
        look(server, 59)
        assert told(server, watcher) == []
        server.restart()
        look(server, 1)
        assert states(server, watcher) == ["began"]

    def test_a_restart_repeats_nothing(self, server, asking, topic, subscription):
        make(asking, subscription)
        watcher = watching(server)
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        for _ in range(3):
            server.restart()
            look(server, 10)
        assert states(server, watcher) == ["began"]

    def test_a_subscription_that_is_deleted_ends_it(self, server, asking, topic, subscription):
        make(asking, subscription)
        watcher = watching(server)
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        server.subscriber.delete_subscription(request={"subscription": subscription})
        look(server)
        [_, ended] = told(server, watcher)
        assert "there is no subscription" in json.loads(ended.data)["text"]


class TestTrouble:
    def test_a_commit_that_fails_is_tried_again_and_told_once(
        self, server, asking, topic, subscription
    ):
        make(asking, subscription)
        watcher = watching(server)
        server.publish(topic, b"a", b"b", b"c")
        server.store.failures.append(CommitFailed("the disk is on fire"))
        look(server)
        found = asking.get(NAME)
        assert (found.holding, found.messages) == (False, 0)
        assert "the disk is on fire" in found.last_error
        codes = [one["code"] for one in rest(server, "GET", "/v1/problems", None)["problems"]]
        assert "alert_untold" in codes
        look(server)
        look(server)
        assert states(server, watcher) == ["began"]
        assert asking.get(NAME).last_error == ""
        assert server.metric("fanlog_alert_failures_total") == 1

    def test_a_topic_that_takes_no_such_message(self, server, asking, topic, subscription):
        make(asking, subscription)
        schema = f"{PARENT}/schemas/number"
        server.run(server.broker.schemas.create(schema, "AVRO", '"int"'))
        server.publisher.delete_topic(request={"topic": TOPIC})
        settings = {"schema": schema, "encoding": "JSON"}
        server.publisher.create_topic(request={"name": TOPIC, "schema_settings": settings})
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        assert asking.get(NAME).last_error
        server.publisher.delete_topic(request={"topic": TOPIC})
        look(server)
        assert (asking.get(NAME).last_error, asking.get(NAME).messages) == ("", 1)


class TestConditions:
    def test_age(self, server, asking, topic, subscription):
        make(asking, subscription, "BACKLOG_AGE", limit=300)
        watcher = watching(server)
        server.publish(topic, b"a")
        look(server, 299)
        assert states(server, watcher) == []
        look(server, 2)
        assert states(server, watcher) == ["began"]
        server.ack(subscription, server.pull(subscription))
        look(server)
        assert states(server, watcher) == ["ended"]

    def test_a_consumer_that_goes(self, server, asking, subscription):
        stream = server.open_stream(subscription)
        server.await_waiters(subscription, 1)
        make(asking, subscription, "CONSUMER_GONE", limit=None)
        watcher = watching(server)
        look(server)
        assert states(server, watcher) == []
        stream.close()
        server.await_waiters(subscription, 0)
        look(server)
        assert states(server, watcher) == ["began"]

    def test_dead_letters(self, server, asking, topic):
        letters = server.topic()
        server.subscription(letters)
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
        failing = server.subscription(topic, dead_letter_policy=policy)
        make(asking, failing, "DEAD_LETTERS", limit=None)
        watcher = watching(server)
        server.publish(topic, b"poison")
        for _ in range(5):
            server.nack(failing, server.await_pull(failing, 1))
        server.await_that(
            lambda: (
                server.broker.survey.counts_of(
                    server.broker.hard.catalog.subscription(failing)
                ).dead_lettered
                == 1
            )
        )
        look(server)
        assert states(server, watcher) == ["began"]
        look(server, limits.LETTERS_LATELY_S + 1)
        assert states(server, watcher) == ["ended"]

    def test_the_disk(self, server, asking):
        watcher = watching_first(server)
        make(asking, condition="DISK_LOW", limit=limits.ALERT_LIMIT_MAX)
        look(server)
        [began] = told(server, watcher)
        assert "can still be written" in json.loads(began.data)["text"]
        assert "fanlog-alert-resource" not in began.attributes

    def test_publishes_that_are_refused_are_told_of_all_the_same(
        self, server, asking, topic, monkeypatch
    ):
        watcher = watching_first(server)
        make(asking, condition="PUBLISHES_REFUSED", limit=None)
        monkeypatch.setattr(server.broker.ledger._writer, "_disk_reserve_bytes", 1 << 60)
        server.clock.advance(ROOM_AGE_S)
        with pytest.raises(ResourceExhausted):
            server.publish(topic, b"refused")
        look(server)
        [began] = told(server, watcher)
        assert "publishing is refused" in json.loads(began.data)["text"]
        monkeypatch.undo()
        look(server, ROOM_AGE_S)
        assert states(server, watcher) == ["ended"]


class TestShown:
    def test_metrics_and_problems(self, server, asking, topic, subscription):
        make(asking, subscription)
        assert server.metric("fanlog_alerts") == 1
        assert server.metric("fanlog_alerts_holding") == 0
        server.publish(topic, b"a", b"b", b"c")
        look(server)
        assert server.metric("fanlog_alerts_holding") == 1
        assert server.metric("fanlog_alert_messages_total") == 1
        [problem] = [
            one
            for one in rest(server, "GET", "/v1/problems", None)["problems"]
            if one["code"] == "alert_holding"
        ]
        assert (problem["kind"], problem["resource"]) == ("alert", NAME)
        assert "3 messages wait" in problem["sentence"]

    def test_listed_and_deleted(self, server, asking, subscription):
        make(asking, subscription)
        assert [one.name for one in asking.list_alerts(PARENT)] == [NAME]
        server.restart()
        with Client(server.endpoint) as client:
            again = AlertClient(client)
            assert again.get(NAME).limit == 2
            again.delete(NAME)
            with pytest.raises(CallFailed, match="does not exist"):
                again.get(NAME)
            with pytest.raises(CallFailed, match="does not exist"):
                again.delete(NAME)
        look(server, 10)
        server.restart()
        assert len(server.broker.hard.alerts) == 0

    def test_there_is_one_of_a_name(self, asking, subscription):
        make(asking, subscription)
        with pytest.raises(CallFailed, match="exists already"):
            make(asking, subscription)


def test_a_quota(start_server):
    server = start_server("memory", quotas=Quotas(alerts=1))
    watched = server.subscription(server.topic())
    with Client(server.endpoint) as client:
        asking = AlertClient(client)
        make(asking, watched)
        with pytest.raises(CallFailed, match="quota alerts=1"):
            asking.create(
                Alert(name=f"{NAME}-2", condition="BACKLOG_AGE", subscription=watched, limit=1)
            )


class TestChanges:
    def test_the_limit_is_another_one_from_the_next_look_on(
        self, server, asking, topic, subscription
    ):
        make(asking, subscription, limit=2, clear=1)
        server.publish(topic, b"1", b"2", b"3")
        look(server)
        look(server, seconds=1)
        assert asking.get(NAME).holding
        changed = asking.update(Alert(name=NAME, limit=10), ["limit", "clear", "minimum_time"])
        assert (changed.limit, changed.HasField("clear")) == (10, False)
        assert changed.minimum_time.ToSeconds() == limits.ALERT_MINIMUM_S
        assert (changed.condition, changed.subscription) == (
            Alert.BACKLOG_MESSAGES,
            subscription,
        )
        look(server)
        look(server, seconds=limits.ALERT_MINIMUM_S + 1)
        look(server)
        found = asking.get(NAME)
        assert (found.holding, found.messages, found.limit) == (False, 2, 10)

    @pytest.mark.parametrize(
        ("fields", "paths", "words"),
        [
            ({"limit": 5}, [], "update_mask: empty"),
            ({"condition": "DISK_LOW"}, ["condition"], "make another alert"),
            ({"limit": 5}, ["holding"], "is set by the server"),
            ({}, ["limit"], "needs a limit"),
            ({"limit": 5, "clear": 6}, ["limit", "clear"], "above the limit"),
        ],
    )
    def test_what_cannot_be_changed_says_so(self, asking, subscription, fields, paths, words):
        make(asking, subscription)
        with pytest.raises(CallFailed, match=words) as refused:
            asking.update(Alert(name=NAME, **fields), paths)
        assert refused.value.status == "INVALID_ARGUMENT"
        assert asking.get(NAME).limit == 2

    def test_an_alert_that_is_not_there(self, asking):
        with pytest.raises(CallFailed) as refused:
            asking.update(Alert(name=NAME, limit=5), ["limit"])
        assert refused.value.status == "NOT_FOUND"
