"""Metrics by OTLP, as the official modules read them."""

from __future__ import annotations

import logging
import time

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from fanlog.server.metric_families import FAMILIES
from server.collectors import Receiver, receiving
from server.conftest import RunningServer


@pytest.fixture
def collector():
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def server(start_server, collector: Receiver) -> RunningServer:
    return start_server(
        memory=True,
        otlp_endpoint=collector.url,
        # Sent when the server stops; tests ask for it by `stop`.
        otlp_interval_s=3_600.0,
        otlp_headers=(("x-team", "ops"),),
        otlp_attributes=(("service.name", "billing"), ("zone", "a")),
    )


def labels_of(point) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def test_all_metrics_are_sent(server, collector):
    began_ns = time.time_ns()
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"0", b"1")
    server.ack(subscription, server.pull(subscription)[:1])
    server.stop()
    found = collector.metrics()
    always = {name for name, family in FAMILIES.items() if not family.when}
    # Of those with labels, there may be none.
    assert {name for name in always if not FAMILIES[name].labels} <= set(found) <= set(FAMILIES)

    published = found["fanlog_published"]
    assert published.description == FAMILIES["fanlog_published"].text
    assert published.sum.is_monotonic
    assert published.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    [point] = published.sum.data_points
    assert point.as_int == 2
    assert abs(point.start_time_unix_nano - began_ns) < 60e9
    assert began_ns <= point.time_unix_nano <= time.time_ns()

    [backlog] = found["fanlog_backlog_messages"].gauge.data_points
    assert (labels_of(backlog), backlog.as_int) == ({"subscription": subscription}, 1)
    assert found["fanlog_backlog_messages"].unit == "{message}"
    [age] = found["fanlog_oldest_unacked_age_seconds"].gauge.data_points
    assert 0 <= age.as_double < 60
    assert found["fanlog_disk_bytes"].unit == "By"

    commits = found["fanlog_commit_seconds"]
    assert commits.unit == "s"
    assert commits.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    [histogram] = commits.histogram.data_points
    assert list(histogram.explicit_bounds)[:2] == [0.0005, 0.001]
    assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1
    assert histogram.count == sum(histogram.bucket_counts) > 0
    assert histogram.sum > 0


def test_the_resource_the_headers_and_the_scope(server, collector):
    server.stop()
    [request] = collector.metrics_requests()
    [resource] = request.resource_metrics
    attributes = labels_of(resource.resource)
    assert attributes["service.name"] == "billing"
    assert attributes["zone"] == "a"
    assert attributes["service.instance.id"]
    [scope] = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("fanlog", attributes["service.version"])
    path, headers, _ = collector.requests[0]
    assert path == "/v1/metrics"
    assert headers["x-team"] == "ops"
    assert headers["content-type"] == "application/x-protobuf"


def test_they_are_sent_every_so_often(start_server, collector):
    server = start_server(memory=True, otlp_endpoint=collector.url, otlp_interval_s=1.0)
    collector.await_requests(2)
    server.stop()
    assert len(collector.metrics()["fanlog_topics"].gauge.data_points) >= 3


def test_many_come_in_several_requests(start_server, collector, monkeypatch):
    monkeypatch.setattr("fanlog.server.otlp.metrics_export.POINTS_MAX", 50)
    server = start_server(memory=True, otlp_endpoint=collector.url, otlp_interval_s=3_600.0)
    names = {server.topic() for _ in range(230)}
    server.stop()
    assert len(collector.requests) > 5
    points = collector.metrics()["fanlog_topic_published"].sum.data_points
    assert {labels_of(point)["topic"] for point in points} == names
    assert len(points) == 230


def test_a_collector_that_is_busy_is_asked_again(server, collector, caplog):
    caplog.set_level(logging.INFO, logger="fanlog.otlp")
    collector.statuses = [503, 429]
    server.stop()
    bodies = [body for _, _, body in collector.requests]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]
    assert not caplog.records


def test_a_collector_that_refuses_is_not_asked_again_and_that_is_counted(
    start_server, collector, caplog
):
    caplog.set_level(logging.INFO, logger="fanlog.otlp")
    server = start_server(memory=True, otlp_endpoint=collector.url, otlp_interval_s=1.0)
    collector.statuses = [400, 400]
    collector.await_requests(3)
    page = server.metrics()
    assert 'fanlog_otlp_requests_total{outcome="failed",signal="metrics"} 2' in page
    server.stop()
    told = [record.getMessage().split(";")[0] for record in caplog.records]
    assert told == [
        "action=otlp_failed signal=metrics reason=status 400",
        "action=otlp_resumed signal=metrics",
    ]


def test_without_an_endpoint_nothing_is_sent(start_server):
    server = start_server(memory=True)
    assert "fanlog_otlp_requests_total{" not in server.metrics()
