"""The register of planted bugs of a cluster: what is patched, and the worlds to find them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from simulator.cluster.temper import temper_of

#: What is patched: owner, attribute, and what makes the new value of the old.
Patch = tuple[Any, str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    #: Found within so many worlds.
    seeds_max: int
    patches: tuple[Patch, ...]
    #: Only worlds are looked at whose temper has some of each of these words; any, if it is empty.
    needs: str = ""
    #: Whether they are worlds of brokers.
    has_brokers: bool = False
    #: The first world to look at, for one that few worlds meet.
    first: int = 0

    def seeds(self) -> Iterator[int]:
        """Seeds of the worlds in which it is found."""
        return islice(filter(self._fits, count(self.first)), self.seeds_max)

    def _fits(self, seed: int) -> bool:
        return all(getattr(temper_of(seed), word) for word in self.needs.split())


MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str,
    seeds_max: int,
    *patches: Patch,
    needs: str = "",
    has_brokers: bool = False,
    first: int = 0,
) -> None:
    MUTANTS[name] = Mutant(name, seeds_max, patches, needs, has_brokers, first)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have the bug of that name while inside; none for None."""
    patches = MUTANTS[name].patches if name is not None else ()
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    try:
        for owner, attribute, make in patches:
            setattr(owner, attribute, make(owner.__dict__[attribute]))
        yield
    finally:
        for owner, attribute, value in before:
            setattr(owner, attribute, value)


def always(value: Any) -> Callable[[Any], Any]:
    """A value whatever was there before."""
    return lambda _: value
