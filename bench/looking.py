"""The price of looking: live numbers of a console's page, a scrape of metrics, and spans.

The server has as many topics and subscriptions as a large one, of which most are idle. The price is
its processor time with somebody who looks, above the time without, over the same stretch: an idle
server uses some, too.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc

from bench import closed_loop
from bench.api import PROJECT, Api
from bench.meter import Meter
from bench.servers import Fanlog, Launched, Server
from bench.session import Sample, Session
from fanlog.v1 import overview_pb2

#: Length of a stretch with a watcher, and of one without.
WATCHED_S = 30.0
#: Topics and subscriptions that a page names besides the server's own numbers.
NAMED = 50
SCRAPES = 10
WORKERS = 8
ROUNDS = 3


def measure_live(server: Server, count: int) -> Sample:
    """A page that shows live numbers of the server and of some of `count` subscriptions."""
    with Session(server) as session:
        topic = session.topic()
        names = [session.subscription_name() for _ in range(count)]
        _make_subscriptions(session.api, topic, names)
        session.fill(topic, 1_000, 100)
        # The first look at all of them is over.
        with _watching(server.endpoint, names[:NAMED]) as samples:
            _stretch(server, 5.0)
            watched = _stretch(server, WATCHED_S)
        idle = _stretch(server, WATCHED_S)
    problems = () if len(samples) > WATCHED_S / 2 else (f"only {len(samples)} samples came",)
    return Sample(
        figures={
            "cpu": (watched - idle) / WATCHED_S * 100,
            "idle": idle / WATCHED_S * 100,
        },
        problems=problems,
    )


def measure_scrape(server: Server, count: int) -> Sample:
    """A scrape of `count` topics and as many subscriptions, one of them on each."""
    assert isinstance(server, Fanlog)
    with Session(server) as session:
        api = session.api
        ids = range(count)
        api.in_parallel(WORKERS, lambda n: api.create_topic(f"{PROJECT}/topics/many-{n}"), ids)
        api.in_parallel(
            WORKERS,
            lambda n: api.create_subscription(
                f"{PROJECT}/subscriptions/many-{n}", f"{PROJECT}/topics/many-{n}"
            ),
            ids,
        )
        url = f"http://{server.http}/metrics"
        _scrape(url)
        with Meter(server) as meter:
            sizes = [_scrape(url) for _ in range(SCRAPES)]
    used = meter.cost.server_cpu_s or 0.0
    return Sample(
        figures={
            "cpu": used / SCRAPES * 1000,
            "time": meter.cost.seconds / SCRAPES * 1000,
            "size": max(sizes) / 2**20,
        }
    )


class Traced(Fanlog):
    """Fanlog that sends spans of a part of all messages to a collector."""

    def __init__(self, folder: Path, collector: str, ratio: float) -> None:
        super().__init__(folder)
        self._flags = ["--otlp-endpoint", collector, "--span-ratio", str(ratio)]

    def _command(self) -> list[str]:
        return [*super()._command(), *self._flags]


def measure_spans(open_server: Server, count: int) -> Sample:
    """Single publishes: without spans, with one message in a hundred, and with all, in turns."""
    assert isinstance(open_server, Launched)
    with _collector() as url:
        servers: dict[str, Server] = {"off": open_server}
        for key, ratio in (("some", 0.01), ("all", 1.0)):
            folder = open_server.folder / key
            folder.mkdir(exist_ok=True)
            servers[key] = Traced(folder, url, ratio)
        for key in ("some", "all"):
            servers[key].start()
        try:
            found: dict[str, list[float]] = {key: [] for key in servers}
            problems: list[str] = []
            for _ in range(ROUNDS):
                for key, server in servers.items():
                    sample = closed_loop.measure(
                        server, max(1, count // ROUNDS), publish=closed_loop.publish_lean
                    )
                    found[key].append(sample.figures["cpu"] or 0.0)
                    problems += sample.problems
        finally:
            for key in ("some", "all"):
                servers[key].stop()
    best = {key: min(values) for key, values in found.items()}
    return Sample(
        figures={
            "off": best["off"],
            "some": best["some"],
            "all": best["all"],
            "some-ratio": best["some"] / best["off"],
            "all-ratio": best["all"] / best["off"],
        },
        problems=tuple(problems),
    )


def _make_subscriptions(api: Api, topic: str, names: list[str]) -> None:
    api.in_parallel(WORKERS, lambda name: api.create_subscription(name, topic), names)


def _stretch(server: Server, seconds: float) -> float:
    """The server's processor time over some seconds in which nobody publishes."""
    with Meter(server) as meter:
        time.sleep(seconds)
    return meter.cost.server_cpu_s or 0.0


@contextmanager
def _watching(endpoint: str, subscriptions: list[str]) -> Iterator[list[bytes]]:
    """A page's stream; the samples that came, as bytes."""
    request = overview_pb2.WatchRequest(subscriptions=subscriptions)
    samples: list[bytes] = []
    with grpc.insecure_channel(endpoint) as channel:
        call: Any = channel.unary_stream(
            "/fanlog.v1.Overview/Watch",
            request_serializer=overview_pb2.WatchRequest.SerializeToString,
            response_deserializer=None,
        )(request)
        reader = threading.Thread(target=_read, args=(call, samples), daemon=True)
        reader.start()
        try:
            yield samples
        finally:
            call.cancel()
            reader.join()


def _read(call: Any, samples: list[bytes]) -> None:
    try:
        samples.extend(call)
    except grpc.RpcError:
        # It was cancelled.
        return


def _scrape(url: str) -> int:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return len(answer.read())


class _Taken(BaseHTTPRequestHandler):
    """Takes whatever is sent, and says so."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Taken) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{collector.server_address[1]}"
        finally:
            collector.shutdown()
