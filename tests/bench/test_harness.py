"""`make bench` itself: it measures, checks, reports and cleans up. Never how fast anything is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 250

# One after the other: one of them looks at what a run leaves behind.
pytestmark = pytest.mark.xdist_group("bench")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.run", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def folders() -> set[Path]:
    """The folders of runs; what a run unpacks or builds once is kept."""
    return set((ROOT / "build").glob("bench-????????/"))


@pytest.mark.slow
def test_a_quick_run_reports_and_leaves_nothing(tmp_path):
    results = tmp_path / "results.jsonl"
    before = folders()
    done = bench("--quick", "--no-emulator", "--only", "publish-1k", "--results", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "publish 1 KiB x 1,000 a request" in done.stdout
    assert "load average:" in done.stdout
    run, sample = map(json.loads, results.read_text().splitlines())
    assert (run["kind"], run["quick"]) == ("run", True)
    assert (sample["workload"], sample["server"]) == ("publish-1k", "Fanlog")
    assert (sample["count"], sample["messages"]) == (5_000, 5_000)
    assert sample["problems"] == []
    assert sample["figures"]["rate"] > 0
    assert folders() == before


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history of a git checkout")
def test_a_commit_is_measured_beside_this_checkout(tmp_path):
    results = tmp_path / "results.jsonl"
    only = ["single-64-lean", "fan-out-lean"]
    done = bench(
        "--quick", "--no-emulator", "--before", "HEAD", "--only", *only, "--results", str(results)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of before" in done.stdout
    _, *samples = map(json.loads, results.read_text().splitlines())
    assert [(sample["workload"], sample["server"]) for sample in samples] == [
        (name, server) for name in only for server in ("before", "Fanlog")
    ]
    assert all(sample["problems"] == [] for sample in samples)
    assert all(sample["messages"] == sample["count"] for sample in samples)


def test_a_commit_that_is_not_here_is_left_out(tmp_path):
    results = tmp_path / "results.jsonl"
    arguments = ["--quick", "--no-emulator", "--only", "schemas", "--results", str(results)]
    done = bench(*arguments, "--before", "no-such-commit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The server before (no-such-commit) is left out: the commit is not here" in done.stdout
    assert "of before" not in done.stdout


def test_a_server_that_is_not_there_is_a_failure_and_no_figure(tmp_path):
    results = tmp_path / "results.jsonl"
    # Nothing listens on port 1.
    done = bench(
        "--quick", "--endpoint", "127.0.0.1:1", "--only", "single", "--results", str(results)
    )
    assert done.returncode == 1
    assert "nothing answers on 127.0.0.1:1" in done.stdout
    sample = json.loads(results.read_text().splitlines()[-1])
    assert sample["figures"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "nonsense"], "no workload starts with 'nonsense'"),
        (["--repeat", "0"], "--repeat must be 1 or more"),
        (["--pid", "1"], "--pid is for --endpoint"),
        (["--before", "--endpoint", "127.0.0.1:1"], "--before starts servers"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, sentence):
    done = bench(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
