"""Records of exports: the batch that each export is at, and the messages in it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pyroaring import BitMap64

from fanlog.core.records.codec import Form, Stored, numbers, pack_bitmap, record, to_json
from fanlog.core.shape import reader
from fanlog.model.resources import FileExport, PartitionId, SubscriptionId, TableExport

_read_table = reader(TableExport)
_read_files = reader(FileExport)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProgress:
    """How far an export is. Without offsets, no batch of it is under way."""

    #: Of the batch under way; otherwise of the last one that was.
    number: int
    #: The last batch whose messages were acknowledged.
    advanced: int
    #: When the batch under way was made, and for which table or files.
    created_s: float = 0.0
    table: TableExport | None = None
    files: FileExport | None = None
    #: Its messages; bitmaps are never changed in place.
    offsets: Mapping[PartitionId, BitMap64] = field(default_factory=dict)


def _pack(progress: ExportProgress) -> bytes:
    return to_json(
        {
            "number": progress.number,
            "advanced": progress.advanced,
            "created_s": progress.created_s,
            "table": None if progress.table is None else asdict(progress.table),
            "files": None if progress.files is None else asdict(progress.files),
            "offsets": {
                str(partition): b64encode(pack_bitmap(bits)).decode("ascii")
                for partition, bits in progress.offsets.items()
            },
        }
    )


def _unpack(body: bytes) -> tuple[ExportProgress]:
    fields = json.loads(body)
    table, files = fields["table"], fields["files"]
    if type(fields["number"]) is not int or type(fields["advanced"]) is not int:
        raise TypeError("number and advanced must be whole")
    progress = ExportProgress(
        number=fields["number"],
        advanced=fields["advanced"],
        created_s=fields["created_s"],
        table=_read_table(table) if table else None,
        files=_read_files(files) if files else None,
        offsets={
            PartitionId(int(partition)): BitMap64.deserialize(b64decode(bits, validate=True))
            for partition, bits in dict(fields["offsets"]).items()
        },
    )
    return (progress,)


@record("X", key=numbers(">Q"), value=Form(_pack, _unpack))
@dataclass(frozen=True, slots=True)
class ExportRecord(Stored):
    owner: SubscriptionId
    #: None forgets the export.
    progress: ExportProgress | None
