"""Push: from the publish to the request at the webhook, for one subscription and for very many."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.api import PublishRequest, PubsubMessage
from bench.end_to_end import publish_elsewhere
from bench.meter import Meter, percentile
from bench.servers import Server
from bench.session import Patience, Sample, Session

WORKERS = 8
SIZE_BYTES = 100
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class _Receiver:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def came(self) -> list[tuple[int, int]]:
        """When requests were published and when they came, of those since the last call."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/")
        found: list[tuple[int, int]] = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def wait(self, count: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        patience = Patience(count)
        while len(found) < count:
            patience.check(len(found))
            time.sleep(0.05)
            found += self.came()
        return found


@contextmanager
def _receiving() -> Iterator[_Receiver]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.push_receiver"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield _Receiver(int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(10)


def measure_latency(server: Server, count: int) -> Sample:
    """`count` messages at a steady 1,000 a second to one webhook."""
    with _receiving() as receiver, Session(server) as session:
        topic = session.topic()
        session.subscription(topic, push=receiver.url)
        with Meter(server) as meter:
            outcome = publish_elsewhere(server.endpoint, topic, count)
            came = receiver.wait(len(outcome.answers))
        latencies_ms = [(arrived - sent) / 1e6 for sent, arrived in came]
        twice = len(came) - len({sent for sent, _ in came})
        late = f"{outcome.late:,} of {count:,} requests left late"
        return Sample(
            figures={"p99": percentile(latencies_ms, 99)},
            messages=count,
            cost=meter.cost,
            problems=(f"{outcome.failed:,} publishes failed",) if outcome.failed else (),
            notes=(*((late,) if outcome.late > count // 100 else ()), f"{twice:,} came twice"),
        )


def measure_fan_out(server: Server, count: int) -> Sample:
    """One message to `count` push subscriptions: when the last request is there."""
    with _receiving() as receiver, Session(server) as session:
        topic = session.topic()
        session.api.in_parallel(
            WORKERS, lambda name: session.subscription(name, push=receiver.url), [topic] * count
        )
        seconds: list[float] = []
        with Meter(server) as meter:
            for _ in range(ROUNDS):
                sent = time.monotonic_ns()
                data = sent.to_bytes(8, "big") + bytes(SIZE_BYTES - 8)
                message = PubsubMessage(data=data)
                session.api.publish(
                    PublishRequest(topic=topic, messages=[message]).SerializeToString()
                )
                came = receiver.wait(count)
                seconds.append((max(arrived for _, arrived in came) - sent) / 1e9)
                time.sleep(1)
        return Sample(
            figures={"out": min(seconds)},
            messages=count * ROUNDS,
            cost=meter.cost,
        )
