"""Runs worlds, one after another or in several processes, and says how they ended.

A world that broke a promise is told in the end as: its seed, the commit, the one command that lives
it again, the sentences of what broke, and the part of its history that concerns them, after trying
to break it the same way with fewer steps.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from simulator import mutants
from simulator.checkers import Violation
from simulator.chronicle import (
    Chronicle,
    Committed,
    Delivered,
    Entry,
    Op,
    Rotten,
    Settle,
    Turn,
)
from simulator.outside import seen_from_outside
from simulator.push_witness import new_senders
from simulator.replay import Replay
from simulator.sequences import numbers_kept
from simulator.singles import came_once_and_in_order
from simulator.story import live
from simulator.world import World

#: Lines of a shortened history at most, and how many of them are its beginning.
LINES_MAX = 120
LINES_HEAD = 40


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one world ended."""

    seed: int
    steps: int | None
    sentences: tuple[str, ...]
    operations: int
    simulated_s: float
    faults: dict[str, int]
    digest: str
    #: The part of the history that concerns what broke.
    story: tuple[str, ...] = ()
    steps_taken: int = 0

    @property
    def is_broken(self) -> bool:
        return bool(self.sentences)

    @property
    def promises(self) -> set[str]:
        return {sentence.partition(":")[0] for sentence in self.sentences}


@dataclass(slots=True)
class Summary:
    """All worlds of a run together."""

    seeds: int = 0
    operations: int = 0
    simulated_s: float = 0.0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    broken: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.operations += verdict.operations
        self.simulated_s += verdict.simulated_s
        self.faults.update(verdict.faults)
        if verdict.is_broken:
            self.broken.append(verdict)

    def __str__(self) -> str:
        faults = " ".join(f"{name}={count}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.seeds} seeds, {self.simulated_s / 3600:.0f} simulated hours, "
            f"{self.operations} operations, {sum(self.faults.values())} faults ({faults}), "
            f"{len(self.broken)} broken, {self.seconds:.1f} s"
        )


def run_seed(
    seed: int,
    *,
    steps: int | None = None,
    mutant: str | None = None,
    told: bool = True,
    whole: bool = False,
) -> Verdict:
    """Live the world of one seed and judge it.

    Args:
        steps: Steps of all actors together, instead of as many as the world would have.
        mutant: Name of a planted bug that this world has.
        told: Whether the verdict tells the part of the history that concerns what broke.
        whole: Whether it tells all of it, broken or not.
    """
    logging.disable(logging.CRITICAL)
    world = World(seed, new_senders=new_senders, steps=steps)
    steps_wanted = world.steps_left
    try:
        with mutants.planted(mutant):
            live(world)
    finally:
        logging.disable(logging.NOTSET)
    sentences, violations = judged(world)
    story: Iterable[str] = ()
    if whole:
        story = world.chronicle.lines()
    elif told and sentences:
        story = shortened(world.chronicle, violations)
    return Verdict(
        seed=seed,
        steps=steps,
        sentences=sentences,
        operations=world.operations,
        simulated_s=world.loop.time(),
        faults=world.faults,
        digest=world.chronicle.digest() if told else "",
        story=tuple(story),
        steps_taken=steps_wanted,
    )


def judged(world: World) -> tuple[tuple[str, ...], list[Violation]]:
    """What is broken in a world that was lived, in sentences; those of its replay beside."""
    # A broker that broke may have left the chronicle in the middle of a sentence.
    replay = Replay(world.chronicle)
    violations = [] if world.mistakes else replay.run()
    outside: list[str] = []
    if not world.mistakes and not violations:
        outside += seen_from_outside(world.chronicle, replay.ledgers(), replay.end_s)
        outside += came_once_and_in_order(world.chronicle)
        outside += numbers_kept(world.chronicle)
    sentences = (
        *(f"broke: {mistake}" for mistake in world.mistakes),
        *world.broken,
        *map(str, violations),
        *outside,
    )
    return sentences, violations


def run_seeds(
    seeds: Iterable[int], *, jobs: int = 1, mutant: str | None = None
) -> Iterator[Verdict]:
    """Live many worlds; verdicts come in the order of the seeds."""
    if jobs <= 1:
        for seed in seeds:
            yield run_seed(seed, mutant=mutant, told=False)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_run_quietly, seeds, repeat(mutant), chunksize=4)


def _run_quietly(seed: int, mutant: str | None) -> Verdict:
    return run_seed(seed, mutant=mutant, told=False)


def summed(verdicts: Iterable[Verdict]) -> Summary:
    summary, began = Summary(), time.monotonic()
    for verdict in verdicts:
        summary.add(verdict)
    summary.seconds = time.monotonic() - began
    return summary


def shrunk(seed: int, *, mutant: str | None = None) -> Verdict:
    """The same world, broken in the same way, with as few steps as can be found quickly.

    A world with fewer steps lives the same until they are used up, and then ends.
    """
    worst = run_seed(seed, mutant=mutant)
    low, high = 0, worst.steps_taken
    while worst.is_broken and high - low > max(1, high // 50):
        middle = (low + high) // 2
        verdict = run_seed(seed, steps=middle, mutant=mutant)
        if verdict.promises & worst.promises:
            worst, high = verdict, middle
        else:
            low = middle
    return worst


def report(verdict: Verdict, *, mutant: str | None = None) -> str:
    """All that is needed to look into a broken world."""
    steps = "" if verdict.steps is None else f" --steps {verdict.steps}"
    planted = "" if mutant is None else f" --mutant {mutant}"
    return "\n".join(
        [
            f"seed {verdict.seed} at commit {commit()} broke a promise. To live it again:",
            f"    cd tests && python -m simulator --seed {verdict.seed}{steps}{planted}",
            *verdict.sentences[:10],
            *verdict.story,
        ]
    )


def commit() -> str:
    """The commit this runs from, if that can be known."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def shortened(chronicle: Chronicle, violations: list[Violation]) -> Iterator[str]:
    """Lines of the history that concern the first violation; the end of it, if there is none."""
    if not violations:
        yield from chronicle.lines(chronicle.entries[-LINES_MAX:])
        return
    first = violations[0]
    concerned = [e for e in chronicle.entries if _concerns(chronicle, e, first)]
    if len(concerned) > LINES_MAX:
        cut = len(concerned) - LINES_MAX
        yield from chronicle.lines(concerned[:LINES_HEAD])
        yield f"       … {cut} more …"
        concerned = concerned[LINES_HEAD + cut :]
    yield from chronicle.lines(concerned)


def _concerns(chronicle: Chronicle, entry: Entry, violation: Violation) -> bool:
    name, partition = _subscription(chronicle, violation), violation.partition
    key = _key(chronicle, partition, violation.offset)

    def is_near(offset: int) -> bool:
        if violation.offset < 0 or offset == violation.offset:
            return True
        return bool(key) and _key(chronicle, partition, offset) == key

    match entry.what:
        case Op(verb="pull" | "publish" | "stream" | "push"):
            return False
        case Op(detail=Settle(refs=refs)):
            return any(
                r.subscription == violation.subscription
                and r.partition == partition
                and is_near(r.offset)
                for r in refs
            )
        case Op(verb=verb):
            return entry.what.name == name or "snapshot" in verb
        case Delivered(subscription=subscription, partition=from_, offsets=offsets):
            is_its = subscription == violation.subscription and from_ == partition
            return is_its and any(map(is_near, offsets))
        case Committed(messages=messages, changes=changes, heads=heads):
            return (
                any(m.partition == partition and is_near(m.offset) for m in messages)
                or any(change.id == violation.subscription for change in changes)
                or any(h.floor is None and h.owner == violation.subscription for h in heads)
            )
        case Rotten(partition=rotten):
            return rotten == partition
        case Turn():
            return True
    return False


def _subscription(chronicle: Chronicle, violation: Violation) -> str:
    for entry in chronicle.entries:
        if isinstance(entry.what, Committed):
            for change in entry.what.changes:
                subscription = getattr(change, "subscription", None)
                if subscription is not None and change.id == violation.subscription:
                    return str(subscription.name)
    return ""


def _key(chronicle: Chronicle, partition: int, offset: int) -> str:
    log = chronicle.log.get(partition, [])  # type: ignore[call-overload]
    return log[offset].key if 0 <= offset < len(log) else ""
