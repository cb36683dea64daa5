"""`python -m simulator`: live many worlds, or one again."""

from __future__ import annotations

import argparse
import sys

from simulator import mutants
from simulator.runner import (
    Verdict,
    report,
    run_seed,
    run_seeds,
    shrunk,
    summed,
)

#: Broken worlds of a run that are told at length.
TOLD_MAX = 3


def main() -> int:
    """Exit with 0 when every promise was kept, and every planted bug found."""
    options = _parser().parse_args()
    if options.mutants:
        return _hunt(options.jobs)
    if options.seed is not None:
        return _once(options.seed, options.steps, options.mutant, history=options.history)
    seeds = range(options.first, options.first + options.seeds)
    verdicts = run_seeds(seeds, jobs=options.jobs, mutant=options.mutant)
    summary = summed(_named(verdict) for verdict in verdicts)
    for broken in summary.broken[:TOLD_MAX]:
        _say(report(shrunk(broken.seed, mutant=options.mutant), mutant=options.mutant))
    _say(str(summary))
    return 1 if summary.broken else 0


def _named(verdict: Verdict) -> Verdict:
    """Name a broken world as soon as it is known; a long run may be ended before its end."""
    if verdict.is_broken:
        _say(f"seed {verdict.seed}: {verdict.sentences[0]}")
    return verdict


def _once(seed: int, steps: int | None, mutant: str | None, *, history: bool) -> int:
    verdict = run_seed(seed, steps=steps, mutant=mutant, whole=history)
    if verdict.is_broken:
        _say(report(verdict, mutant=mutant))
        return 1
    for line in verdict.story:
        _say(line)
    _say(
        f"seed {seed}: {verdict.operations} operations in {verdict.simulated_s / 3600:.1f} "
        f"simulated hours, every promise kept; history {verdict.digest[:16]}"
    )
    return 0


def _hunt(jobs: int) -> int:
    """Every planted bug must be found within its number of seeds."""
    missed = 0
    for mutant in mutants.MUTANTS.values():
        verdicts = run_seeds(mutant.seeds(), jobs=jobs, mutant=mutant.name)
        found = next((verdict for verdict in verdicts if verdict.is_broken), None)
        missed += found is None
        said = "not found" if found is None else f"seed {found.seed}: {found.sentences[0]}"
        _say(f"{mutant.name} ({mutant.seeds_max} seeds): {said}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="live this one world, and tell its history")
    parser.add_argument("--steps", type=int, help="with --seed: end it after so many steps")
    parser.add_argument("--history", action="store_true", help="with --seed: all of it")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS), help="plant this bug")
    parser.add_argument("--mutants", action="store_true", help="find every planted bug")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
