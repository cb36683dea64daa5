"""Records of the lake: the offsets that it has, and those that it has lost."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.records.codec import BITMAP, NOTHING, Form, Stored, numbers, record, to_json
from fanlog.model.resources import Offset, PartitionId


def _pack_lake(lake_id: str, table_version: int, sequence: int) -> bytes:
    return to_json({"id": lake_id, "table_version": table_version, "sequence": sequence})


def _unpack_lake(body: bytes) -> tuple[str, int, int]:
    match json.loads(body):
        case {"id": str(lake_id), "table_version": int(version), "sequence": int(sequence), **more}:
            if not more and not isinstance(version, bool) and not isinstance(sequence, bool):
                return lake_id, version, sequence
    raise ValueError("it is not a lake's id, version and commit sequence")


@record("Z", key=NOTHING, value=Form(_pack_lake, _unpack_lake, 3))
@dataclass(frozen=True, slots=True)
class LakeRecord(Stored):
    """The lake that has the archived messages, and how far the broker has seen that for itself."""

    id: str
    #: Of the table `messages`, when the broker last looked at it.
    table_version: int
    #: Commits up to and with this one are in it.
    sequence: int


@record("V", key=numbers(">I"), value=numbers("<QQ?"))
@dataclass(frozen=True, slots=True)
class ArchivedRecord(Stored):
    """The offsets of a partition that the lake has: from `start` to before `end`."""

    partition: PartitionId
    #: None forgets them.
    start: Offset | None
    end: Offset = 0
    #: Whether the next messages that the archive takes follow on `end`; False once the topic was
    #: kept out of the archive.
    is_open: bool = True


@record("E", key=numbers(">I"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class LostRecord(Stored):
    """Offsets of a partition that are passed over when the lake cannot give them: it was accepted
    that they are lost.
    """

    partition: PartitionId
    #: None forgets them.
    offsets: BitMap64 | None


LakeState = LakeRecord | ArchivedRecord | LostRecord
