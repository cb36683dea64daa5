"""The index of filters for `make bench`: `bench.filter_index` in a process of its own.

`python -m bench.filter_index_alone 100000` prints what `make bench` reads.
"""

from __future__ import annotations

import sys

from bench import child, filter_index
from bench.servers import Server
from bench.session import Sample

#: How many times fewer filters the first figure has.
FEWER = 10


def measure(_server: Server, count: int) -> Sample:
    return child.measured("bench.filter_index_alone", count)


def sample(count: int) -> Sample:
    few, many = filter_index.measure(count // FEWER), filter_index.measure(count)
    note = (
        f"with {count // FEWER:,} filters {few.matches:.1f} match a message, with {count:,}"
        f" {many.matches:.1f}; {few.add_s * 1e6:.0f} µs to add one, {few.bytes_each:,.0f} bytes"
        " for each"
    )
    return Sample(figures={"rate": few.rate, "slowdown": few.rate / many.rate}, notes=(note,))


if __name__ == "__main__":
    child.report(sample(int(sys.argv[1])))
