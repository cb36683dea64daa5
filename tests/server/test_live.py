"""Live numbers: over gRPC and as server-sent events, one sampler for all, and how a watch ends."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from fanlog import limits
from fanlog.v1 import overview_pb2 as pb
from server.conftest import PATIENCE_S, PROJECT, RunningServer, StartServer

SETTINGS = {"project": PROJECT}


@pytest.fixture
def server(start_server: StartServer) -> RunningServer:
    return start_server("memory")


class Events:
    """A reader of server-sent events."""

    def __init__(self, server: RunningServer, query: str = "", *, reads: int | None = None) -> None:
        host, port = server.http("").removeprefix("http://").rsplit(":", 1)
        self._socket = socket.socket()
        if reads is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect((host, int(port)))
        request = f"GET /v1/live{query} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        self._socket.sendall(request.encode())
        self._rest = b""
        self.head = ""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            got = self._socket.recv(65_536)
            if not got:
                raise EOFError
            self._rest += got
        found, _, self._rest = self._rest.partition(mark)
        return found

    def begin(self) -> str:
        """The head of the answer."""
        self.head = self._until(b"\r\n\r\n").decode()
        return self.head

    def event(self) -> tuple[str, Any]:
        """The next event, and its data; chunks have one event each, or nothing."""
        if not self.head:
            self.begin()
        while True:
            size = int(self._until(b"\r\n"), 16)
            while len(self._rest) < size + 2:
                self._rest += self._socket.recv(65_536)
            chunk, self._rest = self._rest[:size], self._rest[size + 2 :]
            lines = chunk.decode().splitlines()
            if lines and lines[0].startswith("event: "):
                return lines[0][7:], json.loads(lines[1][6:])

    def sample(self) -> Any:
        kind, found = self.event()
        assert kind == "sample"
        return found

    def is_over(self) -> bool:
        """Whether the server has ended the answer, or hung up."""
        return self._until(b"\r\n") == b"0"

    def body(self) -> Any:
        """The answer of a request that was refused."""
        self.begin()
        while True:
            try:
                return json.loads(self._rest)
            except ValueError:
                self._rest += self._socket.recv(65_536)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def events(server: RunningServer) -> Iterator[Any]:
    opened: list[Events] = []

    def open_events(query: str = "", **options: Any) -> Events:
        opened.append(Events(server, query, **options))
        return opened[-1]

    yield open_events
    for one in opened:
        one.close()


def named(server: RunningServer, topic: str, subscription: str) -> str:
    return f"?topics={topic}&subscriptions={subscription}"


def watch(server: RunningServer, **fields: Any) -> Any:
    """A watch over gRPC."""
    call = server._channel.unary_stream("/fanlog.v1.Overview/Watch")
    return call(pb.WatchRequest(**fields).SerializeToString(), timeout=PATIENCE_S)


def taken(call: Any) -> pb.LiveSample:
    return pb.LiveSample.FromString(next(call))


def test_samples_over_grpc(server):
    topic, subscription = server.topic_and_subscription()
    call = watch(server, topics=[topic], subscriptions=[subscription])
    first = taken(call)
    assert not first.has_rates
    assert (first.server.topics, first.server.subscriptions) == (1, 1)
    server.publish(topic, *[b"x"] * 10)
    second = taken(call)
    assert second.has_rates
    [live] = second.topics
    assert (live.name, live.published_total, live.messages) == (topic, 10, 10)
    assert live.published == pytest.approx(10, rel=0.5)
    assert second.server.rates.published == pytest.approx(live.published, rel=0.01)
    [behind] = second.subscriptions
    assert (behind.name, behind.backlog, behind.consumers) == (subscription, 10, 0)
    assert second.server.backlog.messages == 10
    assert second.server.backlog.oldest_subscription == subscription
    server.ack(subscription, server.pull(subscription))
    third = taken(call)
    assert third.server.rates.acknowledged == pytest.approx(10, rel=0.5)
    assert third.subscriptions[0].acknowledged == pytest.approx(10, rel=0.5)
    assert third.server.backlog.messages == 0
    assert third.server.node.memory_bytes > 1_000_000
    call.cancel()


def test_events_have_every_field(server, events):
    topic, subscription = server.topic_and_subscription()
    stream = events(named(server, topic.rpartition("/")[2], subscription))
    head = stream.begin().lower()
    assert head.startswith("http/1.1 200 ok")
    assert "content-type: text/event-stream; charset=utf-8" in head
    assert "cache-control: no-store" in head
    first, second = stream.sample(), stream.sample()
    assert [first["hasRates"], second["hasRates"]] == [False, True]
    for found in (first, second):
        assert found["server"]["rates"]["published"] == 0.0
        assert found["server"]["backlog"]["messages"] == "0"
        assert found["server"]["disk"]["degraded"] == ""
        assert "lake" not in found["server"]
        assert found["problems"] == []
        assert found["topics"][0]["name"] == topic
        assert found["subscriptions"][0]["backlogEstimated"] is False


def test_all_watchers_get_the_same_samples(server, events):
    one, two = events(), events()
    seen = {json.dumps(one.sample()) for _ in range(3)}
    also = {json.dumps(two.sample()) for _ in range(3)}
    assert len(seen & also) >= 2
    assert server.broker.live.watchers == 2


def test_nothing_is_sampled_while_nobody_watches(server, events):
    stream = events()
    stream.sample()
    assert server.broker.live._task is not None
    stream.close()
    server.await_that(lambda: server.broker.live.watchers == 0)
    assert server.broker.live._task is None
    # And the next one has a first sample again.
    assert events().sample()["hasRates"] is False


def test_problems_come_with_the_samples(start_server):
    from fanlog.broker.clock import ManualClock

    server = start_server("memory", clock=ManualClock())
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"x")
    server.advance(20 * 60)
    call = watch(server)
    first = taken(call)
    assert first.problem_count == 1
    assert first.problems[0].resource == subscription
    call.cancel()


def test_only_what_is_named(server, events):
    topic, subscription = server.topic_and_subscription()
    found = events(named(server, topic, subscription) + "&onlyNamed=true").sample()
    assert "server" not in found
    assert found["problems"] == []
    assert len(found["topics"]) == 1


def test_what_does_not_exist_is_left_out(server, events):
    found = events("?topics=nothing&subscriptions=none").sample()
    assert (found["topics"], found["subscriptions"]) == ([], [])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?colour=red", "'colour': is no parameter"),
        ("?onlyNamed=maybe", "onlyNamed: must be true or false"),
        ("?onlyNamed=true", "only_named: without a topic"),
        ("?topics=projects/p", "topics"),
        ("?" + "&".join(f"topics=t{n:03}" for n in range(101)), "at most 100 are allowed"),
        ("?" + "&".join(f"topics=t{n:03}" for n in range(200)), "too many parameters"),
    ],
)
def test_a_wrong_request_is_an_answer_as_any(events, query, words):
    stream = events(query)
    assert words in stream.body()["error"]["message"]
    assert stream.head.startswith("HTTP/1.1 400")


def test_only_get(server):
    import requests

    for method in ("POST", "PUT", "HEAD"):
        answer = requests.request(method, server.http("/v1/live"), timeout=PATIENCE_S)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"


def test_a_drain_ends_it_at_once(server, events):
    stream = events()
    stream.sample()
    begun_s = time.monotonic()
    server.stop()
    took_s = time.monotonic() - begun_s
    kind = "sample"
    while kind == "sample":
        kind, found = stream.event()
    assert kind == "end"
    assert found["error"]["status"] == "UNAVAILABLE"
    assert found["error"]["message"] == "the server is stopping; connect again"
    assert stream.is_over()
    assert took_s < limits.LIVE_UNREAD_S / 2


def test_a_drain_ends_a_watch_over_grpc(server):
    call = watch(server)
    taken(call)
    threading.Thread(target=server.stop).start()
    with pytest.raises(grpc.RpcError) as ended:
        for _ in call:
            pass
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE


def test_as_many_watch_as_may(server, events, monkeypatch):
    monkeypatch.setattr(limits, "LIVE_WATCHERS_MAX", 2)
    one, two = events(), events()
    one.sample(), two.sample()
    refused = events()
    assert refused.body()["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert refused.head.startswith("HTTP/1.1 429")
    one.close()
    server.await_that(lambda: server.broker.live.watchers == 1)
    events().sample()


def test_all_of_them_name_so_much_and_no_more(server, events, monkeypatch):
    monkeypatch.setattr(limits, "LIVE_NAMED_TOTAL_MAX", 2)
    events("?topics=one&topics=two").sample()
    # The same names again cost nothing.
    events("?topics=one&topics=two").sample()
    assert events("?topics=three").body()["error"]["status"] == "RESOURCE_EXHAUSTED"


def test_a_watcher_that_does_not_read_is_cut_off(server, events, monkeypatch, caplog):
    monkeypatch.setattr(limits, "LIVE_UNREAD_S", 0.3)
    monkeypatch.setattr(limits, "LIVE_S", 0.002)
    reading = events()
    reading.sample()
    deaf = events("?" + "&".join(f"topics={server.topic()}" for _ in range(90)), reads=4_096)
    deaf.begin()
    assert server.broker.live.watchers == 2
    server.await_that(lambda: server.broker.live.watchers == 1)
    server.await_metric('fanlog_requests_given_up_total{reason="unread"}', None, 1)
    assert "without completing response" not in caplog.text
    # The other one goes on.
    reading.sample()


def test_a_mistake_of_ours_ends_the_watch_and_the_next_one_begins(server, events, monkeypatch):
    stream = events()
    stream.sample()

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server.broker.live._rates, "look", fail)
    kind = "sample"
    while kind == "sample":
        kind, found = stream.event()
    assert found["error"]["status"] == "INTERNAL"
    monkeypatch.undo()
    server.await_that(lambda: server.broker.live.watchers == 0)
    events().sample()
