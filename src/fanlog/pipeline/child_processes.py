"""The child processes of this process, of all its libraries."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def end_children() -> None:
    """Kill all children; for a process that has begun no work yet."""
    for pid in [pid for pid, parent in _processes() if parent == os.getpid()]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    if not (_PROC / "self" / "stat").exists():
        # Not Linux. (A small Linux has no `ps`, so that one is not asked there.)
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for place in _PROC.iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                # pid (name) state parent …; a name may have spaces, and brackets.
                after_name = (place / "stat").read_text().rpartition(")")[2].split()
                yield int(place.name), int(after_name[1])
