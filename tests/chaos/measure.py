"""What can be seen of a running server from outside: its metrics, memory and descriptors."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from acceptance.served import PATIENCE_S, Served

_BACKLOG = re.compile(r'^fanlog_backlog_messages\{subscription="([^"]+)"\} (\S+)$', re.MULTILINE)
MIB = 1024 * 1024


def metrics(served: Served) -> str:
    with urllib.request.urlopen(f"http://{served.http}/metrics", timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def metric(served: Served, name: str) -> float:
    """A number without labels."""
    [found] = re.findall(rf"^{name} (\S+)$", metrics(served), re.MULTILINE)
    return float(found)


def backlogs(served: Served) -> dict[str, int]:
    """Subscriptions that have something unacknowledged."""
    counts = {name: int(float(count)) for name, count in _BACKLOG.findall(metrics(served))}
    return {name: count for name, count in counts.items() if count}


def await_drained(served: Served, counts: Callable[[str], bool] = bool) -> None:
    """Wait until everything is acknowledged on the subscriptions whose name `counts`."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 10):
        if not (left := {name for name in backlogs(served) if counts(name)}):
            return
        pause.wait(0.1)
    raise AssertionError(f"not drained: {left}")


def memory_bytes(served: Served) -> int:
    """Memory of the process's own: not that of the mapped file, which the kernel takes back."""
    status = Path(f"/proc/{served.pid}/status").read_text()
    [kilobytes] = re.findall(r"RssAnon:\s+(\d+) kB", status)
    return int(kilobytes) * 1024


def descriptor_count(served: Served) -> int:
    return len(list(Path(f"/proc/{served.pid}/fd").iterdir()))


def thread_count(served: Served) -> int:
    return len(list(Path(f"/proc/{served.pid}/task").iterdir()))
