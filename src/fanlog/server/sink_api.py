"""fanlog.v1.Sink: publishing exactly once from many tasks."""

from __future__ import annotations

import asyncio

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.iam import SERVER
from fanlog.core.sinks import StageKey
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.calls import Call, CallStream
from fanlog.server.methods import Method, StreamingMethod, method
from fanlog.server.permissions import PUBLISH, WRITE_SINKS
from fanlog.v1 import sink_pb2 as pb
from fanlog.wire import fields
from fanlog.wire.parts import check_fields
from fanlog.wire.stage import parse_rows, split_request

_PARTITION_MAX = 2**31 - 1


async def stage(broker: Broker, _: bytes, stream: CallStream) -> bytes:
    """Answer a Stage: rows are taken as they come, and staged when the client has no more."""
    raw = await stream.read()
    # A stage without rows counts, too, and may be in place of another.
    stream.caller.check(WRITE_SINKS, SERVER)
    with stream.caller.holding(WRITE_SINKS, SERVER):
        return await _stage(broker, raw, stream)


async def _stage(broker: Broker, raw: object, stream: CallStream) -> bytes:
    if not isinstance(raw, bytes):
        raise InvalidArgument("key: the first request of the call must have one")
    key, parts = split_request(raw)
    if key is None:
        raise InvalidArgument("key: the first request of the call must have one")
    staging = await broker.sink.stage(_read_key(key, "key"))
    row = 0
    try:
        while True:
            for part in parts:
                found, count = parse_rows(part, row, staging.refuse, broker.message_bytes_max)
                row += count
                for rows in found:
                    stream.caller.check(PUBLISH, rows.topic)
                    stream.caller.spend(rows.topic, rows.body.count, len(rows.body.content))
                    await staging.add(rows.topic, rows.body, rows.numbers)
                await asyncio.sleep(0)
            raw = await stream.read()
            if not isinstance(raw, bytes):
                break
            key, parts = split_request(raw)
            if key is not None:
                raise InvalidArgument("key: only the first request of the call may have one")
        staged = await staging.finish()
    finally:
        await staging.discard()
    response = pb.StageResponse(messages=staged.messages)
    for number, reason in staged.refused:
        response.refused.add(row=number, reason=reason)
    return response.SerializeToString()


async def commit_epoch(broker: Broker, raw: bytes, _: Call) -> bytes:
    # Counted before they are parsed: there may be very many.
    check_fields(raw, limits.EPOCH_STAGES_MAX + 10, "stages")
    request = fields.parse(pb.CommitEpochRequest, raw)
    query, epoch = _check_query(request.query, "query"), _check_epoch(request.epoch, "epoch")
    if len(request.stages) > limits.EPOCH_STAGES_MAX:
        raise InvalidArgument(
            f"stages: {len(request.stages)} stages; at most {limits.EPOCH_STAGES_MAX} are allowed"
        )
    keys = [_read_key(one, f"stages[{i}]") for i, one in enumerate(request.stages)]
    for index, key in enumerate(keys):
        if (key.query, key.epoch) != (query, epoch):
            raise InvalidArgument(f"stages[{index}]: {key} is of another query or epoch")
    if len({key.partition for key in keys}) < len(keys):
        raise InvalidArgument("stages: two are of one partition; one attempt wins")
    messages, is_repeated = await broker.sink.commit(query, epoch, keys)
    answer = pb.CommitEpochResponse(messages=messages, repeated_epoch=is_repeated)
    return answer.SerializeToString()


async def abort_epoch(broker: Broker, request: pb.AbortEpochRequest) -> pb.AbortEpochResponse:
    await broker.sink.abort(
        _check_query(request.query, "query"), _check_epoch(request.epoch, "epoch")
    )
    return pb.AbortEpochResponse()


async def get_query(broker: Broker, request: pb.GetQueryRequest) -> pb.GetQueryResponse:
    last = await broker.sink.last_epoch(_check_query(request.query, "query"))
    return pb.GetQueryResponse(last_epoch=last)


def _read_key(key: pb.StageKey, where: str) -> StageKey:
    if not 0 <= key.partition <= _PARTITION_MAX:
        raise InvalidArgument(
            f"{where}.partition: {key.partition} is out of range; 0 to {_PARTITION_MAX} are allowed"
        )
    return StageKey(
        _check_query(key.query, f"{where}.query"),
        _check_epoch(key.epoch, f"{where}.epoch"),
        key.partition,
        _check_query(key.attempt, f"{where}.attempt"),
    )


def _check_query(name: str, where: str) -> str:
    if not 0 < len(name.encode()) <= limits.QUERY_BYTES_MAX:
        raise InvalidArgument(
            f"{where}: {names.shown(name)} has not 1 to {limits.QUERY_BYTES_MAX} bytes"
        )
    return name


def _check_epoch(epoch: int, where: str) -> int:
    if not 0 <= epoch <= limits.EPOCH_MAX:
        raise InvalidArgument(
            f"{where}: {epoch} is out of range; 0 to {limits.EPOCH_MAX} are allowed"
        )
    return epoch


METHODS = (
    Method(
        "CommitEpoch",
        pb.CommitEpochRequest,
        pb.CommitEpochResponse,
        commit_epoch,
        request_bytes_max=limits.EPOCH_BYTES_MAX,
    ),
    method("AbortEpoch", pb.AbortEpochRequest, pb.AbortEpochResponse, abort_epoch),
    method("GetQuery", pb.GetQueryRequest, pb.GetQueryResponse, get_query),
)
STREAMS = (
    StreamingMethod(
        "Stage",
        pb.StageRequest,
        pb.StageResponse,
        stage,
        has_many_requests=True,
        has_many_answers=False,
    ),
)
