"""All metrics of a server, read when somebody looks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Protocol

from fanlog.broker.broker import Broker
from fanlog.log.api import Log
from fanlog.model.resources import SubscriptionId, TopicId
from fanlog.push.service import PushService
from fanlog.server.access_control import AccessControl
from fanlog.server.metric_families import column, sample
from fanlog.server.metrics.broker_numbers import broker_numbers
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.kept import Kept
from fanlog.server.metrics.loop_watch import LoopWatch
from fanlog.server.metrics.pace import Pace
from fanlog.server.metrics.process_numbers import process_numbers
from fanlog.server.metrics.push_numbers import push_numbers
from fanlog.server.metrics.server_numbers import access_numbers, export_numbers, transport_numbers
from fanlog.server.metrics.subscription_numbers import SubscriptionNumbers
from fanlog.server.metrics.topic_numbers import TopicNumbers
from fanlog.server.otlp.spans_export import SpansExport
from fanlog.transport.counts import TransportCounts

log = logging.getLogger("fanlog.metrics")


class MetricsSource(Protocol):
    """Has metrics."""

    def read(self) -> AsyncIterator[Reading]:
        """Every metric, one after the other."""


class MetricsReader:
    """Reads the metrics of one server: those of what it serves, and its own."""

    def __init__(
        self,
        served: Callable[[], Iterable[MetricsSource]],
        counts: TransportCounts,
        watch: LoopWatch,
        *,
        exports: Mapping[str, Mapping[str, int]],
        spans: SpansExport | None = None,
    ) -> None:
        """`served` gives what is served just now.

        `exports` has the requests of each export, by their outcome.
        """
        self._served = served
        self._counts = counts
        self._watch = watch
        self._exports = dict(exports)
        if spans is not None:
            self._exports["traces"] = spans.outcomes
        self._spans = spans

    async def read(self) -> AsyncIterator[Reading]:
        """Every metric, one after the other; those of many resources as of some moments."""
        for source in self._served():
            async for reading in source.read():
                yield reading
        for reading in (*transport_numbers(self._counts), *process_numbers(self._watch)):
            yield reading
        yield export_numbers(self._exports)
        yield sample("fanlog_spans_dropped", 0 if self._spans is None else self._spans.dropped)


class ShardMetrics:
    """Reads the metrics of one shard. Lives on the loop, and shares it."""

    def __init__(
        self,
        broker: Broker,
        store: Log,
        push: PushService,
        access: AccessControl | None,
        *,
        resources_max: int,
    ) -> None:
        """`resources_max`: topics, and subscriptions, that have metrics of their own."""
        self._broker = broker
        self._store = store
        self._push = push
        self._access = access
        self._resources_max = resources_max
        self._kept_topics: Kept[TopicId] = Kept(resources_max)
        self._kept_subscriptions: Kept[SubscriptionId] = Kept(resources_max)
        self._topics = TopicNumbers(broker, self._kept_topics)
        self._subscriptions = SubscriptionNumbers(broker, self._kept_subscriptions)
        #: The kinds of which some are left out, as it was logged.
        self._told: set[str] = set()

    async def read(self) -> AsyncIterator[Reading]:
        """Every metric, one after the other; those of many resources as of some moments."""
        pace = Pace()
        for reading in broker_numbers(self._broker, self._store):
            yield reading
        async for reading in self._topics.read(pace):
            yield reading
        async for reading in self._subscriptions.read(pace):
            yield reading
        async for reading in push_numbers(self._push, self._subscriptions.has, pace):
            yield reading
        for reading in access_numbers(self._access):
            yield reading
        cuts = {"topic": self._kept_topics.cut, "subscription": self._kept_subscriptions.cut}
        self._tell(cuts)
        yield column("fanlog_metrics_cut", cuts)

    def _tell(self, cuts: Mapping[str, int]) -> None:
        for kind, cut in cuts.items():
            if cut and kind not in self._told:
                self._told.add(kind)
                log.warning(
                    "action=metrics_cut kind=%s left_out=%d kept=%d; the most active have metrics "
                    "of their own, the others do not (metrics_resources_max)",
                    *(kind, cut, self._resources_max),
                )
            elif not cut and kind in self._told:
                self._told.discard(kind)
                log.info("action=metrics_whole kind=%s; all have metrics of their own", kind)
