"""fanlog.v1.Lake, for any surface."""

from __future__ import annotations

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.model.lake_tables import FileLook, TableLook
from fanlog.server.methods import method
from fanlog.v1 import lake_pb2 as pb
from fanlog.wire.fields import timestamp

#: Ranges of offsets that are named of a partition.
RANGES_MAX = 100


async def get_lake(broker: Broker, _: pb.GetLakeRequest) -> pb.LakeStatus:
    tiers = broker.tiers
    return pb.LakeStatus(
        uri=tiers.lake_uri,
        id=tiers.lake_id,
        alarm=tiers.alarm,
        archived_sequence=tiers.archived_sequence,
        sequence=broker.ledger.committed_sequence,
        damaged=tiers.damaged[: limits.DAMAGE_SHOWN_MAX],
        damaged_places=len(tiers.damaged),
        lost_messages=sum(map(len, broker.hard.lost.values())),
    )


async def list_tables(broker: Broker, _: pb.ListTablesRequest) -> pb.ListTablesResponse:
    looked_s, tables = await broker.lake_tables.recent()
    return pb.ListTablesResponse(tables=map(_table_pb, tables), look_time=timestamp(looked_s))


def _table_pb(table: TableLook) -> pb.LakeTable:
    return pb.LakeTable(
        name=table.name,
        version=table.version,
        rows=table.rows,
        files=table.files,
        bytes=table.size_bytes,
        small_files=table.small_files,
        largest=map(_file_pb, table.largest),
        smallest=map(_file_pb, table.smallest),
        trouble=table.trouble,
    )


def _file_pb(file: FileLook) -> pb.LakeFile:
    return pb.LakeFile(path=file.path, bytes=file.size_bytes, rows=file.rows)


async def accept_loss(broker: Broker, request: pb.AcceptLossRequest) -> pb.AcceptLossResponse:
    found = await broker.accept_loss(confirm=request.confirm)
    answer = pb.AcceptLossResponse(
        accepted=found.is_accepted,
        known_lake_id=found.known_lake_id,
        lake_id=found.lake_id,
        sequence=found.sequence,
        messages=sum(loss.messages for loss in found.losses),
        leaving=sum(loss.leaving for loss in found.losses),
    )
    for loss in found.losses:
        answer.losses.add(
            topic=loss.topic,
            partition=loss.partition,
            messages=loss.messages,
            leaving=loss.leaving,
            start=loss.start,
            ranges=[pb.LostRange(start=start, end=end) for start, end in loss.ranges[:RANGES_MAX]],
        )
    return answer


METHODS = (
    method("GetLake", pb.GetLakeRequest, pb.LakeStatus, get_lake),
    method("ListTables", pb.ListTablesRequest, pb.ListTablesResponse, list_tables),
    method("AcceptLoss", pb.AcceptLossRequest, pb.AcceptLossResponse, accept_loss),
)
