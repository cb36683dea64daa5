"""The numbers of a server: they are read for whoever asks, and sent to a collector where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fanlog.config import Config
from fanlog.server.metrics.loop_watch import LoopWatch
from fanlog.server.metrics.reader import MetricsReader, MetricsSource
from fanlog.server.otlp.exports import head, new_collector
from fanlog.server.otlp.metrics_export import MetricsExport
from fanlog.server.otlp.spans_export import SpansExport
from fanlog.transport.counts import TransportCounts


def new_spans(config: Config, server_id: str) -> SpansExport | None:
    """Where spans go, if there are any. Its owner stops it, behind all that tells it of some.

    Raises:
        ConfigError: The certificates of the collector cannot be read.
    """
    if config.span_ratio is None:
        return None
    collector = new_collector(config, "traces", config.traces_url)
    assert collector is not None, "the configuration says where spans are sent"
    return SpansExport(collector, head(config, server_id))


class Numbers:
    """Lives as long as the process. `start()` it on its loop, and `await stop()` it."""

    def __init__(
        self,
        config: Config,
        served: Callable[[], Iterable[MetricsSource]],
        counts: TransportCounts,
        server_id: str,
        spans: SpansExport | None,
    ) -> None:
        """`served` gives the metrics of what is served just now.

        Raises:
            ConfigError: The certificates of the collector cannot be read.
        """
        self._watch = LoopWatch()
        collector = new_collector(config, "metrics", config.metrics_url)
        exports = {} if collector is None else {"metrics": collector.outcomes}
        self.reader = MetricsReader(served, counts, self._watch, exports=exports, spans=spans)
        self._export: MetricsExport | None = None
        if collector is not None:
            resource = head(config, server_id)
            self._export = MetricsExport(self.reader, collector, resource, config.otlp_interval_s)

    def start(self) -> None:
        self._watch.start()
        if self._export is not None:
            self._export.start()

    async def stop(self) -> None:
        """Send the last numbers there are, and no more."""
        self._watch.stop()
        if self._export is not None:
            await self._export.stop()
