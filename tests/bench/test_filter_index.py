"""The bench of the filter index runs, and checks what it measures. Never how fast anything is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_it_runs():
    done = subprocess.run(
        [sys.executable, "-m", "bench.filter_index", "--counts", "100"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "messages/s" in done.stdout
    assert "thresholds, all match" in done.stdout
