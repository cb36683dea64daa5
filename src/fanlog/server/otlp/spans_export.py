"""The export of spans: they wait a moment, and are sent together."""

from __future__ import annotations

import asyncio
import logging

from fanlog.model.spans import TraceSpan
from fanlog.server.otlp.collector import TIMEOUT_S, Collector
from fanlog.wire import otlp
from fanlog.wire.spans import span_field

log = logging.getLogger("fanlog.otlp")

#: Spans that wait to be sent, some 500 bytes each, those of one request, and how long they wait.
WAITING_MAX = 8_192
SENT_MAX = 512
WAIT_S = 2.0


class SpansExport:
    """Of one server. Lives on its loop; `stop` before it ends."""

    def __init__(self, collector: Collector, head: tuple[bytes, bytes]) -> None:
        self._collector = collector
        self._resource, self._scope = head
        self._waiting: list[TraceSpan] = []
        self._task: asyncio.Task[None] | None = None
        #: Requests by outcome.
        self.outcomes = collector.outcomes
        #: Spans that there was no room for: the collector is slower than the broker.
        self.dropped = 0

    def take(self, span: TraceSpan) -> None:
        """A span is over."""
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(span)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Send the spans that there are, and no more."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        try:
            await asyncio.wait_for(self._send_all(), TIMEOUT_S)
        except TimeoutError:
            log.warning("action=otlp_left signal=traces; the last spans were not sent in time")

    async def _run(self) -> None:
        try:
            await asyncio.sleep(WAIT_S)
            await self._send_all()
        except Exception:
            # The outermost loop of the task: a mistake of ours must not end the export.
            log.exception("action=otlp_broken signal=traces; these spans are lost")
        finally:
            self._task = None

    async def _send_all(self) -> None:
        while self._waiting:
            some = self._waiting[:SENT_MAX]
            del self._waiting[:SENT_MAX]
            body = otlp.request(self._resource, self._scope, map(span_field, some))
            await self._collector.send(body)
