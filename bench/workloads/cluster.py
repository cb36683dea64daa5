"""Workloads of the log on Kafka, which runs beside it: with one node, and with three."""

from __future__ import annotations

from functools import partial

from bench import cluster, fail_over, following
from bench.workload import Figure, Workload

_COUNTED = {1: "one node", 3: "three nodes"}
#: What publishing must reach is said for one node.
_SINGLE_RATIO = 2.0

SINGLES = tuple(
    Workload(
        name=f"cluster-single-{nodes}",
        measure=partial(cluster.measure_singles, nodes=nodes),
        figures=(
            Figure(key="embedded", label="single publish, embedded engine: p50", unit="ms"),
            Figure(key="p50", label=f"the same on Kafka, {counted}: p50", unit="ms"),
            Figure(key="p99", label=f"the same on Kafka, {counted}: p99", unit="ms"),
            Figure(
                key="ratio",
                label="p50 on Kafka over embedded",
                unit="x",
                target=_SINGLE_RATIO if nodes == 1 else None,
            ),
        ),
        counted="messages",
        count=5_000,
        is_warmed_up=False,
        is_serverless=True,
    )
    for nodes, counted in _COUNTED.items()
)

BATCHES = tuple(
    Workload(
        name=f"cluster-batches-{nodes}",
        measure=partial(cluster.measure_batched, nodes=nodes),
        figures=(
            Figure(key="embedded", label="1 KiB x 1,000, 8 in flight, embedded engine", unit="/s"),
            Figure(key="rate", label=f"the same on Kafka, {counted}", unit="/s"),
            Figure(
                key="bare",
                label=f"bare producer, 1 MiB records, Kafka {counted}, one in flight",
                unit="/s",
            ),
            Figure(key="ahead", label="the same with 8 in flight", unit="/s"),
            Figure(
                key="must",
                label="100 MB/s, or 0.7 of the faster bare producer, over what Fanlog reached",
                unit="x",
                target=1 if nodes == 1 else None,
            ),
        ),
        counted="messages",
        count=500_000,
        is_warmed_up=False,
        is_serverless=True,
    )
    for nodes, counted in _COUNTED.items()
)

FAIL_OVERS = tuple(
    Workload(
        name=f"cluster-fail-over-{name}",
        measure=partial(fail_over.measure, session_s=session_s, subscriptions=10_000),
        figures=(
            Figure(
                key="told",
                label=f"SIGTERM of the owner, session {session_s:g} s: longest wait of a publisher",
                unit="s",
                target=1,
            ),
            Figure(
                key="killed",
                label=f"kill -9 of the owner, session {session_s:g} s: longest wait of a publisher",
                unit="s",
                target=killed_s,
            ),
        ),
        counted="messages in the log",
        count=1_000_000,
        is_warmed_up=False,
        is_serverless=True,
    )
    for name, session_s, killed_s in (("3s", 3.0, 6.0), ("1.5s", 1.5, 3.5))
)

CLUSTER = (
    *SINGLES,
    *BATCHES,
    Workload(
        name="cluster-following",
        measure=following.measure_following,
        figures=(
            Figure(
                key="rate", label="owner at full load with a standby, Kafka one node", unit="/s"
            ),
            Figure(key="lag", label="standby's lag meanwhile, the longest", unit="s", target=1),
            Figure(key="lag-p50", label="standby's lag meanwhile: p50", unit="s"),
            Figure(key="alone", label="owner at full load while the standby is paused", unit="/s"),
            Figure(key="catching-up", label="the standby catches up on these", unit="/s"),
            Figure(key="times", label="the owner's rate over that", unit="x", target=0.5),
        ),
        counted="messages",
        count=300_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    Workload(
        name="cluster-new-node",
        measure=following.measure_new_node,
        figures=(
            Figure(key="started", label="new node, empty cache, 1 GB in the log: ready", unit="s"),
            Figure(
                key="whole",
                label="new node, empty cache, 1 GB in the log: may take over",
                unit="s",
                target=following.WHOLE_S,
            ),
        ),
        counted="messages in the log",
        count=1_000_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
    *FAIL_OVERS,
)
