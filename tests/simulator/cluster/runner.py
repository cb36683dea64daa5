"""Runs worlds of a cluster, one after another or in several processes, and says how they ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from itertools import repeat

from simulator.cluster.mutants import planted
from simulator.cluster.serving import ServingWorld
from simulator.cluster.world import World
from simulator.cluster.writing import WritingWorld
from simulator.runner import Verdict, commit


def run_seed(seed: int, *, mutant: str | None = None, brokers: bool = False) -> Verdict:
    """Live the world of one seed and judge it; one with brokers, or with writers."""
    logging.disable(logging.CRITICAL)
    world = new_world(seed, brokers=brokers)
    try:
        with planted(mutant):
            world.live()
    finally:
        logging.disable(logging.NOTSET)
    return Verdict(
        seed=seed,
        steps=None,
        sentences=tuple(world.broken),
        operations=world.operations,
        simulated_s=world.turns.now,
        faults=world.all_faults,
        digest=_digest(world),
    )


def new_world(seed: int, *, brokers: bool) -> World:
    return ServingWorld(seed) if brokers else WritingWorld(seed)


def run_seeds(
    seeds: Iterable[int], *, jobs: int = 1, mutant: str | None = None, brokers: bool = False
) -> Iterator[Verdict]:
    """Live many worlds; verdicts come in the order of the seeds."""
    if jobs <= 1:
        for seed in seeds:
            yield run_seed(seed, mutant=mutant, brokers=brokers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_run, seeds, repeat(mutant), repeat(brokers), chunksize=4)


def _run(seed: int, mutant: str | None, brokers: bool) -> Verdict:
    return run_seed(seed, mutant=mutant, brokers=brokers)


def report(verdict: Verdict, *, mutant: str | None = None, brokers: bool = False) -> str:
    """All that is needed to look into a broken world."""
    planted_ = " --brokers" if brokers else ""
    planted_ += "" if mutant is None else f" --mutant {mutant!r}"
    return "\n".join(
        [
            f"seed {verdict.seed} at commit {commit()} broke a promise. To live it again:",
            f"    cd tests && python -m simulator.cluster --seed {verdict.seed}{planted_}",
            *verdict.sentences[:10],
        ]
    )


def _digest(world: World) -> str:
    """Of all that was ever appended, and when, and of what clients met."""
    digest = blake2b(digest_size=16)
    for record, at in zip(world.topic.history, world.topic.appended_s, strict=True):
        digest.update(b"%d %.9f " % (record.offset, at) + world.told_of(record.value))
    digest.update(world.story_digest().encode())
    return digest.hexdigest()
