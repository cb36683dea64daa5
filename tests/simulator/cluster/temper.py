"""How unkind a world is, drawn from its seed: most faults are absent from most worlds."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """Chances are for each second of a world, but for `doubt`."""

    length_s: float
    session_s: float
    #: Of the nodes' clocks: how much faster or slower than the world's.
    drift: float
    #: One way to Kafka, and how long the producer tries.
    trip_s: float
    delivery_s: float
    #: Read at a time.
    fetch_bytes: int
    #: That a record meets a fault, and how late it comes where it is late.
    doubt: float
    late_s: float
    #: Between two commits.
    pace_s: float
    #: Bytes between two checkpoints.
    checkpoint_bytes: int
    kills: float
    stands: float
    cuts: float
    leaders: float
    outages: float
    clocks: float
    moves: float
    rivals: float


def temper_of(seed: int) -> Temper:
    rng = random.Random(f"cluster {seed}")

    def some(share: float, most: float) -> float:
        """Nothing in most worlds."""
        return rng.uniform(most / 4, most) if rng.random() < share else 0.0

    return Temper(
        length_s=rng.uniform(20, 45),
        session_s=rng.choice((1.5, 3.0, 3.0)),
        drift=rng.choice((0.0, 0.01, 0.2)),
        trip_s=rng.choice((0.0005, 0.002, 0.02)),
        delivery_s=rng.choice((2.0, 5.0, 12.0)),
        fetch_bytes=rng.choice((2_000, 1 << 20)),
        doubt=some(0.6, 0.06),
        late_s=rng.choice((0.5, 3.0, 12.0)),
        pace_s=rng.choice((0.05, 0.1, 0.5)),
        checkpoint_bytes=rng.choice((4_000, 15_000, 60_000)),
        kills=some(0.5, 0.3),
        stands=some(0.5, 0.3),
        cuts=some(0.5, 0.3),
        leaders=some(0.4, 0.2),
        outages=some(0.2, 0.08),
        clocks=some(0.3, 0.2),
        moves=some(0.4, 0.3),
        rivals=some(0.3, 0.2),
    )
