"""An earlier Fanlog, started from its own commit, to compare this checkout with.

The commit's sources are unpacked once into a folder of `build/`, and run by this checkout's
interpreter and with its dependencies.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from bench.servers import Fanlog

#: The last commit whose server answered gRPC by `grpc.aio`: the targets of ADR 25 are ratios to it.
COMMIT = "5d50deb"

_ROOT = Path(__file__).resolve().parent.parent
_GIT_S = 60


class NoHistory(Exception):
    """The commit is not to be had here; the message says why."""


class Before(Fanlog):
    """`fanlog serve` of the earlier commit."""

    label = "before"

    def __init__(self, folder: Path, sources: Path) -> None:
        super().__init__(folder)
        self._sources = sources

    def _environ(self) -> dict[str, str]:
        # Comes before the place that the installed script would import from.
        return {**super()._environ(), "PYTHONPATH": str(self._sources)}


def unpack(commit: str, build: Path) -> Path:
    """Unpack the commit's `src` under `build` unless it is there already; its folder.

    Raises:
        NoHistory: This is no git checkout, or the commit is not in it.
    """
    full = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", reason="is not here")
    folder = build / "bench-before" / full.decode().strip()
    sources = folder / "src"
    if not sources.exists():
        archive = _git("archive", "--format=tar", full.decode().strip(), "src", reason="is broken")
        partial = folder.with_suffix(".partial")
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(partial, filter="data")
        partial.rename(folder)
    return sources


def _git(*words: str, reason: str) -> bytes:
    command = ["git", "-C", str(_ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, timeout=_GIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoHistory(f"the commit {reason}: git {words[0]} failed") from error
