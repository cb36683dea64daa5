"""Load shedding of a running server, over gRPC and REST."""

from __future__ import annotations

import threading

import pytest
from google.api_core.exceptions import ResourceExhausted
from google.rpc.error_details_pb2 import RetryInfo

from fanlog import limits
from server.rest.http import Http

METRIC = 'fanlog_publish_refusals_total{reason="load_shed"}'


@pytest.fixture
def slow_disk(start_server, monkeypatch, request):
    """A server whose disk takes a publish, and does not come back with it until told."""
    server = start_server("memory", shed_at=request.param)
    topic = server.topic()
    gate = threading.Event()
    commit = server.store.commit

    def wait(one):
        gate.wait(20)
        commit(one)

    monkeypatch.setattr(server.store, "commit", wait)
    monkeypatch.setattr(limits, "WRITER_BACKLOG_BYTES_MAX", 10_000)
    first = threading.Thread(target=server.publish, args=(topic, b"x" * 7_000))
    first.start()
    server.await_that(lambda: server.broker.ledger._writer.waiting_bytes > 7_000)
    yield server, topic
    gate.set()
    first.join()
    monkeypatch.setattr(server.store, "commit", commit)
    server.publish(topic, b"after")


@pytest.mark.parametrize("slow_disk", [0.5], indirect=True)
def test_low_priorities_are_refused_first(slow_disk):
    server, topic = slow_disk
    with pytest.raises(ResourceExhausted, match="the disk is behind") as refused:
        server.publish(topic, b"low")
    [info] = [one for one in refused.value.details if isinstance(one, RetryInfo)]
    assert info.retry_delay.ToTimedelta().total_seconds() >= limits.SHED_RETRY_S_MIN
    with pytest.raises(ResourceExhausted):
        server.publish(topic, b"low", **{"fanlog-priority": "1"})
    urgent = threading.Thread(
        target=server.publish, args=(topic, b"high"), kwargs={"fanlog-priority": "9"}
    )
    before = server.broker.ledger._writer.waiting_bytes
    urgent.start()
    server.await_that(lambda: server.broker.ledger._writer.waiting_bytes > before)
    http = Http(server)
    answer = http("POST", f"/v1/{topic}:publish", {"messages": [{"data": "eA=="}]})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    http.close()
    assert f"{METRIC} 3.0" in server.metrics()


@pytest.mark.parametrize("slow_disk", [0.0], indirect=True)
def test_it_is_off_unless_set(slow_disk):
    server, topic = slow_disk
    before = server.broker.ledger._writer.waiting_bytes
    other = threading.Thread(target=server.publish, args=(topic, b"low"))
    other.start()
    server.await_that(lambda: server.broker.ledger._writer.waiting_bytes > before)
    assert f"{METRIC} 0.0" in server.metrics()
