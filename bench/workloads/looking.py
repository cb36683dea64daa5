"""Looking at a server: live numbers, metrics, spans."""

from __future__ import annotations

from bench import looking
from bench.workload import Figure, Workload

LOOKING = (
    Workload(
        name="console-live",
        measure=looking.measure_live,
        figures=(
            Figure(
                key="cpu",
                label="live numbers of a page, 10,000 subscriptions: of a core",
                unit="%",
                target=1,
            ),
            Figure(key="idle", label="the same server while nobody looks: of a core", unit="%"),
        ),
        counted="subscriptions",
        count=10_000,
        is_warmed_up=False,
        needs_own_servers=True,
    ),
    Workload(
        name="scrape",
        measure=looking.measure_scrape,
        figures=(
            Figure(
                key="cpu",
                label="a scrape of 10,000 topics and 10,000 subscriptions: CPU",
                unit="ms",
            ),
            Figure(key="time", label="the same: until it is read", unit="ms"),
            Figure(key="size", label="the same: its size", unit="MiB"),
        ),
        counted="topics, and subscriptions",
        count=10_000,
        is_warmed_up=False,
        needs_own_servers=True,
    ),
    Workload(
        name="spans",
        measure=looking.measure_spans,
        figures=(
            Figure(key="off", label="CPU of a single publish: no spans", unit="µs"),
            Figure(key="some", label="the same: spans of one message in a hundred", unit="µs"),
            Figure(key="all", label="the same: spans of all", unit="µs"),
            Figure(key="some-ratio", label="one in a hundred, over none", unit="x"),
            Figure(key="all-ratio", label="all, over none", unit="x"),
        ),
        counted="messages",
        count=20_000,
        # It is the best of some rounds: the first one warms up.
        is_warmed_up=False,
        needs_own_servers=True,
    ),
)
