"""The index of filters for `make bench`: `bench.filter_index` in a process of its own.

`python -m bench.filter_index_alone 100000` prints what `make bench` reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from bench import filter_index
from bench.servers import Server
from bench.session import STEP_S, Sample, Stalled

#: How many times fewer filters the first figure has.
FEWER = 10


def measure(_server: Server, count: int) -> Sample:
    """Measure in a child: what this process holds is not in the way of its garbage collection."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.filter_index_alone", str(count)],
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Stalled(f"not done after {STEP_S} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip() or f"ended with {done.returncode}")
    return Sample(**json.loads(done.stdout))


def sample(count: int) -> Sample:
    few, many = filter_index.measure(count // FEWER), filter_index.measure(count)
    note = (
        f"with {count // FEWER:,} filters {few.matches:.1f} match a message, with {count:,}"
        f" {many.matches:.1f}; {few.add_s * 1e6:.0f} µs to add one, {few.bytes_each:,.0f} bytes"
        " for each"
    )
    return Sample(figures={"rate": few.rate, "slowdown": few.rate / many.rate}, notes=(note,))


if __name__ == "__main__":
    print(json.dumps(asdict(sample(int(sys.argv[1])))))
