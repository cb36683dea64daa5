"""Workloads of the log on Kafka; Kafka runs beside it, with one node and with three."""

from __future__ import annotations

from functools import partial

from bench import cluster
from bench.workload import Figure, Workload

CLUSTER = tuple(
    Workload(
        name=f"kafka-bare-{nodes}",
        measure=partial(cluster.measure_bare, nodes=nodes),
        figures=(
            Figure(
                key="one",
                label=f"bare producer, 1 MiB records, Kafka {counted}, one in flight",
                unit="/s",
            ),
            Figure(key="ahead", label="the same with 8 in flight", unit="/s"),
        ),
        counted="records",
        count=300,
        is_warmed_up=False,
        is_serverless=True,
    )
    for nodes, counted in ((1, "one node"), (3, "three nodes"))
)
