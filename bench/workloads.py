"""The workloads: what each measures, how much of it, and what Fanlog must reach.

The targets are for a quiet machine with two cores and a disk that syncs in well under a
millisecond; elsewhere the ratio to the emulator, measured in the same run, is what to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bench import (
    cold_reading,
    draining,
    end_to_end,
    fan_out,
    filter_cost,
    filter_index_alone,
    filter_streams,
    filters,
    footprint,
    log_reading,
    patterns,
    pipeline,
    publishing,
    push_handing,
    pushing,
    schemas,
    spark_source,
    staging,
)
from bench.servers import Emulator, Server
from bench.session import Sample

#: `--quick` divides the counts by this, a warm-up by the other.
QUICK_DIVISOR = 40
WARM_UP_DIVISOR = 10

Unit = Literal["/s", "ms", "s", "MiB", "B", "x"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that a workload gives."""

    key: str
    label: str
    unit: Unit
    #: What Fanlog must reach: at least this rate, at most this time, memory or ratio. None for a
    #: figure that is there to be known.
    target: float | None = None

    def is_reached(self, value: float) -> bool:
        assert self.target is not None
        return value >= self.target if self.unit == "/s" else value <= self.target

    def times_better(self, value: float, other: float) -> float:
        """How many times better a value is than another one: above 1 is better."""
        return value / other if self.unit == "/s" else other / value


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row group of the table."""

    name: str
    measure: Callable[[Server, int], Sample]
    figures: tuple[Figure, ...]
    #: What is counted, and how many of it.
    counted: str
    count: int
    #: Fewer for the emulator, where the full count would take minutes.
    emulator_count: int | None = None
    #: Whether a tenth of it is done once before the clock starts.
    is_warmed_up: bool = True
    #: Whether it needs a server that it may stop and start.
    restarts: bool = False
    #: Whether the emulator has nothing to answer it with: it takes filters and ignores them, and it
    #: pushes only wrapped bodies.
    needs_filters: bool = False
    #: Whether it measures a part of this checkout alone; `measure` is then given no started server.
    is_serverless: bool = False

    def count_for(self, server_label: str, *, is_quick: bool) -> int:
        fewer = self.emulator_count if server_label == Emulator.label else None
        count = fewer or self.count
        return max(1, count // QUICK_DIVISOR) if is_quick else count

    def warm_up_count(self, count: int) -> int:
        return max(1, count // WARM_UP_DIVISOR) if self.is_warmed_up else 0


WORKLOADS = (
    Workload(
        name="publish-1k",
        measure=partial(publishing.measure_batches, size_bytes=1024),
        figures=(
            Figure(
                key="rate",
                label="publish 1 KiB x 1,000 a request, 8 in flight, synced",
                unit="/s",
                target=350_000,
            ),
        ),
        counted="messages",
        count=200_000,
    ),
    Workload(
        name="publish-100",
        measure=partial(publishing.measure_batches, size_bytes=100),
        figures=(
            Figure(
                key="rate",
                label="publish 100 B x 1,000 a request, 8 in flight, synced",
                unit="/s",
                target=1_000_000,
            ),
        ),
        counted="messages",
        count=600_000,
    ),
    Workload(
        name="single",
        measure=publishing.measure_single,
        figures=(
            Figure(key="p50", label="single publish, sequential, synced: p50", unit="ms", target=1),
            Figure(key="p99", label="single publish, sequential, synced: p99", unit="ms", target=3),
        ),
        counted="messages",
        count=5_000,
    ),
    Workload(
        name="drain-stream",
        measure=draining.measure_stream,
        figures=(
            Figure(
                key="rate",
                label="drain 1 KiB, StreamingPull, 1 stream, all acked",
                unit="/s",
                target=250_000,
            ),
        ),
        counted="messages",
        count=200_000,
        # About 2,000 a second, whatever the count: it sends a burst every 50 ms.
        emulator_count=10_000,
    ),
    Workload(
        name="drain-pull",
        measure=draining.measure_pull,
        figures=(
            Figure(
                key="rate",
                label="drain 1 KiB, Pull of 1,000, all acked",
                unit="/s",
                target=180_000,
            ),
        ),
        counted="messages",
        count=200_000,
    ),
    Workload(
        name="log-read",
        measure=partial(log_reading.measure_raw, size_bytes=1024),
        figures=(
            Figure(key="rate", label="log read, stored batches of 1 KiB messages", unit="/s"),
            Figure(key="size", label="log read, MiB", unit="/s"),
        ),
        counted="messages",
        count=500_000,
        needs_filters=True,
    ),
    Workload(
        name="log-read-100",
        measure=partial(log_reading.measure_raw, size_bytes=100),
        figures=(
            Figure(
                key="rate",
                label="log read, stored batches of 100 B messages",
                unit="/s",
                target=1_000_000,
            ),
        ),
        counted="messages",
        count=2_000_000,
        needs_filters=True,
    ),
    Workload(
        name="log-read-beside",
        measure=log_reading.measure_beside,
        figures=(
            Figure(key="idle", label="single publish: p99", unit="ms"),
            Figure(key="beside", label="the same beside a reader of the log: p99", unit="ms"),
            Figure(key="ratio", label="how many times longer: p99", unit="x", target=2),
            Figure(key="middle", label="how many times longer: p50", unit="x"),
        ),
        counted="messages",
        count=6_000,
        needs_filters=True,
    ),
    Workload(
        name="cold",
        measure=cold_reading.measure,
        figures=(
            Figure(
                key="first",
                label="archived messages: from a seek to the first of them",
                unit="ms",
                target=300,
            ),
            Figure(
                key="rate", label="archived messages of 1 KiB, streamed", unit="/s", target=40_000
            ),
        ),
        counted="messages",
        count=200_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="stage",
        measure=partial(staging.measure, size_bytes=100),
        figures=(
            Figure(
                key="rate",
                label="publish 100 B through the sink, 2 tasks, staged and committed",
                unit="/s",
                target=100_000,
            ),
        ),
        counted="rows",
        count=800_000,
        needs_filters=True,
    ),
    Workload(
        name="end-to-end",
        measure=end_to_end.measure,
        figures=(
            Figure(
                key="p99",
                label="end to end at 1,000/s, one message a request: p99",
                unit="ms",
                target=5,
            ),
        ),
        counted="messages",
        count=20_000,
    ),
    Workload(
        name="fan-out",
        measure=fan_out.measure,
        figures=(
            Figure(key="create", label="10,000 subscriptions: create", unit="s", target=8),
            Figure(
                key="publish", label="10,000 subscriptions: publish returns", unit="ms", target=3
            ),
            Figure(
                key="fetch",
                label="10,000 subscriptions: pulled and acked on all",
                unit="s",
                target=9,
            ),
        ),
        counted="subscriptions",
        count=10_000,
    ),
    Workload(
        name="push",
        measure=pushing.measure_latency,
        figures=(
            Figure(
                key="p99",
                label="publish to webhook at 1,000/s: p99",
                unit="ms",
                target=50,
            ),
        ),
        needs_filters=True,
        counted="messages",
        count=20_000,
    ),
    Workload(
        name="push-fan-out",
        measure=pushing.measure_fan_out,
        figures=(
            Figure(
                key="out",
                label="10,000 push subscriptions: one message at all webhooks",
                unit="s",
                target=5,
            ),
        ),
        needs_filters=True,
        counted="subscriptions",
        count=10_000,
    ),
    Workload(
        name="push-handing",
        measure=push_handing.measure,
        figures=(
            Figure(
                key="handed",
                label="10,000 push subscriptions: one message leased and handed over",
                unit="s",
                target=1,
            ),
        ),
        is_serverless=True,
        is_warmed_up=False,
        counted="subscriptions",
        count=10_000,
    ),
    Workload(
        name="memory",
        measure=footprint.measure_memory,
        figures=(
            Figure(key="idle", label="anonymous memory: idle", unit="MiB", target=110),
            Figure(
                key="full",
                label="anonymous memory: 1,000,000 x 1 KiB unacked",
                unit="MiB",
                target=250,
            ),
        ),
        counted="messages",
        count=1_000_000,
        is_warmed_up=False,
    ),
    Workload(
        name="start",
        measure=footprint.measure_start,
        figures=(
            Figure(key="empty", label="start to first RPC: empty", unit="s", target=1.2),
            Figure(
                key="full",
                label="start to first RPC: 1,000,000 messages in the log",
                unit="s",
                target=2,
            ),
        ),
        counted="messages",
        count=1_000_000,
        is_warmed_up=False,
        restarts=True,
    ),
    Workload(
        name="patterns",
        measure=patterns.measure,
        figures=(
            Figure(
                key="uncached",
                label="1,000,000 patterns: topics matched, not cached",
                unit="/s",
                target=50_000,
            ),
            Figure(
                key="p99",
                label="1,000,000 patterns: a match, not cached: p99",
                unit="ms",
                target=0.02,
            ),
            Figure(
                key="cached",
                label="1,000,000 patterns: topics matched, cached",
                unit="/s",
                target=2_000_000,
            ),
            Figure(key="bytes", label="1,000,000 patterns: memory for each", unit="B", target=400),
            Figure(
                key="globs",
                label="100,000 globs in one place: topics matched, not cached",
                unit="/s",
                target=10_000,
            ),
            Figure(
                key="existing", label="one pattern tried on 10,000 topics", unit="ms", target=20
            ),
        ),
        counted="patterns",
        count=1_000_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="schemas",
        measure=schemas.measure,
        figures=(
            Figure(
                key="json",
                label="JSON Schema: messages of 300 B checked",
                unit="/s",
                target=100_000,
            ),
            Figure(key="avro_json", label="Avro as JSON: messages checked", unit="/s"),
            Figure(key="avro_binary", label="Avro, binary: messages checked", unit="/s"),
            Figure(key="proto_json", label="Protobuf as JSON: messages checked", unit="/s"),
            Figure(key="proto_binary", label="Protobuf, binary: messages checked", unit="/s"),
        ),
        counted="messages",
        count=200_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="filters",
        measure=filters.measure,
        figures=(
            Figure(
                key="rate",
                label="1,000 filters: published, pulled and acked on all",
                unit="/s",
                target=20_000,
            ),
            Figure(key="publish", label="1,000 filters: publish 100 B x 100 a request", unit="/s"),
            Figure(key="create", label="1,000 filters: create the subscriptions", unit="s"),
        ),
        counted="messages",
        count=100_000,
        needs_filters=True,
    ),
    Workload(
        name="filter-streams",
        measure=filter_streams.measure,
        figures=(
            Figure(
                key="rate",
                label="1,000 filters, a stream each: published and received on all",
                unit="/s",
            ),
        ),
        counted="messages",
        count=100_000,
        needs_filters=True,
    ),
    Workload(
        name="filter-cost",
        measure=filter_cost.measure,
        figures=(
            Figure(
                key="ratio",
                label="unfiltered topic, 1,000 filters on another: CPU, with : without",
                unit="x",
                target=1.03,
            ),
        ),
        counted="messages",
        count=1_200_000,
        needs_filters=True,
    ),
    Workload(
        name="filter-index",
        measure=filter_index_alone.measure,
        figures=(
            Figure(
                key="rate",
                label="index alone, 10,000 filters: messages matched",
                unit="/s",
                target=150_000,
            ),
            Figure(
                key="slowdown",
                label="index alone, 100,000 filters: times slower",
                unit="x",
                target=2,
            ),
        ),
        counted="filters",
        count=100_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="spark-read",
        measure=spark_source.measure_read,
        figures=(
            Figure(
                key="plain",
                label="Spark reads the hot log, 100 B, no attributes",
                unit="/s",
                target=1_000_000,
            ),
            Figure(
                key="attributes",
                label="the same with 4 attributes",
                unit="/s",
                target=350_000,
            ),
        ),
        counted="messages",
        count=2_000_000,
        is_warmed_up=False,
        needs_filters=True,
    ),
    Workload(
        name="spark-lake",
        measure=spark_source.measure_lake,
        figures=(
            Figure(key="rate", label="Spark reads the lake, 100 B", unit="/s"),
            Figure(
                key="slower",
                label="how many times slower than spark.read.parquet",
                unit="x",
                target=1.25,
            ),
        ),
        counted="messages",
        count=10_000_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="spark-sink",
        measure=spark_source.measure_sink,
        figures=(Figure(key="rate", label="Spark publishes, 100 B", unit="/s", target=100_000),),
        counted="rows",
        count=1_000_000,
        is_warmed_up=False,
        needs_filters=True,
    ),
    Workload(
        name="pipeline-archive",
        measure=pipeline.measure_archive,
        figures=(
            Figure(key="rate", label="archive, 1 KiB", unit="/s", target=120_000),
            Figure(
                key="slower",
                label="how many times slower than a copy of the Parquet by Spark",
                unit="x",
                target=2,
            ),
        ),
        counted="messages",
        count=1_200_000,
        is_warmed_up=False,
        needs_filters=True,
    ),
    Workload(
        name="pipeline-backtest",
        measure=pipeline.measure_backtest,
        figures=(
            Figure(key="rate", label="backtest of a filter", unit="/s"),
            Figure(
                key="slower",
                label="how many times slower than the predicate by hand",
                unit="x",
                target=1.43,
            ),
        ),
        counted="messages",
        count=10_000_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="pipeline-fan-out",
        measure=pipeline.measure_fan_out,
        figures=(
            Figure(key="single", label="10,000 filters of one predicate", unit="s", target=6),
            Figure(key="conjunctions", label="10,000 conjunctions", unit="s", target=15),
        ),
        counted="messages",
        count=1_000_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="pipeline-ready",
        measure=pipeline.measure_ready,
        figures=(Figure(key="seconds", label="pipeline ready", unit="s", target=15),),
        counted="starts",
        count=1,
        is_warmed_up=False,
        is_serverless=True,
    ),
)


def matching(prefixes: list[str] | None) -> tuple[Workload, ...]:
    """The workloads whose names start with one of these: `publish` names both of its kind.

    Raises:
        KeyError: A prefix that fits none; it is the error's argument.
    """
    if not prefixes:
        return WORKLOADS
    for prefix in prefixes:
        if not any(workload.name.startswith(prefix) for workload in WORKLOADS):
            raise KeyError(prefix)
    return tuple(each for each in WORKLOADS if each.name.startswith(tuple(prefixes)))
