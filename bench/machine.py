"""Facts about the machine and the checkout that a figure means nothing without."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

_SYNCS = 50
_SYNC_BYTES = 4096
_ROOT = Path(__file__).resolve().parent.parent


def facts(folder: Path) -> dict[str, str]:
    """Facts by name, in the order to print them; `folder` is where the data will lie."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "disk": _disk(folder),
        "sync of 4 KiB": f"{_sync_ms(folder):.2f} ms (median of {_SYNCS})",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]


def _commit() -> str:
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    has_changes = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
    return f"{commit}, with uncommitted changes" if has_changes else commit


def _git(*words: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", str(_ROOT), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _disk(folder: Path) -> str:
    kind = _filesystem(folder)
    if kind in {"tmpfs", "ramfs"}:
        return f"{kind}: in memory, syncs cost nothing and the figures of Fanlog are not real"
    device = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    # A partition has no queue of its own, its disk has.
    for place in (block, block.resolve().parent):
        try:
            rotates = (place / "queue/rotational").read_text(encoding="ascii").strip() == "1"
        except OSError:
            continue
        return f"{kind} on a disk that says it {'rotates' if rotates else 'does not rotate'}"
    return f"{kind} on an unknown device"


def _filesystem(folder: Path) -> str:
    # The longest mount point above the folder is the one that holds it.
    holding = [
        part
        for part in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(part.mountpoint)
    ]
    deepest = max(holding, key=lambda part: len(part.mountpoint), default=None)
    return deepest.fstype if deepest else "an unknown file system"


def _sync_ms(folder: Path) -> float:
    """What one small synced write costs here: the least that a synced publish can take."""
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(bytes(_SYNC_BYTES))
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)
