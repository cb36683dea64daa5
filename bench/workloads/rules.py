"""Workloads of what messages are judged by: patterns, schemas and filters."""

from __future__ import annotations

from bench import (
    filter_cost,
    filter_index_alone,
    filter_streams,
    filters,
    patterns,
    schemas,
)
from bench.workload import Figure, Workload

RULES = (
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
)
