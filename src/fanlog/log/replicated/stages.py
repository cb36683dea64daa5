"""Stages as entries of the partition, and the files that a cache has of them.

A *stage* is a file that nobody reads before it is finished: pieces, and an end that says what it
is; the log knows no more of it (`fanlog.broker.logged_spool` does). Each node has the file, so the
node that takes over goes on with it.

    ID.draft    pieces so far
    ID.stage    all of it

Files are written before the facts that say so: an entry may be applied twice, and nothing comes of
it. Like the rest of the cache they are not synced.
"""

from __future__ import annotations

import os
from pathlib import Path

from fanlog.log import folder
from fanlog.log.replicated.bodies import StageEnd, StagePiece, StagesRemoved

DRAFT_SUFFIX, STAGE_SUFFIX = ".draft", ".stage"


class StageFiles:
    """The stages in a folder, which is made with the first."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def apply(self, body: object) -> None:
        """Apply an entry, if it is about a stage.

        Raises:
            DiskFull, CommitFailed: A file could not be written.
        """
        try:
            match body:
                case StagePiece():
                    if not self._path(body.stage_id, STAGE_SUFFIX).exists():
                        self._write(body.stage_id, body.content, body.position)
                case StageEnd():
                    if not self._path(body.stage_id, STAGE_SUFFIX).exists():
                        self._end(body)
                case StagesRemoved():
                    for stage_id in body.stage_ids:
                        self._path(stage_id, DRAFT_SUFFIX).unlink(missing_ok=True)
                        self._path(stage_id, STAGE_SUFFIX).unlink(missing_ok=True)
                case _:
                    pass
        except OSError as error:
            raise folder.write_error(error, "a stage", self.place) from error

    def draft_ids(self) -> list[str]:
        """Ids of the stages that were begun and not finished."""
        if not self.place.exists():
            return []
        return sorted(path.stem for path in self.place.iterdir() if path.suffix == DRAFT_SUFFIX)

    def _end(self, end: StageEnd) -> None:
        self._write(end.stage_id, end.said, end.position)
        draft = self._path(end.stage_id, DRAFT_SUFFIX)
        draft.rename(self._path(end.stage_id, STAGE_SUFFIX))

    def _write(self, stage_id: str, content: bytes | memoryview, position: int) -> None:
        """Write at a position; the file ends there then."""
        path = self._path(stage_id, DRAFT_SUFFIX)
        path.parent.mkdir(folder.FOLDER_MODE, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, folder.FILE_MODE)
        try:
            view = memoryview(content)
            while view:
                written = os.pwrite(descriptor, view, position)
                view, position = view[written:], position + written
            os.ftruncate(descriptor, position)
        finally:
            os.close(descriptor)

    def _path(self, stage_id: str, suffix: str) -> Path:
        return self.place / (stage_id + suffix)
