"""A broker inside a program: messages published, called back and acknowledged, in memory.

`python -m bench.in_process 400000` prints what `make bench` reads.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import fanlog
from bench import child
from bench.servers import Server
from bench.session import STEP_S, Sample, Stalled

BATCH = 100
#: One by one, so many times fewer.
SINGLE_DIVISOR = 10
PAYLOAD = {"item": "two chairs", "amount": 12, "region": "eu", "customer": "anna"}


def measure(_server: Server, count: int) -> Sample:
    return child.measured("bench.in_process", count)


def sample(count: int) -> Sample:
    single = max(BATCH, count // SINGLE_DIVISOR)
    figures: dict[str, float | None] = {}
    cpu_us: dict[str, float] = {}
    for key, wanted, publish in (
        ("batches", count // BATCH * BATCH, _publish_batches),
        ("single", single, _publish_single),
    ):
        _rate(publish, max(BATCH, wanted // 10 // BATCH * BATCH))
        figures[key], cpu_us[key] = _rate(publish, wanted)
    figures["single_cpu"] = cpu_us["single"]
    figures["batches_cpu"] = cpu_us["batches"]
    return Sample(figures=figures)


def _publish_batches(broker: fanlog.Broker, count: int) -> None:
    batch = [PAYLOAD] * BATCH
    for _ in range(count // BATCH):
        broker.publish_many("orders.eu", batch)


def _publish_single(broker: fanlog.Broker, count: int) -> None:
    for _ in range(count):
        broker.publish("orders.eu", PAYLOAD)


def _rate(publish: Callable[[fanlog.Broker, int], None], count: int) -> tuple[float, float]:
    """Messages a second, each called back and acknowledged; and the processor's µs for each."""
    seen, done = 0, threading.Event()

    def note(_: fanlog.Message) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            done.set()

    with fanlog.Broker() as broker:
        # One thread: the count must be right, and more would not be faster.
        broker.subscribe("orders.#", note, concurrency=1)
        began, cpu_s = time.perf_counter(), time.process_time()
        publish(broker, count)
        if not done.wait(STEP_S) or not broker.join(STEP_S):
            raise Stalled(f"{seen:,} of {count:,}")
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        assert broker.metrics().acked == count
    return count / took_s, cpu_s / count * 1e6


if __name__ == "__main__":
    child.report(sample(int(sys.argv[1])))
