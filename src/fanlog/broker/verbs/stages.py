"""The stages of one broker: rows that wait in the spool for the commit of their epoch.

Soft state, found again in the spool at a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.spool import Draft, Spool, Stage
from fanlog.broker.transaction import Ledger
from fanlog.core.sinks import StageKey
from fanlog.errors import FailedPrecondition, ResourceExhausted
from fanlog.log.batch import Batch


class Stages:
    """Knows every stage, and the one that counts under each key. Lives on the loop."""

    def __init__(
        self, ledger: Ledger, clock: Clock, spool: Spool, new_id: Callable[[], str]
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._spool = spool
        self._new_id = new_id
        self._by_id: dict[str, Stage] = {}
        self._by_key: dict[StageKey, Stage] = {}
        self._size_bytes = 0
        #: Ids of the stages that a commit under way reads.
        self._held: set[str] = set()

    @property
    def size_bytes(self) -> int:
        """Bytes of all stages, and of those in the making."""
        return self._size_bytes

    async def load(self) -> None:
        """Find the stages of before; those of epochs that are over are removed."""
        table, named = self._ledger.hard.sinks, self._named_by_commits()
        over: list[Stage] = []
        for stage in await self._spool.load():
            if stage.id not in named and (table.is_over(stage.key) or self._is_expired(stage)):
                over.append(stage)
            else:
                self._by_id[stage.id] = self._by_key[stage.key] = stage
                self._size_bytes += stage.size_bytes
        await self._spool.remove(over)

    async def draft(self) -> tuple[str, Draft]:
        """A new stage in the making: its id, and where its rows are written."""
        stage_id = self._new_id()
        return stage_id, await self._spool.draft(stage_id)

    def reserve(self, size_bytes: int) -> None:
        """Make room for rows that are about to be staged.

        Raises:
            ResourceExhausted: As much is staged as may be.
            DiskFull: Only the reserve is left.
        """
        if self._size_bytes + size_bytes > self._spool.size_bytes_max:
            raise ResourceExhausted(
                f"{self._size_bytes} bytes are staged and not committed; "
                f"at most {self._spool.size_bytes_max} may be"
            )
        self._ledger.check_room(size_bytes)
        self._size_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give reserved room back."""
        self._size_bytes -= size_bytes

    async def add(self, stage: Stage) -> None:
        """A stage is durable; one that was there under the same key gives way."""
        before = self._by_key.get(stage.key)
        self._by_id[stage.id] = self._by_key[stage.key] = stage
        if before is not None and before.id not in self._held:
            await self.remove([before])

    def find(self, stage_id: str) -> Stage | None:
        return self._by_id.get(stage_id)

    def of_epoch(self, query: str, epoch: int) -> list[Stage]:
        return [s for k, s in self._by_key.items() if (k.query, k.epoch) == (query, epoch)]

    def of_keys(self, keys: Sequence[StageKey]) -> list[Stage]:
        """The stages under some keys, in order of their partitions.

        Raises:
            FailedPrecondition: There is none under a key.
        """
        unknown = [key for key in keys if key not in self._by_key]
        if unknown:
            more = f" ({len(unknown)} such)" if len(unknown) > 1 else ""
            raise FailedPrecondition(
                f"nothing is staged as {unknown[0]}{more}; it may have expired, or never arrived"
            )
        return [self._by_key[key] for key in sorted(keys, key=lambda key: key.partition)]

    async def read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        """Rows of a stage from a position on, and where they end."""
        return await self._spool.read(stage, position, max_bytes)

    def hold(self, stages: Iterable[Stage]) -> None:
        """Keep stages while a commit reads them."""
        self._held |= {stage.id for stage in stages}

    async def let_go(self, stages: Sequence[Stage]) -> None:
        """Hold stages no longer; those that were staged anew meanwhile have given way."""
        self._held -= {stage.id for stage in stages}
        await self.remove([s for s in stages if self._by_key.get(s.key) is not s])

    async def remove(self, stages: Iterable[Stage]) -> None:
        gone = [stage for stage in stages if self._by_id.pop(stage.id, None) is not None]
        for stage in gone:
            self._size_bytes -= stage.size_bytes
            if self._by_key.get(stage.key) is stage:
                del self._by_key[stage.key]
        await self._spool.remove(gone)

    async def remove_expired(self) -> int:
        """Remove stages that were not committed in time; returns how many."""
        kept = self._named_by_commits() | self._held
        over = [s for s in self._by_id.values() if self._is_expired(s) and s.id not in kept]
        if over:
            await self.remove(over)
        return len(over)

    def _named_by_commits(self) -> set[str]:
        """Ids of the stages of epochs that are being published in parts."""
        return {stage for one in self._ledger.hard.sinks.all_committing() for stage in one.stages}

    def _is_expired(self, stage: Stage) -> bool:
        return self._clock.now() - stage.staged_s > limits.STAGE_LIFE_S
