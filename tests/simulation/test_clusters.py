"""Worlds of a cluster, of writers and of brokers, and its planted bugs.

More of them: `make sim CLUSTER=1 SEEDS=1000`, and `SIM_ARGS=--brokers` for those of brokers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.cluster.mutants import MUTANTS
from simulator.cluster.runner import report, run_seed

TESTS = Path(__file__).parent.parent
NIGHTLY_SEEDS = 2_000
NIGHTLY_SEEDS_OF_BROKERS = 400
NIGHTLY_TOGETHER = 50
#: Those that are found by the first or second world; the others are looked for at night.
QUICK = (
    "a publish is answered before its commit, in a cluster",
    "clients meet an acknowledged place that is ignored",
    "generations begin anew with each life, in a cluster",
    "a place is enough, whatever the term",
    "a standby keeps the leases of another time",
    "a standby waits for half a session",
    "a take-over names no term",
    "a take-over is not read back",
    "a term is enough, whatever the place",
    "stages do not hold the partition",
    "the owner answers for three sessions",
    "the place in an acknowledgement is ignored",
    "what is void is applied",
)
assert MUTANTS.keys() >= set(QUICK)


def check(seed: int, *, brokers: bool = False) -> None:
    verdict = run_seed(seed, brokers=brokers)
    if verdict.is_broken:
        pytest.fail(report(verdict, brokers=brokers), pytrace=False)


# The last six broke a promise once: `docs/internals/simulator.md` says which.
@pytest.mark.parametrize("seed", [4, 22, 69, 96, 99, 267, 313, 603])
def test_every_promise_is_kept(seed):
    check(seed)


@pytest.mark.parametrize("seed", [0, 13, 21, 27, 43])
def test_every_promise_is_kept_to_clients(seed):
    check(seed, brokers=True)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, NIGHTLY_SEEDS_OF_BROKERS, NIGHTLY_TOGETHER))
def test_every_promise_is_kept_to_clients_in_many_worlds(first):
    for seed in range(first, first + NIGHTLY_TOGETHER):
        check(seed, brokers=True)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, NIGHTLY_SEEDS, NIGHTLY_TOGETHER))
def test_every_promise_is_kept_in_many_worlds(first):
    for seed in range(first, first + NIGHTLY_TOGETHER):
        check(seed)


@pytest.mark.parametrize(("seed", "brokers"), [(4, False), (13, True)])
def test_a_seed_is_one_history(seed, brokers):
    """Byte by byte, also in another process that hashes strings otherwise."""
    here = run_seed(seed, brokers=brokers).digest
    code = (
        "from simulator.cluster.runner import run_seed; "
        f"print(run_seed({seed}, brokers={brokers}).digest)"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.nightly]) for name in MUTANTS],
)
def test_a_planted_bug_is_found(name):
    for seed in MUTANTS[name].seeds():
        if run_seed(seed, mutant=name, brokers=MUTANTS[name].has_brokers).is_broken:
            return
    pytest.fail(f"{name}: not found in {MUTANTS[name].seeds_max} worlds")
