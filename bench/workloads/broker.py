"""Workloads of the broker as a whole: in, out, log, lake, push, memory and start."""

from __future__ import annotations

from functools import partial

from bench import (
    authenticated,
    closed_loop,
    cold_reading,
    delayed,
    draining,
    end_to_end,
    exactly_once,
    fan_out,
    fan_out_lean,
    footprint,
    idle_connections,
    in_process,
    log_reading,
    official_clients,
    ordinary,
    paced,
    pressed,
    publishing,
    push_handing,
    pushing,
    staging,
    tls,
)
from bench.before import Before
from bench.servers import Emulator
from bench.workload import Against, Figure, Workload

#: "No slower": two runs of the same server differ by as much as is missing to 1.
NO_SLOWER = Against(Before.label, 0.95)
#: "Who does not use it does not pay": the processor time of medians of five.
NO_DEARER = Against(Before.label, 1.03)

BROKER = (
    Workload(
        name="publish-1k",
        measure=partial(publishing.measure_batches, size_bytes=1024),
        figures=(
            Figure(
                key="rate",
                label="publish 1 KiB x 1,000 a request, 8 in flight, synced",
                unit="/s",
                target=350_000,
                against=(Against(Emulator.label, 1.6), NO_SLOWER),
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
                against=(NO_SLOWER,),
            ),
        ),
        counted="messages",
        count=600_000,
    ),
    Workload(
        name="single",
        measure=publishing.measure_single,
        figures=(
            Figure(
                key="p50",
                label="single publish, sequential, synced: p50",
                unit="ms",
                target=1,
                against=(Against(Before.label, 0.7),),
            ),
            Figure(key="p99", label="single publish, sequential, synced: p99", unit="ms", target=3),
        ),
        counted="messages",
        count=5_000,
    ),
    Workload(
        name="single-64",
        measure=partial(closed_loop.measure, publish=closed_loop.publish_official),
        figures=(
            Figure(
                key="rate",
                label="single publish, 64 in flight, synced",
                unit="/s",
                against=(Against(Emulator.label, 1.3),),
            ),
            Figure(key="p50", label="single publish, 64 in flight, synced: p50", unit="ms"),
            Figure(key="p99", label="single publish, 64 in flight, synced: p99", unit="ms"),
            Figure(
                key="cpu",
                label="single publish, 64 in flight: server's CPU a request",
                unit="µs",
                target=90,
            ),
        ),
        counted="messages",
        count=40_000,
        # The emulator's Java takes about 10,000 requests to compile what they need.
        warm_up_divisor=2,
    ),
    Workload(
        name="single-64-lean",
        measure=partial(closed_loop.measure, publish=closed_loop.publish_lean),
        figures=(
            Figure(key="rate", label="the same with a lean client", unit="/s"),
            Figure(key="p50", label="the same with a lean client: p50", unit="ms"),
            Figure(key="p99", label="the same with a lean client: p99", unit="ms"),
            Figure(
                key="cpu",
                label="the same with a lean client: server's CPU a request",
                unit="µs",
                target=90,
            ),
        ),
        counted="messages",
        count=40_000,
        warm_up_divisor=2,
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
                against=(NO_SLOWER,),
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
                against=(NO_SLOWER,),
            ),
        ),
        counted="messages",
        count=200_000,
    ),
    Workload(
        name="ordinary",
        measure=ordinary.measure_batches,
        figures=(
            Figure(
                key="publish",
                label="messages that ask for nothing: server's CPU to publish 1,000,000",
                unit="s",
                against=(NO_DEARER,),
            ),
            Figure(
                key="drain",
                label="the same: server's CPU to deliver 1,000,000",
                unit="s",
                against=(NO_DEARER,),
            ),
            Figure(
                key="stream",
                label="the same on a stream: server's CPU to deliver 1,000,000",
                unit="s",
                against=(NO_DEARER,),
            ),
        ),
        counted="messages",
        count=3_000_000,
    ),
    Workload(
        name="ordinary-single",
        measure=ordinary.measure_single,
        figures=(
            Figure(
                key="publish",
                label="one a request, lean client: server's CPU to publish it",
                unit="µs",
                against=(NO_DEARER,),
            ),
            Figure(
                key="fetch",
                label="the same: server's CPU to pull and acknowledge it",
                unit="µs",
                against=(NO_DEARER,),
            ),
        ),
        counted="messages",
        count=80_000,
    ),
    Workload(
        name="exactly-once",
        measure=exactly_once.measure,
        figures=(
            Figure(key="batch", label="exactly-once, Pull of 1,000: times longer", unit="x"),
            Figure(key="single", label="exactly-once, Pull of 1: times longer", unit="x"),
        ),
        counted="messages",
        count=160_000,
        # Fanlog against itself: the emulator has no part in it.
        needs_filters=True,
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
                key="p50",
                label="end to end at 1,000/s, one message a request: p50",
                unit="ms",
                against=(Against(Before.label, 0.5),),
            ),
            Figure(
                key="p99",
                label="end to end at 1,000/s, one message a request: p99",
                unit="ms",
                target=5,
                against=(Against(Before.label, 0.4),),
            ),
            Figure(
                key="cpu",
                label="end to end at 1,000/s: server's CPU a message",
                unit="ms",
                target=0.45,
            ),
        ),
        counted="messages",
        count=20_000,
    ),
    Workload(
        name="end-to-end-2000",
        measure=partial(paced.measure, rate_per_s=2_000),
        figures=(
            Figure(
                key="held",
                # Less is a generator that was late, or a backlog that grew.
                label="end to end at 2,000/s: delivered",
                unit="/s",
                target=1_960,
            ),
            Figure(key="p50", label="end to end at 2,000/s: p50", unit="ms"),
            Figure(key="p99", label="end to end at 2,000/s: p99", unit="ms", target=40),
            Figure(key="cpu", label="end to end at 2,000/s: server's CPU a message", unit="ms"),
        ),
        counted="messages",
        count=40_000,
    ),
    Workload(
        name="fan-out",
        measure=fan_out.measure,
        figures=(
            Figure(key="create", label="10,000 subscriptions: create", unit="s", target=3),
            Figure(
                key="publish", label="10,000 subscriptions: publish returns", unit="ms", target=3
            ),
            Figure(
                key="fetch",
                label="10,000 subscriptions: pulled and acked on all",
                unit="s",
                target=4.5,
            ),
        ),
        counted="subscriptions",
        count=10_000,
    ),
    Workload(
        name="fan-out-lean",
        measure=fan_out_lean.measure,
        figures=(
            Figure(
                key="create",
                label="10,000 subscriptions: create, lean client",
                unit="s",
                target=3,
            ),
            Figure(
                key="fetch",
                label="10,000 subscriptions: pulled and acked on all, lean client",
                unit="s",
                target=4.5,
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
                target=2,
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
        name="clients-cpu",
        measure=official_clients.measure,
        figures=(
            Figure(key="c", label="server's CPU a single publish: C-core's client", unit="µs"),
            Figure(key="go", label="server's CPU a single publish: Go's client", unit="µs"),
            Figure(key="java", label="server's CPU a single publish: Java's client", unit="µs"),
            Figure(key="go-ratio", label="how many times more: Go's", unit="x", target=1.3),
            Figure(key="java-ratio", label="how many times more: Java's", unit="x", target=1.3),
        ),
        counted="messages",
        count=45_000,
        is_warmed_up=False,
    ),
    Workload(
        name="tls",
        measure=tls.measure,
        figures=(
            Figure(key="plain", label="server's CPU a single publish: plain text", unit="µs"),
            Figure(key="tls", label="server's CPU a single publish: TLS", unit="µs"),
            Figure(key="ratio", label="how many times more: TLS", unit="x", target=1.4),
        ),
        counted="messages",
        count=45_000,
        needs_own_servers=True,
    ),
    Workload(
        name="authenticated",
        measure=authenticated.measure,
        figures=(
            Figure(key="plain", label="single publishes: nobody asks who calls", unit="/s"),
            Figure(key="authenticated", label="single publishes: with a token", unit="/s"),
            # At least 0.9 of the rate without.
            Figure(key="ratio", label="how many times fewer: with a token", unit="x", target=1.11),
            Figure(key="plain-cpu", label="server's CPU for one: without", unit="µs"),
            Figure(key="authenticated-cpu", label="server's CPU for one: with a token", unit="µs"),
            Figure(key="known", label="the caller of a token that is known", unit="µs", target=5),
        ),
        counted="messages",
        count=60_000,
        needs_own_servers=True,
    ),
    Workload(
        name="idle-connections",
        measure=idle_connections.measure,
        figures=(
            Figure(
                key="memory",
                label="5,000 idle connections with a stream: memory for each",
                unit="KiB",
                target=60,
            ),
            Figure(
                key="cpu",
                label="5,000 idle connections with a stream: of a core",
                unit="%",
                target=0.5,
            ),
        ),
        counted="connections",
        count=5_000,
        # It looks for messages on each open stream, again and again: 5,000 take minutes.
        emulator_count=500,
        is_warmed_up=False,
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
        name="delayed-1m",
        measure=delayed.measure,
        figures=(
            Figure(
                key="publish",
                label="1,000,000 delayed: CPU of ordinary publish, to before",
                unit="x",
                target=1.1,
            ),
            Figure(key="drain", label="the same: CPU of ordinary delivery", unit="x", target=1.1),
            Figure(key="memory", label="the same: memory they take", unit="MiB", target=150),
            Figure(key="p99", label="the same: lateness, p99", unit="ms", target=100),
        ),
        counted="messages",
        count=1_000_000,
        is_warmed_up=False,
        # The emulator takes the attribute, and delivers at once.
        needs_filters=True,
    ),
    Workload(
        name="pressed-10m",
        measure=pressed.measure,
        figures=(
            Figure(
                key="memory",
                label="10,000,000 behind, any backlog policy: memory it takes",
                unit="MiB",
                target=100,
            ),
            *(
                Figure(key=way, label=f"the same, {way}: CPU of publish, to keep", unit="x")
                for way in pressed.WAYS[1:]
            ),
        ),
        counted="messages",
        count=10_000_000,
        is_warmed_up=False,
        # The emulator takes the labels, and keeps everything.
        needs_filters=True,
    ),
    Workload(
        name="start",
        measure=footprint.measure_start,
        figures=(
            Figure(key="empty", label="start to first RPC: empty", unit="s", target=0.7),
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
        name="in-process",
        measure=in_process.measure,
        figures=(
            Figure(
                key="batches",
                label="in a program, in memory: batches of 100, called back and acked",
                unit="/s",
                target=100_000,
            ),
            Figure(
                key="single",
                label="in a program, in memory: one by one, called back and acked",
                unit="/s",
                target=10_000,
            ),
            Figure(key="batches_cpu", label="the same in batches: CPU a message", unit="µs"),
            Figure(key="single_cpu", label="the same one by one: CPU a message", unit="µs"),
        ),
        counted="messages",
        count=400_000,
        is_warmed_up=False,
        is_serverless=True,
    ),
)
