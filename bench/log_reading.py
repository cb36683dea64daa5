"""The log read in bulk: how fast it comes, and what those who publish meanwhile notice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.api import publish_request
from bench.bulk_api import BulkApi
from bench.meter import MIB, Meter, percentile
from bench.servers import Server
from bench.session import Sample, Session
from fanlog.log import batch as codec
from fanlog.v1 import log_pb2

SIZE_BYTES = 1024
#: What the discarding reader reads again and again.
BACKLOG_MESSAGES = 100_000
ROUNDS = 6


def measure_raw(server: Server, count: int, *, size_bytes: int) -> Sample:
    """All messages of a topic as stored batches, by one call of one process."""
    with Session(server) as session, BulkApi(server.endpoint) as bulk:
        topic = session.topic()
        session.subscription(topic)
        published = session.fill(topic, count, size_bytes)
        request = bulk.read_request(topic)
        with Meter(server) as meter:
            answers = list(bulk.read(request))
        size = sum(map(len, answers))
        read = sum(
            codec.decode(value).count
            for answer in answers
            for value in log_pb2.ReadResponse.FromString(answer).batches
        )
        lost = len(published) - read
        return Sample(
            figures={
                "rate": read / meter.cost.seconds,
                "size": size / MIB / meter.cost.seconds,
            },
            messages=read,
            cost=meter.cost,
            problems=(f"{lost:,} messages were not read",) if lost else (),
        )


def measure_beside(server: Server, count: int) -> Sample:
    """Single publishes with a reader beside them that throws away what it gets, and without."""
    with Session(server) as session:
        topic, backlog = session.topic(), session.topic()
        session.subscription(topic)
        session.subscription(backlog)
        session.fill(backlog, min(BACKLOG_MESSAGES, count * 20), SIZE_BYTES)
        request = publish_request(topic, count=1, size_bytes=SIZE_BYTES)
        idle_ms: list[float] = []
        beside_ms: list[float] = []
        rates: list[float] = []
        with Meter(server) as meter:
            for _ in range(ROUNDS):
                idle_ms += _timed(session, request, count // ROUNDS)
                with _reader(server.endpoint, backlog, rates):
                    beside_ms += _timed(session, request, count // ROUNDS)
        idle, beside = percentile(idle_ms, 99), percentile(beside_ms, 99)
        return Sample(
            figures={
                "idle": idle,
                "beside": beside,
                "ratio": beside / idle,
                "middle": percentile(beside_ms, 50) / percentile(idle_ms, 50),
            },
            messages=len(idle_ms) + len(beside_ms),
            cost=meter.cost,
            # A reader that the machine kept from reading proves nothing.
            notes=(f"the reader got {sum(rates) / len(rates) / MIB:.0f} MiB a second",),
        )


def _timed(session: Session, request: bytes, count: int) -> list[float]:
    taken_ms: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        session.api.publish(request)
        taken_ms.append((time.perf_counter() - began) * 1e3)
    return taken_ms


@contextmanager
def _reader(endpoint: str, topic: str, rates: list[float]) -> Iterator[None]:
    """Read beside what is done in the block; how many bytes a second that were is added."""
    core = str((os.cpu_count() or 1) - 1)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.log_reader", endpoint, topic, core],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=60)
    rates.append(float(said))
