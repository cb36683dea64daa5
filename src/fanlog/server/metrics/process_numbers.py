"""The metrics of the process: by the names that Prometheus' own clients give them."""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from fanlog.server.metric_families import FAMILIES, column, distribution, sample
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.loop_watch import LoopWatch

#: When this module was loaded, which is when the process was young; Linux knows it better.
_LOADED_S = time.time()


def process_numbers(watch: LoopWatch) -> Iterator[Reading]:
    yield Reading(FAMILIES["fanlog_build_info"], [_build()], [1])
    yield sample("process_cpu_seconds", time.process_time())
    yield sample("process_start_time_seconds", _start_s())
    resident = _resident_bytes()
    if resident is not None:
        yield sample("process_resident_memory_bytes", resident)
    files = _open_files()
    if files is not None:
        yield sample("process_open_fds", files)
    yield sample("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    collections = {str(n): one["collections"] for n, one in enumerate(gc.get_stats())}
    yield column("python_gc_collections", collections)
    yield distribution("fanlog_loop_lag_seconds", watch.lag_seconds)
    yield sample("fanlog_clock_steps", watch.clock_steps)


@cache
def _build() -> tuple[str, str]:
    return version("fanlog"), platform.python_version()


@cache
def _start_s() -> float:
    try:
        # The twenty-second field, counted behind the name, which may have blanks in it.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        booted = next(
            float(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, StopIteration):
        return _LOADED_S
    return booted + float(fields[19]) / os.sysconf("SC_CLK_TCK")


def _resident_bytes() -> int | None:
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def _open_files() -> int | None:
    try:
        # One of them is that of the look itself.
        return len(os.listdir("/dev/fd")) - 1
    except OSError:
        return None
