"""The export of metrics: they are read and sent every so often, as a scrape would."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from fanlog.broker.histogram import Histogram
from fanlog.server.metrics.family import Family, Labels, Reading, Value
from fanlog.server.metrics.pace import Pace
from fanlog.server.metrics.reader import MetricsReader
from fanlog.server.otlp.collector import TIMEOUT_S, Collector
from fanlog.wire import otlp

log = logging.getLogger("fanlog.otlp")

#: Samples of one request: about a megabyte, and some 10 ms of work. Collectors take 20 MB.
POINTS_MAX = 5_000
#: Samples that are written before others may have the loop.
_ROWS: Final = 200
#: Units as OTLP writes them.
_UNITS: Final = {"seconds": "s", "bytes": "By", "messages": "{message}"}

#: Name and version of the library that tells, in its frame, and the resource.
Head = tuple[bytes, bytes]


class MetricsExport:
    """Of one server. `start` on its loop, `stop` before it ends."""

    def __init__(
        self, numbers: MetricsReader, collector: Collector, head: Head, interval_s: float
    ) -> None:
        self._numbers = numbers
        self._collector = collector
        self._resource, self._scope = head
        self._interval_s = interval_s
        self._started_ns = time.time_ns()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Send the last numbers there are, and no more."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        try:
            await asyncio.wait_for(self.send(), TIMEOUT_S)
        except TimeoutError:
            log.warning("action=otlp_left signal=metrics; the last numbers were not sent in time")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.send()
            except Exception:
                # The outermost loop of the task: a mistake of ours must not end it.
                log.exception("action=otlp_broken signal=metrics; tried again next time")

    async def send(self) -> None:
        """Read all metrics and send them, some thousand samples a request."""
        async for body in self.requests():
            await self._collector.send(body)

    async def requests(self) -> AsyncIterator[bytes]:
        """The requests that tell all metrics as they are now."""
        pace = Pace()
        waiting: list[bytes] = []
        points = 0
        async for reading in self._numbers.read():
            when = otlp.times(self._started_ns, time.time_ns())
            for piece, count in _pieces(reading, when):
                waiting.append(piece)
                points += count
                if points >= POINTS_MAX:
                    yield otlp.request(self._resource, self._scope, waiting)
                    waiting, points = [], 0
                await pace.rest()
        if waiting:
            yield otlp.request(self._resource, self._scope, waiting)


def _pieces(reading: Reading, when: bytes) -> Iterator[tuple[bytes, int]]:
    """A metric, or parts of it that stand for themselves, and their samples."""
    for first in range(0, len(reading.labels), _ROWS):
        labels = reading.labels[first : first + _ROWS]
        values = reading.values[first : first + _ROWS]
        points = b"".join(_points(reading.family, zip(labels, values, strict=True), when))
        family = reading.family
        unit = _UNITS.get(family.unit, "")
        yield otlp.metric(family.name, family.text, unit, family.kind, points), len(labels)


def _points(family: Family, rows: Iterable[tuple[Labels, Value]], when: bytes) -> Iterator[bytes]:
    for labels, value in rows:
        if isinstance(value, Histogram):
            yield otlp.histogram_point(
                *(family.labels, labels, value.bounds, value.counts, value.total, when)
            )
        else:
            yield otlp.number_point(family.labels, labels, value, when)
