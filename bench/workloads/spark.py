"""Workloads of the Spark source and the pipeline."""

from __future__ import annotations

from bench import (
    pipeline,
    spark_source,
)
from bench.workload import Figure, Workload

SPARK = (
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
