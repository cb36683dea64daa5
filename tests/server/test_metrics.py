"""What Prometheus reads at `/metrics`."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Mapping

import pytest
from google.api_core.exceptions import NotFound
from prometheus_client.parser import text_string_to_metric_families

from fanlog.broker.clock import ManualClock
from fanlog.server.metric_families import FAMILIES
from server.conftest import RunningServer


class Page:
    """One reading of the page: values by name and labels."""

    def __init__(self, server: RunningServer) -> None:
        self._samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.types: dict[str, str] = {}
        for family in text_string_to_metric_families(server.metrics()):
            self.types[family.name] = family.type
            assert family.documentation
            for sample in family.samples:
                self._samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self._samples[name, tuple(sorted(labels.items()))]

    def of(self, subscription: str) -> Mapping[str, float]:
        return {
            name: value
            for (name, labels), value in self._samples.items()
            if dict(labels).get("subscription") == subscription
        }

    def names(self) -> set[str]:
        return {name for name, _ in self._samples}


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


def test_everything_that_operators_were_promised_is_there(server):
    topic, _ = server.topic_and_subscription()
    server.publish(topic, b"0")
    page = Page(server)
    counters = {name for name, kind in page.types.items() if kind == "counter"}
    assert {
        "fanlog_published",
        "fanlog_published_bytes",
        "fanlog_publish_requests",
        "fanlog_deliveries",
        "fanlog_acks",
        "fanlog_nacks",
        "fanlog_expiries",
        "fanlog_dead_letters",
        "fanlog_dead_letter_failures",
        "fanlog_ack_ids_refused",
        "fanlog_passed_over",
        "fanlog_commit_failures",
        "fanlog_damaged_batches",
    } <= counters
    gauges = {name for name, kind in page.types.items() if kind == "gauge"}
    assert {
        "fanlog_backlog_messages",
        "fanlog_oldest_unacked_age_seconds",
        "fanlog_outstanding_messages",
        "fanlog_disk_bytes",
        "fanlog_disk_free_page_bytes",
        "fanlog_disk_room_bytes",
        "fanlog_streams",
        "fanlog_topics",
        "fanlog_subscriptions",
        "fanlog_snapshots",
        "fanlog_routed_segments",
        "fanlog_routed_cost",
    } <= gauges
    assert page.types["fanlog_commit_seconds"] == "histogram"
    assert page.types["fanlog_commit_bytes"] == "histogram"


def test_the_page_and_the_table_have_the_same_metrics(server):
    """A metric that is on the page and not in the table would be missing in the reference."""
    topic, _ = server.topic_and_subscription()
    server.publish(topic, b"0")
    shown = {
        family.name: (family.type, family.documentation, [s.labels for s in family.samples])
        for family in text_string_to_metric_families(server.metrics())
    }
    always = {name for name, family in FAMILIES.items() if not family.when}
    assert always <= set(shown) <= set(FAMILIES)
    for name, (kind, text, labels) in shown.items():
        family = FAMILIES[name]
        assert (kind, text) == (family.kind, family.text), name
        assert all(set(found) - {"le"} == set(family.labels) for found in labels), name


def test_it_is_in_the_format_that_prometheus_asks_for(server):
    with urllib.request.urlopen(server.http("/metrics")) as response:
        assert response.headers["content-type"].startswith("text/plain; version=")


def test_publishes_and_commits_are_counted(server):
    topic = server.topic()
    before = Page(server)
    server.publish(topic, b"12345", b"1234567890")
    after = Page(server)

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert grown("fanlog_published_total") == 2
    assert grown("fanlog_publish_requests_total") == 1
    assert 15 <= grown("fanlog_published_bytes_total") <= 40
    assert grown("fanlog_commit_seconds_count") == grown("fanlog_commit_bytes_count") == 1
    assert grown("fanlog_commit_bytes_bucket", le="1000.0") == 1
    assert grown("fanlog_commit_bytes_bucket", le="+Inf") == 1


def test_the_life_of_a_message_is_counted(server):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *[b"%d" % n for n in range(10)])
    counts = Page(server).of(subscription)
    assert counts["fanlog_backlog_messages"] == 10
    assert counts["fanlog_outstanding_messages"] == 0
    assert counts["fanlog_deliveries_total"] == 0

    received = server.pull(subscription)
    server.ack(subscription, received[:4])
    server.nack(subscription, received[4:6])
    counts = Page(server).of(subscription)
    assert counts["fanlog_deliveries_total"] == 10
    assert counts["fanlog_acks_total"] == 4
    assert counts["fanlog_nacks_total"] == 2
    assert counts["fanlog_backlog_messages"] == 6
    assert counts["fanlog_outstanding_messages"] == 4

    server.advance(11)
    counts = Page(server).of(subscription)
    assert counts["fanlog_expiries_total"] == 4
    assert counts["fanlog_outstanding_messages"] == 0
    assert counts["fanlog_backlog_messages"] == 6


def test_what_filters_leave_out_is_counted(server):
    before = Page(server)
    topic, odd = server.topic_and_subscription(filter='attributes.odd = "1"')
    none = server.subscription(topic, filter="attributes:none")
    every = server.subscription(topic)
    for number in range(10):
        server.publish(topic, b"x", odd=str(number % 2))
    for subscription, wanted in ((odd, 5), (none, 0), (every, 10)):
        received = server.pull(subscription)
        assert len(received) == wanted
        if received:
            server.ack(subscription, received)
        counts = Page(server).of(subscription)
        assert counts["fanlog_deliveries_total"] == counts["fanlog_acks_total"] == wanted
        assert counts["fanlog_passed_over_total"] == 10 - wanted
        assert counts["fanlog_backlog_messages"] == 0
    after = Page(server)
    assert after.value("fanlog_routed_segments") > before.value("fanlog_routed_segments")
    assert after.value("fanlog_routed_cost") > before.value("fanlog_routed_cost")
    for subscription in (odd, none):
        server.subscriber.delete_subscription(subscription=subscription)
    after = Page(server)
    assert after.value("fanlog_routed_segments") == before.value("fanlog_routed_segments")


def test_the_age_of_the_oldest_unacknowledged_message(server):
    topic, subscription = server.topic_and_subscription()
    assert Page(server).of(subscription)["fanlog_oldest_unacked_age_seconds"] == 0
    server.publish(topic, b"0")
    server.advance(60)
    server.publish(topic, b"1")
    server.advance(5)
    age = Page(server).of(subscription)["fanlog_oldest_unacked_age_seconds"]
    assert age == pytest.approx(65)
    first, second = server.pull(subscription)
    server.ack(subscription, [first])
    age = Page(server).of(subscription)["fanlog_oldest_unacked_age_seconds"]
    assert age == pytest.approx(5)
    server.ack(subscription, [second])
    assert Page(server).of(subscription)["fanlog_oldest_unacked_age_seconds"] == 0


def test_dead_letters_and_missing_dead_letter_topics_are_counted(server):
    dead = server.topic()
    topic, subscription = server.topic_and_subscription(
        dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 1}
    )
    letters = server.subscription(dead)
    server.publish(topic, b"0")
    server.nack(subscription, server.pull(subscription))
    server.await_pull(letters)
    counts = Page(server).of(subscription)
    assert counts["fanlog_dead_letters_total"] == 1
    assert counts["fanlog_dead_letter_failures_total"] == 0
    assert counts["fanlog_backlog_messages"] == 0

    server.publisher.delete_topic(topic=dead)
    server.publish(topic, b"1")
    server.nack(subscription, server.pull(subscription))
    counts = Page(server).of(subscription)
    assert counts["fanlog_dead_letters_total"] == 1
    assert counts["fanlog_dead_letter_failures_total"] == 1
    assert counts["fanlog_backlog_messages"] == 1


def test_refused_ack_ids_and_streams_are_counted(server):
    topic, subscription = server.topic_and_subscription(enable_exactly_once_delivery=True)
    streams = Page(server).value("fanlog_streams")
    server.publish(topic, b"0")
    stream = server.open_stream(subscription)
    [received] = stream.messages(1)
    assert Page(server).value("fanlog_streams") == streams + 1
    server.advance(11)
    stream.send(ack_ids=[received.ack_id])
    confirmation = stream.confirmation("acknowledge_confirmation")
    assert confirmation.invalid_ack_ids == [received.ack_id]
    assert Page(server).of(subscription)["fanlog_ack_ids_refused_total"] == 1
    stream.half_close()
    stream.wait_closed()
    assert Page(server).value("fanlog_streams") == streams


def test_resources_come_and_go(server):
    before = Page(server)
    topic, subscription = server.topic_and_subscription()
    snapshot = subscription.replace("subscriptions", "snapshots")
    server.subscriber.create_snapshot(name=snapshot, subscription=subscription)
    server.publish(topic, b"0")
    during = Page(server)
    names = ("fanlog_topics", "fanlog_subscriptions", "fanlog_snapshots")
    for name in names:
        assert during.value(name) == before.value(name) + 1
    assert during.of(subscription)
    server.subscriber.delete_snapshot(snapshot=snapshot)
    server.subscriber.delete_subscription(subscription=subscription)
    server.publisher.delete_topic(topic=topic)
    after = Page(server)
    for name in names:
        assert after.value(name) == before.value(name)
    assert not after.of(subscription)


def test_a_name_with_every_allowed_character(server):
    name = "projects/p/subscriptions/a.b-c_d~e+f%25"
    server.subscriber.create_subscription(name=name, topic=server.topic())
    assert Page(server).of(name)["fanlog_backlog_messages"] == 0


def test_the_disk_and_its_free_pages(start_server):
    server = start_server(topic_retention=0.0)
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, bytes(4_000_000))
    full = Page(server)
    assert full.value("fanlog_disk_bytes") > 4_000_000
    assert full.value("fanlog_disk_room_bytes") > full.value("fanlog_disk_free_page_bytes") > 0
    server.drain(subscription, 1)
    server.sweep()
    while server.store.has_garbage:
        server.sweep()
    drained = Page(server)
    assert drained.value("fanlog_disk_free_page_bytes") > 3_900_000


def test_topics_are_counted(server):
    topic, other = server.topic(), server.topic()
    server.publish(topic, b"1234567890", b"1234567890")
    server.publish(topic, b"1234567890")
    page = Page(server)

    def of(name: str, topic: str) -> float:
        return page.value(name, topic=topic)

    assert of("fanlog_topic_published_total", topic) == 3
    assert of("fanlog_topic_publishes_total", topic) == 2
    assert 30 <= of("fanlog_topic_published_bytes_total", topic) <= 60
    assert of("fanlog_topic_stored_messages", topic) == 3
    assert of("fanlog_topic_published_total", other) == 0
    assert of("fanlog_topic_stored_messages", other) == 0
    server.publisher.delete_topic(topic=topic)
    page = Page(server)
    with pytest.raises(KeyError):
        of("fanlog_topic_published_total", topic)


def test_the_counts_of_a_deleted_topic_are_forgotten(start_server):
    server = start_server(topic_retention=0.0)
    topic = server.topic()
    server.publish(topic, b"x")
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    assert partition in server.broker.metrics.partitions
    server.publisher.delete_topic(topic=topic)
    server.sweep()
    assert partition not in server.broker.metrics.partitions


def test_times_from_publish_to_delivery_and_to_ack(start_server):
    server = start_server(clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0", b"1", b"2")
    server.advance(3)
    received = server.pull(subscription)
    server.advance(4)
    server.ack(subscription, received[:2])
    page = Page(server)
    assert page.value("fanlog_delivery_seconds_count") == 3
    assert page.value("fanlog_delivery_seconds_sum") == pytest.approx(9)
    assert page.value("fanlog_delivery_seconds_bucket", le="2.5") == 0
    assert page.value("fanlog_delivery_seconds_bucket", le="5.0") == 3
    assert page.value("fanlog_ack_seconds_count") == 2
    assert page.value("fanlog_ack_seconds_sum") == pytest.approx(14)
    assert page.of(subscription)["fanlog_ack_wait_seconds_total"] == pytest.approx(14)
    assert page.of(subscription)["fanlog_delivered_bytes_total"] > 0

    # A redelivery is no first delivery; its acknowledgement counts from the publish.
    server.nack(subscription, received[2:])
    [again] = server.pull(subscription)
    server.ack(subscription, [again])
    page = Page(server)
    assert page.value("fanlog_delivery_seconds_count") == 3
    assert page.value("fanlog_ack_seconds_count") == 3
    assert page.value("fanlog_ack_seconds_sum") == pytest.approx(21)
    assert page.value("fanlog_publish_seconds_count") == 1


def test_consumers_are_counted(server):
    _, subscription = server.topic_and_subscription()
    assert Page(server).of(subscription)["fanlog_consumers"] == 0
    streams = [server.open_stream(subscription) for _ in range(2)]
    server.await_waiters(subscription, 2)
    assert Page(server).of(subscription)["fanlog_consumers"] == 2
    for stream in streams:
        stream.half_close()
        stream.wait_closed()
    assert Page(server).of(subscription)["fanlog_consumers"] == 0


def test_calls_are_counted_by_method_and_code(start_server):
    server = start_server()

    def calls(**labels: str) -> float:
        try:
            return Page(server).value("fanlog_calls_total", **labels)
        except KeyError:
            return 0

    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0")
    with pytest.raises(NotFound):
        server.publish(f"{topic}-not", b"0")
    assert calls(surface="grpc", method="Publisher.CreateTopic", code="OK") == 1
    assert calls(surface="grpc", method="Publisher.Publish", code="OK") == 1
    assert calls(surface="grpc", method="Publisher.Publish", code="NOT_FOUND") == 1

    stream = server.open_stream(subscription)
    stream.messages(1)
    stream.close()
    streaming = {"surface": "grpc", "method": "Subscriber.StreamingPull"}
    late_s = time.monotonic() + 30
    while not calls(**streaming, code="CANCELLED"):
        assert time.monotonic() < late_s
    assert calls(**streaming, code="CANCELLED") == 1

    for path, code in (
        (f"/v1/{topic}", 200),
        (f"/v1/{topic}-not", 404),
        ("/v1/nowhere/x/y/z", 404),
    ):
        request = urllib.request.Request(server.http(path))
        try:
            assert urllib.request.urlopen(request).status == code
        except urllib.error.HTTPError as error:
            assert error.code == code  # noqa: PT017
    assert calls(surface="rest", method="Publisher.GetTopic", code="200") == 1
    assert calls(surface="rest", method="Publisher.GetTopic", code="404") == 1
    assert calls(surface="rest", method="", code="404") == 1


def test_the_process_and_its_loop(start_server):
    server = start_server()
    page = Page(server)
    assert 0 < time.time() - page.value("process_start_time_seconds") < 86_400
    assert page.value("process_cpu_seconds_total") > 0
    assert page.value("process_max_fds") > 0
    [(build, _)] = [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if sample.name == "fanlog_build_info"
    ]
    assert set(build) == {"version", "python_version"}
    late_s = time.monotonic() + 30
    while not (looks := Page(server).value("fanlog_loop_lag_seconds_count")):
        assert time.monotonic() < late_s
    assert looks >= 1
    assert Page(server).value("fanlog_clock_steps_total") == 0
    assert Page(server).value("fanlog_clock_behind_seconds") == 0


def test_a_clock_that_was_set_back_is_seen(start_server):
    server = start_server(engine="memory", clock=ManualClock())
    topic = server.topic()
    server.publish(topic, b"0")
    server.advance(-90)
    assert Page(server).value("fanlog_clock_behind_seconds") == pytest.approx(90)
