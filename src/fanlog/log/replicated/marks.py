"""Marks of the story that say where a reader could begin: a value, its fold, and its bytes.

Every node keeps them, so that the next owner goes on with the snapshot and the pass of the last
one, and trims as it would have.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson

from fanlog.log.replicated.bodies import (
    Body,
    Carried,
    Checkpoint,
    SnapshotPiece,
    StageEnd,
    StagePiece,
    StagesRemoved,
)

#: Checkpoints that are remembered. When there are more, every second one is forgotten: trimming is
#: coarser then.
CHECKPOINTS_MAX = 1_024

_FORMAT_VERSION = 1


class Mark(NamedTuple):
    """A checkpoint."""

    offset: int
    #: Of the last commit before it.
    sequence: int
    #: Of all valid entries before it, ever.
    total_bytes: int


class MarkProgress(NamedTuple):
    """A snapshot, or a pass, that is not complete."""

    begin: int
    #: The key behind its last piece.
    until: bytes
    size_bytes: int
    #: Of a pass: the last sequence that it carries.
    up_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """As of the last entry that was read."""

    checkpoints: tuple[Mark, ...] = ()
    snapshot: MarkProgress | None = None
    #: The last complete snapshot: offset of its first piece, and its size; -1 before one.
    snapshot_begin: int = -1
    snapshot_bytes: int = 0
    carrying: MarkProgress | None = None
    #: The last complete pass: offset of its first entry, and the last sequence that it carries.
    carried_begin: int = -1
    carried_up_to: int = 0
    #: Where the first entry of each stage lies that was not removed.
    stages: dict[str, int] = field(default_factory=dict)

    def read(self, offset: int, sequence: int, size_bytes: int, body: Body) -> Marks:
        """The marks behind an entry that counts."""
        match body:
            case Checkpoint():
                return self._add(Mark(offset, sequence, body.total_bytes))
            case SnapshotPiece():
                return self._read_piece(offset, size_bytes, body)
            case Carried():
                return self._read_carried(offset, size_bytes, body)
            case StagePiece() | StageEnd():
                if body.stage_id in self.stages:
                    return self
                return replace(self, stages={**self.stages, body.stage_id: offset})
            case StagesRemoved():
                kept = {
                    stage_id: at
                    for stage_id, at in self.stages.items()
                    if stage_id not in body.stage_ids
                }
                return replace(self, stages=kept)
            case _:
                return self

    def _add(self, mark: Mark) -> Marks:
        checkpoints = (*self.checkpoints, mark)
        if len(checkpoints) > CHECKPOINTS_MAX:
            checkpoints = (*checkpoints[:-1:2], mark)
        return replace(self, checkpoints=checkpoints)

    def _read_piece(self, offset: int, size_bytes: int, piece: SnapshotPiece) -> Marks:
        before = self.snapshot
        if not piece.first:
            before = MarkProgress(offset, b"", 0)
        if before is None or (before.begin, before.until) != (piece.begin, piece.first):
            # Of a snapshot whose begin was not seen.
            return self
        size_bytes += before.size_bytes
        if piece.until:
            return replace(self, snapshot=MarkProgress(before.begin, piece.until, size_bytes))
        return replace(self, snapshot=None, snapshot_begin=before.begin, snapshot_bytes=size_bytes)

    def _read_carried(self, offset: int, size_bytes: int, carried: Carried) -> Marks:
        before = self.carrying
        if not carried.first:
            before = MarkProgress(offset, b"", 0, carried.up_to)
        if before is None or (before.begin, before.until, before.up_to) != (
            carried.begin,
            carried.first,
            carried.up_to,
        ):
            return self
        size_bytes += before.size_bytes
        if carried.until:
            progress = MarkProgress(before.begin, carried.until, size_bytes, carried.up_to)
            return replace(self, carrying=progress)
        return replace(self, carrying=None, carried_begin=before.begin, carried_up_to=carried.up_to)

    def to_bytes(self) -> bytes:
        return orjson.dumps(
            {
                "version": _FORMAT_VERSION,
                "checkpoints": [list(mark) for mark in self.checkpoints],
                "snapshot": _to_json(self.snapshot),
                "snapshot_begin": self.snapshot_begin,
                "snapshot_bytes": self.snapshot_bytes,
                "carrying": _to_json(self.carrying),
                "carried_begin": self.carried_begin,
                "carried_up_to": self.carried_up_to,
                "stages": self.stages,
            }
        )


def parse_marks(content: bytes) -> Marks:
    """The marks that `to_bytes` made the bytes of.

    Raises:
        ValueError: They are of another version, or no marks.
    """
    said = orjson.loads(content)
    try:
        if said["version"] != _FORMAT_VERSION:
            raise ValueError(f"marks of version {said['version']}")
        return Marks(
            checkpoints=tuple(Mark(*mark) for mark in said["checkpoints"]),
            snapshot=_of_json(said["snapshot"]),
            snapshot_begin=said["snapshot_begin"],
            snapshot_bytes=said["snapshot_bytes"],
            carrying=_of_json(said["carrying"]),
            carried_begin=said["carried_begin"],
            carried_up_to=said["carried_up_to"],
            stages=said["stages"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the marks of a partition: {error!r}") from error


def _to_json(progress: MarkProgress | None) -> list[object] | None:
    if progress is None:
        return None
    return [progress.begin, progress.until.hex(), progress.size_bytes, progress.up_to]


def _of_json(said: list[object] | None) -> MarkProgress | None:
    if said is None:
        return None
    begin, until, size_bytes, up_to = said
    return MarkProgress(begin, bytes.fromhex(until), size_bytes, up_to)  # type: ignore[arg-type]
