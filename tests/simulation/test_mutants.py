"""The simulator bites: every planted bug is found within its number of seeds."""

from __future__ import annotations

import pytest

from simulator.mutants import MUTANTS
from simulator.runner import report, run_seed, shrunk

#: Those that take more than some seconds to be found are looked for at night.
RARE = frozenset(
    {
        "a breaker that is half open lets a window through",
        "a filter change is off by one",
        "a lease that has run out is taken for live",
        "a new topic is in no snapshot of a pattern",
        "a seek passes what waits for the disk",
        "a snapshot forgets what the filter left out",
        "an ack ahead of its key is hard",
        "room in one topic is none in another",
        "snapshots hold nothing in the log",
        "what is acknowledged is not retained",
        "what was judged before a filter came is nothing to it",
    }
)
assert MUTANTS.keys() >= RARE


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] if name in RARE else []) for name in MUTANTS],
)
def test_a_planted_bug_is_found(name):
    for seed in MUTANTS[name].seeds():
        if run_seed(seed, mutant=name, told=False).is_broken:
            return
    pytest.fail(f"{name}: not found in {MUTANTS[name].seeds_max} worlds")


def test_a_broken_world_is_told_shortly():
    name = "a publish is answered before its commit"
    verdict = shrunk(0, mutant=name)
    assert verdict.is_broken
    assert verdict.steps is not None
    told = report(verdict, mutant=name)
    assert "seed 0 at commit" in told
    assert f"python -m simulator --seed 0 --steps {verdict.steps}" in told
    assert len(told.splitlines()) < 150
