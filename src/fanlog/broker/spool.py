"""Where staged rows wait: a port, with a spool in memory and one in files.

A *stage* is a run of batches (`fanlog.log.batch`, each with its checksums), and what it says of
itself. It is whole or it is not there: a draft becomes a stage when it is finished, and is durable
then, where the spool is. `docs/internals/data_files.md` draws the file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from crc32c import crc32c

from fanlog.core import records
from fanlog.core.records import CommittingRecord
from fanlog.core.shape import reader
from fanlog.core.sinks import StageKey
from fanlog.errors import DataLoss, ResourceExhausted
from fanlog.log import batch as codec
from fanlog.log.batch import Batch, BatchDamaged
from fanlog.log.side_files import SideFiles

log = logging.getLogger("fanlog.spool")

FOLDER_NAME = "stages"
_MAGIC = b"\xfaFLS"
_FORMAT_VERSION = 1
#: At the end of a file: length of the JSON before it, its checksum, version, flags, magic.
_FOOTER = struct.Struct("<IIHH4s")
#: Raised for a file that is no whole stage.
UNREADABLE = (OSError, ValueError, TypeError, LookupError, struct.error)
_SUFFIX, _DRAFT_SUFFIX, _DAMAGED_SUFFIX = ".stage", ".draft", ".damaged"


def _stages_named(key: bytes, value: bytes) -> list[str]:
    try:
        record = records.decode(key, value)
    except (ValueError, TypeError, KeyError):
        return []
    committing = record.committing if isinstance(record, CommittingRecord) else None
    return [] if committing is None else [f"{stage}{_SUFFIX}" for stage in committing.stages]


#: What a backup takes along: stages of epochs that are published in part. One that is not begun is
#: staged again.
BESIDE = SideFiles(FOLDER_NAME, CommittingRecord.KIND, _stages_named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage, as the end of its file describes it."""

    id: str
    key: StageKey
    messages: int
    #: Of its batches.
    size_bytes: int
    #: Ids of the topics its rows are for.
    topics: tuple[int, ...]
    staged_s: float


_make_stage = reader(Stage)


class Draft(Protocol):
    """A stage in the making; its owner finishes or discards it."""

    async def write(self, values: Sequence[bytes]) -> None:
        """Add stored batches."""

    async def finish(self, stage: Stage) -> None:
        """Make it a stage; durable when this returns."""

    async def discard(self) -> None:
        """Forget it."""


class Spool(Protocol):
    #: How many bytes may be staged at once.
    size_bytes_max: int

    async def load(self) -> list[Stage]:
        """The stages from before a start; drafts are removed, damaged stages are put aside."""

    async def draft(self, stage_id: str) -> Draft: ...

    async def read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        """Batches from a position on, at least one unless it is the end; and where they end.

        Raises:
            DataLoss: They are damaged, or gone.
        """

    async def remove(self, stages: Sequence[Stage]) -> None:
        """Forget stages; some may be gone already."""


class MemorySpool:
    """For a log that does not survive its process either."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._contents: dict[str, bytes] = {}

    async def load(self) -> list[Stage]:
        return []

    async def draft(self, stage_id: str) -> Draft:
        return _MemoryDraft(self._contents)

    async def read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        content = self._contents.get(stage.id)
        if content is None:
            raise _gone(stage)
        return _decode(stage, memoryview(content), position, max_bytes)

    async def remove(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            self._contents.pop(stage.id, None)


class _MemoryDraft:
    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents
        self._values: list[bytes] = []

    async def write(self, values: Sequence[bytes]) -> None:
        self._values += values

    async def finish(self, stage: Stage) -> None:
        self._contents[stage.id] = b"".join(self._values)

    async def discard(self) -> None:
        self._values.clear()


class FileSpool:
    """One file a stage, in a folder of its own; all of the blocking happens in threads."""

    def __init__(self, folder: Path, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._folder = folder
        #: Whether the folder is there, and will be after a power cut; for threads to agree on.
        self._is_made = False
        self._making = threading.Lock()

    async def load(self) -> list[Stage]:
        return await asyncio.to_thread(self._load)

    async def draft(self, stage_id: str) -> Draft:
        creating = asyncio.create_task(asyncio.to_thread(self._create, stage_id))
        try:
            return _FileDraft(self._folder, await asyncio.shield(creating))
        except asyncio.CancelledError:
            # The caller has left; the file is made all the same, and must be removed again.
            await _FileDraft(self._folder, await creating).discard()
            raise

    async def read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        return await asyncio.to_thread(self._read, stage, position, max_bytes)

    async def remove(self, stages: Sequence[Stage]) -> None:
        await asyncio.to_thread(self._remove, stages)

    def _load(self) -> list[Stage]:
        found: list[Stage] = []
        with suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.suffix == _DRAFT_SUFFIX:
                    path.unlink()
                elif path.suffix == _SUFFIX:
                    try:
                        found.append(read_stage(path))
                    except UNREADABLE as error:
                        log.error("action=stage_unreadable file=%s error=%s", path.name, error)
                        path.rename(path.with_suffix(_DAMAGED_SUFFIX))
        return found

    def _create(self, stage_id: str) -> BinaryIO:
        with self._making:
            if not (self._is_made and self._folder.exists()):
                self._folder.mkdir(exist_ok=True)
                _sync_folder(self._folder.parent)
                self._is_made = True
        return open(self._folder / (stage_id + _DRAFT_SUFFIX), "xb", buffering=0)

    def _read(self, stage: Stage, position: int, max_bytes: int) -> tuple[list[Batch], int]:
        try:
            with open(self._folder / (stage.id + _SUFFIX), "rb") as file:
                file.seek(position)
                block = file.read(min(max_bytes, stage.size_bytes - position))
                # A batch that is larger than asked for comes whole.
                if len(block) >= codec.HEADER_BYTES:
                    needed = codec.decode_header(block).value_bytes
                    if needed > len(block):
                        block += file.read(needed - len(block))
        except OSError as error:
            raise _gone(stage) from error
        except BatchDamaged as error:
            raise _damaged(stage, position, error) from error
        batches, end = _decode(stage, memoryview(block), 0, len(block))
        return batches, position + end

    def _remove(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            (self._folder / (stage.id + _SUFFIX)).unlink(missing_ok=True)


class _FileDraft:
    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self._folder = folder
        self._file = file

    async def write(self, values: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._write, b"".join(values))

    async def finish(self, stage: Stage) -> None:
        await asyncio.to_thread(self._finish, stage)

    async def discard(self) -> None:
        await asyncio.to_thread(self._discard)

    def _write(self, content: bytes) -> None:
        try:
            view = memoryview(content)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise ResourceExhausted(f"rows cannot be staged: {error}") from error

    def _finish(self, stage: Stage) -> None:
        self._write(stage_end(stage))
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            draft = Path(self._file.name)
            draft.rename(draft.with_suffix(_SUFFIX))
            _sync_folder(self._folder)
        except OSError as error:
            raise ResourceExhausted(f"rows cannot be staged: {error}") from error

    def _discard(self) -> None:
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)


def stage_end(stage: Stage) -> bytes:
    """The end of a stage's file, behind its batches."""
    said = json.dumps(asdict(stage), separators=(",", ":")).encode()
    return said + _FOOTER.pack(len(said), crc32c(said), _FORMAT_VERSION, 0, _MAGIC)


def read_stage(path: Path) -> Stage:
    """The stage that the end of a file describes; its batches have checksums of their own.

    Raises:
        OSError, ValueError, TypeError, LookupError, struct.error: It is not readable; see
            `UNREADABLE`.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FOOTER.size))
        length, checksum, version, flags, magic = _FOOTER.unpack(file.read())
        if (magic, version, flags) != (_MAGIC, _FORMAT_VERSION, 0):
            raise ValueError(f"not a stage of format version {_FORMAT_VERSION}")
        if length > size - _FOOTER.size:
            raise ValueError("cut short")
        file.seek(size - _FOOTER.size - length)
        said = file.read(length)
    if crc32c(said) != checksum:
        raise ValueError("what it says of itself fails its checksum")
    stage = _make_stage(json.loads(said))
    if stage.id != path.stem or stage.size_bytes != size - _FOOTER.size - length:
        raise ValueError("it is another stage than its name or its size says")
    return stage


def _decode(
    stage: Stage, view: memoryview, position: int, max_bytes: int
) -> tuple[list[Batch], int]:
    found: list[Batch] = []
    begin = position
    try:
        while position < len(view):
            rest = view[position:]
            size = codec.decode_header(rest).value_bytes if _has_header(rest) else len(rest) + 1
            if size > len(rest) or (found and position + size - begin > max_bytes):
                break
            found.append(codec.decode(rest[:size]))
            position += size
    except BatchDamaged as error:
        raise _damaged(stage, position, error) from error
    if not found and position < len(view):
        raise _damaged(stage, position, "cut short")
    return found, position


def _has_header(view: memoryview) -> bool:
    return len(view) >= codec.HEADER_BYTES


def _damaged(stage: Stage, position: int, reason: object) -> DataLoss:
    return DataLoss(f"what was staged as {stage.key} is damaged at byte {position}: {reason}")


def _gone(stage: Stage) -> DataLoss:
    return DataLoss(f"what was staged as {stage.key} is gone from the disk")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
