"""Alerts whose conditions are outside of the broker: an endpoint, the lake, the archive."""

from __future__ import annotations

import pytest

from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.alerts import AlertClient
from server.receiver import receiving
from server.test_alerts import START_S, look, make, states, watching_first
from server.tiered import DAY, HOUR, keeping


@pytest.fixture
def server(start_server):
    return start_server("memory", clock=ManualClock(START_S))


@pytest.fixture
def asking(server):
    with Client(server.endpoint) as client:
        yield AlertClient(client)


def test_an_endpoint_that_fails_and_answers_again(server, asking):
    watcher = watching_first(server)
    with receiving(lambda _: 503) as receiver:
        topic, name = server.topic_and_subscription(
            push_config={"push_endpoint": receiver.url()},
            labels={"fanlog-push-breaker-failures": "2"},
        )
        make(asking, name, "ENDPOINT_FAILING", limit=None)
        look(server)
        assert states(server, watcher) == []
        server.publish(topic, b"a")
        found = server.broker.hard.catalog.subscription(name)
        server.await_metric("fanlog_nacks_total", name, 2)
        server.await_that(lambda: bool(server.broker.movers.trouble(found)))
        look(server)
        assert states(server, watcher) == ["began"]
        receiver.answer = lambda _: 204
        server.advance(HOUR)
        server.await_drained(name)
        look(server)
        assert states(server, watcher) == ["ended"]


class TestOfTheLake:
    @pytest.fixture
    def asking(self, tiered):
        with Client(tiered.server.endpoint) as client:
            yield AlertClient(client)

    def test_an_archive_that_does_not_come_further(self, tiered, asking):
        server = tiered.server
        watcher = watching_first(server)
        topic = server.topic(**keeping())
        server.publish(topic, b"a")
        tiered.archive()
        make(asking, condition="ARCHIVE_LAG", limit=600, clear=0)
        look(server)
        server.publish(topic, b"b")
        look(server, 599)
        assert states(server, watcher) == []
        look(server, 2)
        assert states(server, watcher) == ["began"]
        tiered.archive()
        look(server)
        assert states(server, watcher) == ["ended"]

    def test_a_lake_that_is_gone_and_comes_back(self, tiered, asking, tmp_path):
        server = tiered.server
        watcher = watching_first(server)
        server.publish(server.topic(**keeping()), b"a")
        tiered.archive()
        make(asking, condition="LAKE_ALARM", limit=None)
        look(server)
        assert states(server, watcher) == []
        tiered.lake.rename(tmp_path / "away")
        tiered.pass_time(2 * DAY)
        assert tiered.alarm
        look(server)
        assert states(server, watcher) == ["began"]
        (tmp_path / "away").rename(tiered.lake)
        tiered.pass_time(60)
        assert tiered.alarm == ""
        look(server)
        assert states(server, watcher) == ["ended"]
