"""Publishing to a cluster beside the embedded engine, and beside a bare producer of Kafka.

Kafka runs on the same machine, and takes most of it: these figures say how large the log's part is,
and not how fast a cluster of several machines is. Whatever is compared takes turns: a machine that
slows down does so for all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import closing

from bench.bare import RECORD_BYTES, BareProducer
from bench.kafka import KafkaMissing
from bench.members import Member, clustered
from bench.publishing import measure_batches, measure_single
from bench.servers import Server
from bench.session import Sample

#: Turns of each that is compared, after one that does not count; the figures are their medians.
TURNS = 5
#: Bytes a second that batches must reach on a quiet machine; elsewhere a part of a bare producer's.
ENOUGH = 100e6
ENOUGH_OF_BARE = 0.7
#: A bare producer that does not wait has so many records under way.
AHEAD = 8
MESSAGE_BYTES = 1024

#: By the key of a figure.
Figures = dict[str, float | None]


def measure_singles(server: Server, count: int, *, nodes: int) -> Sample:
    """One message of 1 KiB a request, to the embedded engine and to the owner of a cluster."""

    def turn(owner: Member) -> list[Sample]:
        return [measure_single(one, count // TURNS) for one in (server, owner)]

    def judge(samples: list[list[Sample]]) -> Figures:
        embedded, p50 = (_median(samples, place, "p50") for place in (0, 1))
        p99 = _median(samples, 1, "p99")
        return {"embedded": embedded, "p50": p50, "p99": p99, "ratio": p50 / embedded}

    return _beside(server, nodes, turn, judge)


def measure_batched(server: Server, count: int, *, nodes: int) -> Sample:
    """1,000 messages of 1 KiB a request, 8 in flight, the same way; and bare producers."""
    part = count // TURNS

    def turn(owner: Member) -> list[Sample]:
        found = [measure_batches(one, part, size_bytes=MESSAGE_BYTES) for one in (server, owner)]
        records = max(1, part * MESSAGE_BYTES // RECORD_BYTES)
        rates: Figures = {}
        for under_way in (1, AHEAD):
            with closing(BareProducer(owner.kafka, under_way)) as bare:
                bare.rate(1)
                rates[f"bare-{under_way}"] = bare.rate(records)
        return [*found, Sample(figures=rates)]

    def judge(samples: list[list[Sample]]) -> Figures:
        embedded, rate = (_median(samples, place, "rate") for place in (0, 1))
        bare, ahead = (_median(samples, 2, f"bare-{under_way}") for under_way in (1, AHEAD))
        must = min(ENOUGH, ENOUGH_OF_BARE * RECORD_BYTES * max(bare, ahead))
        return {
            "embedded": embedded,
            "rate": rate,
            "bare": bare,
            "ahead": ahead,
            "must": must / (rate * MESSAGE_BYTES),
        }

    return _beside(server, nodes, turn, judge)


def _beside(
    server: Server,
    nodes: int,
    turn: Callable[[Member], list[Sample]],
    judge: Callable[[list[list[Sample]]], Figures],
) -> Sample:
    """Take turns, the first one to warm up; what they come to."""
    try:
        with clustered(nodes) as members:
            try:
                server.start()
                owner = members.started("owner")
                turn(owner)
                samples = [turn(owner) for _ in range(TURNS)]
            finally:
                server.stop()
    except KafkaMissing as reason:
        return Sample(figures={}, notes=(f"left out: {reason}",))
    return Sample(
        figures=judge(samples),
        problems=tuple(
            problem for taken in samples for sample in taken for problem in sample.problems
        ),
    )


def _median(samples: list[list[Sample]], place: int, key: str) -> float:
    found = [taken[place].figures[key] for taken in samples]
    return statistics.median([value for value in found if value is not None])
