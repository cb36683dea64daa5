"""A spool whose stages are in a replicated log: the node that takes over has them, too."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from fanlog.broker.spool import UNREADABLE, Draft, FileSpool, Stage, read_stage, stage_end
from fanlog.errors import CommitFailed, DataLoss
from fanlog.log.batch import Batch
from fanlog.log.replicated.api import ReplicatedEngine

log = logging.getLogger("fanlog.spool")


class LoggedSpool:
    """A `Spool` on the files that a replicated log has of its stages; for the node that owns."""

    def __init__(self, log: ReplicatedEngine, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._log = log
        self._files = FileSpool(log.stages_dir, size_bytes_max)

    async def load(self) -> list[Stage]:
        """The stages from before; drafts, whose tasks are gone, are removed.

        Raises:
            DataLoss: A stage is damaged here. Other nodes may have it whole, so it is not put
                aside: the log begins again from its partition.
        """
        return await asyncio.to_thread(self._load)

    async def draft(self, stage_id: str) -> Draft:
        return _LoggedDraft(self._log, stage_id)

    async def read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        try:
            return await self._files.read(stage, position, max_bytes)
        except DataLoss as error:
            self._log.distrust(error.message)
            raise

    async def remove(self, stages: Sequence[Stage]) -> None:
        if stages:
            gone = [stage.id for stage in stages]
            await asyncio.to_thread(self._log.remove_stages, gone)

    def _load(self) -> list[Stage]:
        self._log.remove_stages(self._log.unfinished_stages())
        found: list[Stage] = []
        for path in sorted(self._log.stages_dir.glob("*.stage")):
            try:
                found.append(read_stage(path))
            except UNREADABLE as error:
                reason = f"the stage {path.name} is damaged: {error}"
                self._log.distrust(reason)
                raise DataLoss(reason) from error
        return found


class _LoggedDraft:
    """A write whose caller has left goes on in its thread; nothing comes behind a removal."""

    def __init__(self, log: ReplicatedEngine, stage_id: str) -> None:
        self._log = log
        self._id = stage_id
        self._position = 0
        #: Held while something is appended.
        self._appending = threading.Lock()
        self._is_over = False

    async def write(self, values: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._unless_over, lambda: self._write(b"".join(values)))

    async def finish(self, stage: Stage) -> None:
        await asyncio.to_thread(self._unless_over, lambda: self._finish(stage_end(stage)))

    async def discard(self) -> None:
        await asyncio.to_thread(self._unless_over, self._discard)

    def _unless_over(self, do: Callable[[], None]) -> None:
        with self._appending:
            if not self._is_over:
                do()

    def _write(self, content: bytes) -> None:
        self._log.write_stage(self._id, self._position, content)
        self._position += len(content)

    def _finish(self, said: bytes) -> None:
        self._log.end_stage(self._id, self._position, said)

    def _discard(self) -> None:
        self._is_over = True
        try:
            self._log.remove_stages([self._id])
        except CommitFailed as error:
            # The next owner removes drafts before it begins.
            log.info("action=draft_left stage=%s error=%s", self._id, error)
