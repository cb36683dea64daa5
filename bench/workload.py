"""What a workload is: what it measures, how much of it, and what Fanlog must reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.servers import Emulator, Server
from bench.session import Sample

#: `--quick` divides the counts by this, a warm-up by the other unless the workload has its own.
QUICK_DIVISOR = 40
WARM_UP_DIVISOR = 10

Unit = Literal["/s", "µs", "ms", "s", "MiB", "KiB", "B", "x", "%"]


@dataclass(frozen=True, slots=True)
class Against:
    """A target that is a part, or a multiple, of another server's value in the same run."""

    server: str
    times: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that a workload gives."""

    key: str
    label: str
    unit: Unit
    #: What Fanlog must reach: at least this rate, at most this time, memory or ratio. None for a
    #: figure that is there to be known.
    target: float | None = None
    #: The same, as ratios to what other servers gave: at least, or at most, so many times as much.
    against: tuple[Against, ...] = ()

    def is_reached(self, value: float, others: Mapping[str, float | None]) -> bool | None:
        """Whether every target that can be judged is reached; None when none of them can.

        `others` has the values of the other servers in this run.
        """
        bounds = [] if self.target is None else [self.target]
        for each in self.against:
            other = others.get(each.server)
            if other is not None:
                bounds.append(each.times * other)
        if not bounds:
            return None
        return all(value >= bound if self.unit == "/s" else value <= bound for bound in bounds)

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
    #: Whether a part of it is done once before the clock starts, and which: a tenth.
    is_warmed_up: bool = True
    warm_up_divisor: int = WARM_UP_DIVISOR
    #: Whether it needs a server that it may stop and start.
    restarts: bool = False
    #: Whether the emulator has nothing to answer it with: it takes filters and ignores them, and it
    #: pushes only wrapped bodies.
    needs_filters: bool = False
    #: Whether it measures a part of this checkout alone; `measure` is then given no started server.
    is_serverless: bool = False
    #: Whether `measure` starts servers of its own beside the one it is given: this checkout's only.
    needs_own_servers: bool = False

    def count_for(self, server_label: str, *, is_quick: bool) -> int:
        fewer = self.emulator_count if server_label == Emulator.label else None
        count = fewer or self.count
        return max(1, count // QUICK_DIVISOR) if is_quick else count

    def warm_up_count(self, count: int) -> int:
        return max(1, count // self.warm_up_divisor) if self.is_warmed_up else 0
