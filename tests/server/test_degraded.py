"""Publishing is refused for want of room: readers are served, and everybody who asks is told."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import closing

import pytest
from google.api_core.exceptions import ResourceExhausted
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.broker.writer import ROOM_AGE_S
from fanlog.server import health
from server.conftest import PATIENCE_S

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PUBLISHER = "google.pubsub.v1.Publisher"
OTHERS = ("", "google.pubsub.v1.Subscriber", "google.pubsub.v1.SchemaService")


def fill_disk(server, monkeypatch):
    monkeypatch.setattr(server.broker.ledger._writer, "_disk_reserve_bytes", 1 << 60)


def fill_hot_log(server, monkeypatch):
    monkeypatch.setattr(server.broker.ledger._writer, "_hot_size_bytes", 1)
    monkeypatch.setattr(server.broker.ledger._writer, "_used_bytes", 2)


def fill_writer(server, monkeypatch):
    writer = server.broker.ledger._writer
    monkeypatch.setattr(writer, "_waiting_bytes", limits.WRITER_BACKLOG_BYTES_MAX)


REASONS = pytest.mark.parametrize(
    ("fill", "reason", "sentence"),
    [
        (fill_disk, "disk_full", "are kept for acknowledgements and deletions"),
        (fill_hot_log, "hot_log_full", "publishing resumes when the archive has come further"),
        (fill_writer, "writer_backlog_full", "bytes wait for the disk"),
    ],
)


@pytest.fixture
def still(start_server):
    """A server of the test's own on a clock that stands still: readings of the disk stay as set."""
    return start_server(engine="memory", clock=ManualClock())


@pytest.fixture
def stub(still):
    with closing(still.channel()) as channel:
        yield health_pb2_grpc.HealthStub(channel)


def ready(server):
    with urllib.request.urlopen(server.http("/readyz"), timeout=PATIENCE_S) as response:
        return response.read().decode()


def status(stub, service):
    return stub.Check(health_pb2.HealthCheckRequest(service=service)).status


def refusals(server, reason):
    start = f'fanlog_publish_refusals_total{{reason="{reason}"}} '
    [found] = [line for line in server.metrics().splitlines() if line.startswith(start)]
    return float(found.removeprefix(start))


@REASONS
def test_it_begins_and_ends_by_itself(still, stub, monkeypatch, fill, reason, sentence):
    topic, subscription = still.topic_and_subscription()
    still.publish(topic, b"before")
    assert refusals(still, reason) == 0
    with monkeypatch.context() as full:
        fill(still, full)
        for _ in range(2):
            with pytest.raises(ResourceExhausted, match=sentence):
                still.publish(topic, b"refused")
        first, second = ready(still).splitlines()
        assert first == "ready"
        assert second.startswith("degraded: publishing is refused: ")
        assert sentence in second
        assert status(stub, PUBLISHER) == NOT_SERVING
        assert [status(stub, service) for service in OTHERS] == [SERVING] * len(OTHERS)
        assert refusals(still, reason) == 2
        assert still.metric("fanlog_degraded") == 1
        [received] = still.pull(subscription)
        still.ack(subscription, [received])
    still.advance(ROOM_AGE_S)
    assert ready(still) == "ready\n", "nobody had to publish for that"
    assert status(stub, PUBLISHER) == SERVING
    assert still.metric("fanlog_degraded") == 0
    assert refusals(still, reason) == 2
    still.publish(topic, b"after")


def test_a_full_disk_is_told_before_anybody_publishes(still, stub, monkeypatch):
    fill_disk(still, monkeypatch)
    assert "degraded: " in ready(still)
    assert status(stub, PUBLISHER) == NOT_SERVING


def test_watchers_are_told_both_ways(still, stub, monkeypatch):
    monkeypatch.setattr(health, "LOOK_S", 0.01)
    watches = {
        service: stub.Watch(health_pb2.HealthCheckRequest(service=service))
        for service in (PUBLISHER, *OTHERS)
    }
    assert [next(watch).status for watch in watches.values()] == [SERVING] * len(watches)
    with monkeypatch.context() as full:
        fill_disk(still, full)
        assert next(watches[PUBLISHER]).status == NOT_SERVING
    assert next(watches[PUBLISHER]).status == SERVING
    # The next thing that the others hear is the stop.
    still.stop()
    assert [next(watch).status for watch in watches.values()] == [NOT_SERVING] * len(watches)


def test_every_way_to_publish_is_counted(still, monkeypatch):
    """REST, in its forms, goes through the same verb."""
    topic = "projects/fanlog/topics/orders"
    still.publisher.create_topic(name=topic)
    fill_disk(still, monkeypatch)
    for path in (f"/v1/{topic}:publish", "/v1/topics/orders:publish"):
        request = urllib.request.Request(
            still.http(path),
            data=b'{"messages": [{"data": "eA=="}]}',
            headers={"content-type": "application/json"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE_S)
        with closing(refused.value):
            assert refused.value.code == 429, refused.value.read()
    assert refusals(still, "disk_full") == 2
