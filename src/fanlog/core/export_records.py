"""Hard state of exports: which batch each is at, and what is in it.

As `fanlog.core.records`, which decodes these too.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.core.shape import check_shape
from fanlog.model.resources import FileExport, PartitionId, SubscriptionId, TableExport

_VERSION_BYTE = b"\x01"
_ID = struct.Struct(">Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProgress:
    """How far an export is. Without offsets, nothing of it is under way."""

    #: Of the batch under way; otherwise of the last one that was.
    number: int
    #: The last batch whose messages were acknowledged.
    advanced: int
    #: When the batch under way was made, and for what.
    created_s: float = 0.0
    table: TableExport | None = None
    files: FileExport | None = None
    #: Its messages; bitmaps are never changed in place.
    offsets: Mapping[PartitionId, BitMap64] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportRecord:
    KIND: ClassVar[bytes] = b"X"
    owner: SubscriptionId
    #: None forgets it.
    progress: ExportProgress | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.owner)

    def value(self) -> bytes | None:
        progress = self.progress
        if progress is None:
            return None
        fields = {
            "number": progress.number,
            "advanced": progress.advanced,
            "created_s": progress.created_s,
            "table": None if progress.table is None else asdict(progress.table),
            "files": None if progress.files is None else asdict(progress.files),
            "offsets": {
                str(partition): b64encode(_compact(bits)).decode("ascii")
                for partition, bits in progress.offsets.items()
            },
        }
        return _VERSION_BYTE + json.dumps(fields, separators=(",", ":")).encode()


def decode(kind: bytes, rest: bytes, body: bytes) -> ExportRecord | None:
    """The record of this kind; None for another kind. Raises what unpacking raises."""
    if kind != ExportRecord.KIND:
        return None
    fields = json.loads(body)
    table, files = fields["table"], fields["files"]
    progress = ExportProgress(
        number=fields["number"],
        advanced=fields["advanced"],
        created_s=fields["created_s"],
        table=TableExport(**table) if table else None,
        files=FileExport(**files) if files else None,
        offsets={
            PartitionId(int(partition)): BitMap64.deserialize(b64decode(bits, validate=True))
            for partition, bits in fields["offsets"].items()
        },
    )
    for one in (progress.table, progress.files):
        if one is not None:
            check_shape(one)
    if type(fields["number"]) is not int or type(fields["advanced"]) is not int:
        raise TypeError("number and advanced must be whole")
    return ExportRecord(SubscriptionId(_ID.unpack(rest)[0]), progress)


def _compact(bits: BitMap64) -> bytes:
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()
