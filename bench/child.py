"""A workload in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from bench.session import STEP_S, Sample, Stalled


def measured(module: str, count: int, *arguments: str) -> Sample:
    """Run `python -m module count …`, which ends with `report`.

    In a child neither what this process holds nor its garbage is in the figures.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, str(count), *arguments],
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


def report(sample: Sample) -> None:
    """Say what was measured, for `measured` to read."""
    print(json.dumps(asdict(sample)))
