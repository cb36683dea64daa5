"""`python -m simulator.cluster`: live many worlds of a cluster, or one again."""

from __future__ import annotations

import argparse
import logging
import sys

from simulator.cluster.mutants import MUTANTS, planted
from simulator.cluster.runner import new_world, report, run_seed, run_seeds
from simulator.cluster.serving import ServingWorld
from simulator.runner import Verdict, summed


def main() -> int:
    """Exit with 0 when every promise was kept, and every planted bug found."""
    options = _parser().parse_args()
    if options.mutants:
        return _hunt(options.jobs)
    brokers = options.brokers or (
        options.mutant is not None and MUTANTS[options.mutant].has_brokers
    )
    if options.seed is not None:
        return _once(options.seed, options.mutant, brokers=brokers, history=options.history)
    seeds = range(options.first, options.first + options.seeds)
    verdicts = run_seeds(seeds, jobs=options.jobs, mutant=options.mutant, brokers=brokers)
    summary = summed(_named(verdict, options.mutant, brokers) for verdict in verdicts)
    _say(str(summary))
    return 1 if summary.broken else 0


def _named(verdict: Verdict, mutant: str | None, brokers: bool) -> Verdict:
    if verdict.is_broken:
        _say(report(verdict, mutant=mutant, brokers=brokers))
    return verdict


def _once(seed: int, mutant: str | None, *, brokers: bool, history: bool) -> int:
    if history:
        _tell(seed, mutant, brokers)
    verdict = run_seed(seed, mutant=mutant, brokers=brokers)
    if verdict.is_broken:
        _say(report(verdict, mutant=mutant, brokers=brokers))
        return 1
    what = "operations" if brokers else "commits"
    _say(
        f"seed {seed}: {verdict.operations} {what} in {verdict.simulated_s:.0f} simulated "
        f"seconds, every promise kept; history {verdict.digest[:16]}"
    )
    return 0


def _tell(seed: int, mutant: str | None, brokers: bool) -> None:
    """Live the world, and say what its nodes log, and what its clients met."""
    world = new_world(seed, brokers=brokers)
    handler = logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        turn = world.turns.current
        name = "-" if turn is None else getattr(turn.process, "name", "judge")
        _say(f"{world.turns.now:9.4f} {name:6} {record.getMessage()}")

    handler.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger("fanlog")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with planted(mutant):
            world.live()
    finally:
        logger.removeHandler(handler)
    if isinstance(world, ServingWorld):
        for line in world.people.chronicle.lines():
            _say(line)


def _hunt(jobs: int) -> int:
    """Every planted bug must be found within its number of seeds."""
    missed = 0
    for mutant in MUTANTS.values():
        verdicts = run_seeds(
            mutant.seeds(), jobs=jobs, mutant=mutant.name, brokers=mutant.has_brokers
        )
        found = next((verdict for verdict in verdicts if verdict.is_broken), None)
        missed += found is None
        said = "not found" if found is None else f"seed {found.seed}: {found.sentences[0]}"
        _say(f"{mutant.name} ({mutant.seeds_max} seeds): {said}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulator.cluster", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--brokers", action="store_true", help="worlds with brokers and clients")
    parser.add_argument("--seed", type=int, help="live this one world")
    parser.add_argument("--history", action="store_true", help="with --seed: tell it")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="plant this bug")
    parser.add_argument("--mutants", action="store_true", help="find every planted bug")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
