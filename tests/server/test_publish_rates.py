"""The publish rate of a topic, on every surface."""

from __future__ import annotations

import json
import re

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import InvalidArgument, ResourceExhausted
from google.rpc.error_details_pb2 import RetryInfo

from fanlog.client import CallFailed, Client
from fanlog.client.schedules import ScheduleClient
from fanlog.config import PROJECT_DEFAULT
from fanlog.v1 import schedules_pb2 as pb
from server import options_page
from server.rest.http import Http
from server.unique import unique

SLOW = {"fanlog-publish-rate": "2", "fanlog-publish-burst": "4"}


@pytest.fixture
def server(still_server):
    return still_server


def delay_s(refused):
    [info] = [one for one in refused.value.details if isinstance(one, RetryInfo)]
    return info.retry_delay.ToTimedelta().total_seconds()


def test_over_the_rate_a_publisher_is_told_when_to_come_again(server):
    topic = server.topic(labels=SLOW)
    subscription = server.subscription(topic)
    server.publish(topic, *[b"x"] * 4)
    for _ in range(20):
        with pytest.raises(ResourceExhausted, match="2 messages a second") as refused:
            server.publish(topic, b"y", b"y", b"y")
    assert delay_s(refused) == pytest.approx(1.5)
    server.advance(1.5)
    server.publish(topic, b"y", b"y", b"y")
    assert len(server.pull(subscription)) == 7
    assert f'fanlog_publish_rate_refusals_total{{topic="{topic}"}} 20.0' in server.metrics()


def test_larger_than_the_burst_is_refused_for_good(server):
    topic = server.topic(labels=SLOW)
    with pytest.raises(InvalidArgument, match="at most 4 at once"):
        server.publish(topic, *[b"x"] * 5)
    server.publish(topic, *[b"x"] * 4)


def test_bytes(server):
    topic = server.topic(labels={"fanlog-publish-bytes-rate": "1000"})
    server.publish(topic, b"x" * 1_500)
    with pytest.raises(ResourceExhausted, match="1000 bytes a second"):
        server.publish(topic, b"x" * 600)
    with pytest.raises(InvalidArgument, match="at most 2000 at once"):
        server.publish(topic, b"x" * 2_000)


def test_what_is_refused_for_another_reason_costs_nothing(server):
    topic = server.topic(labels=SLOW)
    for _ in range(10):
        with pytest.raises(InvalidArgument):
            server.publish(topic, b"x", **{"fanlog-delay": "-1"})
        with pytest.raises(InvalidArgument):
            server.publish(topic, b"x", **{"fanlog-depends-on": "1"})
    server.publish(topic, *[b"x"] * 4)


def test_repeats_cost_as_others_do(server):
    topic = server.topic(labels=SLOW)
    [first] = server.publish(topic, b"x", **{"fanlog-dedup-id": "a"})
    assert server.publish(topic, b"x", **{"fanlog-dedup-id": "a"}) == [first]
    server.publish(topic, b"x", b"x")
    with pytest.raises(ResourceExhausted):
        server.publish(topic, b"x", **{"fanlog-dedup-id": "a"})


def test_a_schedule_whose_message_is_too_large_is_refused(server):
    topic = server.topic(labels={"fanlog-publish-bytes-rate": "10"})
    name = "projects/test/schedules/" + unique("large")
    schedule = pb.Schedule(name=name, topic=topic, cron="* * * * *", data=b"x" * 100)
    with Client(server.endpoint) as client, pytest.raises(CallFailed, match="at most 20 at once"):
        ScheduleClient(client).create(schedule)


def test_what_the_broker_makes_of_messages_is_not_limited(server):
    """Dead letters and forwards: refusing them would lose or hold up what was accepted."""
    target = server.topic(labels={"fanlog-publish-rate": "1", "fanlog-publish-burst": "1"})
    reader = server.subscription(target)
    source = server.topic()
    server.subscription(source, push_config={"push_endpoint": f"topic:{target}"})
    server.publish(source, *[b"x"] * 50)
    assert len(server.drain(reader, 50)) == 50


class TestShortForm:
    @pytest.fixture
    def http(self, server):
        speaker = Http(server)
        yield speaker
        speaker.close()

    def test_fields(self, server, http):
        fields = {
            "publish_rate": 2,
            "publish_burst": 4,
            "publish_bytes_rate": 100,
            "publish_bytes_burst": 300,
        }
        name = unique("rated")
        made = http("POST", "/v1/topics", {"name": name, **fields})
        assert made.status_code == 201
        assert fields.items() <= made.json().items()
        topic = server.broker.hard.catalog.topic(f"projects/{PROJECT_DEFAULT}/topics/{name}")
        assert topic.labels["fanlog-publish-bytes-burst"] == "300"
        # Other labels leave them as they are.
        changed = http("PATCH", f"/v1/topics/{name}", {"labels": {"team": "shop"}})
        assert (changed.status_code, changed.json()["publish_rate"]) == (200, 2)
        changed = http("PATCH", f"/v1/topics/{name}", {"publish_rate": 5})
        assert changed.json()["publish_rate"] == 5
        assert changed.json()["labels"]["team"] == "shop"
        gone = {"publish_bytes_rate": None, "publish_bytes_burst": None}
        changed = http("PATCH", f"/v1/topics/{name}", gone)
        assert gone.keys().isdisjoint(changed.json())
        text = http.refused(400, "PATCH", f"/v1/topics/{name}", {"publish_rate": None})
        assert "needs the label fanlog-publish-rate" in text

    def test_429_and_retry_after(self, http):
        name = unique("rated")
        http("POST", "/v1/topics", {"name": name, "publish_rate": 1, "publish_burst": 3})
        messages = {"messages": [{"data": "eA=="}] * 3}
        path = f"/v1/topics/{name}:publish"
        assert http("POST", path, messages).status_code == 200
        answer = http("POST", path, messages)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")


ROWS = options_page.rows("Rates of a topic")


@pytest.mark.parametrize(("labels", "answer"), ROWS, ids=[row[0] for row in ROWS])
def test_the_reference_is_right(server, labels, answer):
    wanted = json.loads(labels.strip("`"))
    plain = server.topic()
    update = {"topic": gapic.Topic(name=plain, labels=wanted), "update_mask": {"paths": ["labels"]}}
    sentence = options_page.sentence(answer)
    if sentence is None:
        server.topic(labels=wanted)
        server.publisher.update_topic(request=update)
        return
    with pytest.raises(InvalidArgument, match=re.escape(sentence)):
        server.topic(labels=wanted)
    with pytest.raises(InvalidArgument, match=re.escape(sentence)):
        server.publisher.update_topic(request=update)
