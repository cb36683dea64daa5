"""The state that a node of the world keeps ready for its term, without a thread.

It is built by chance when something is told, so changes are gathered and built in as they may be.
What a term takes is held against a load of the log, object by object.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

from fanlog.broker.standby_state import Item, ReadyState, StandbyState
from fanlog.core.hard_state import HardState
from fanlog.core.seal_keys import NO_KEYS
from fanlog.core.sealing import Opening, Sealing
from fanlog.log.api import Log
from simulator.warmth import differences

#: How often it is built when something is told, and told anew once it is stale.
_BUILDS = 0.4
_IS_QUIET = 0.3


class SimStandbyState(StandbyState):
    """Of one process; all chances are its own, so that worlds go as they would without it."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    @property
    def wants_all(self) -> bool:
        return self._wants_all_at is not None and self._rng.random() < _IS_QUIET

    def reach(self, sequence: int) -> None:
        super().reach(sequence)
        if self._rng.random() < _BUILDS:
            self._build_in()

    def take_judged(
        self, log: Log, latest_deadline_s: float, accuse: Callable[[str], None]
    ) -> ReadyState | None:
        """The state for a term that begins."""
        ready = self.take(log.last_sequence, latest_deadline_s)
        if ready is None:
            return None
        loaded = HardState.load(
            log.state(),
            latest_deadline_s=latest_deadline_s,
            open_secrets=Opening(Sealing(NO_KEYS)),
        )
        if difference := next(differences(ready.hard, loaded), ""):
            accuse(f"J8: a state that was kept ready is not the log's: {difference}")
        return ready

    def _paced(self, items: Iterable[Item]) -> Iterator[Item]:
        yield from items
