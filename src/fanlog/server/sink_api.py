"""fanlog.v1 Sink: publishing exactly once from many tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.sinks import StageKey
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.calls import Call, Context, Unary, parsed
from fanlog.v1 import sink_pb2 as pb
from fanlog.wire.parts import check_fields
from fanlog.wire.stage import parse_rows, split_request

SINK = "fanlog.v1.Sink"

_PARTITION_MAX = 2**31 - 1


def methods(broker: Broker) -> dict[str, Unary]:
    """Every method of the service that takes one request: bytes to bytes."""
    api = SinkApi(broker)
    return {
        "CommitEpoch": _counted(parsed(pb.CommitEpochRequest, api.commit_epoch)),
        "AbortEpoch": parsed(pb.AbortEpochRequest, api.abort_epoch),
        "GetQuery": parsed(pb.GetQueryRequest, api.get_query),
    }


def _counted(commit_epoch: Unary) -> Unary:
    """The verb, refusing an epoch of too many stages before they are parsed."""

    async def call(raw: bytes, context: Call) -> bytes:
        check_fields(raw, limits.EPOCH_STAGES_MAX + 10, "stages")
        return await commit_epoch(raw, context)

    return call


async def stage(broker: Broker, context: Context) -> bytes:
    """Answer a Stage: rows as they come, staged when the client has no more."""
    # What gRPC says of `read` has no word for the end.
    read: Callable[[], Awaitable[Any]] = context.read
    raw = await read()
    if raw is grpc.aio.EOF:
        raise InvalidArgument("key: the first request of the call must have one")
    key, parts = split_request(raw)
    if key is None:
        raise InvalidArgument("key: the first request of the call must have one")
    staging = await broker.sink.stage(_key(key, "key"))
    row = 0
    try:
        while True:
            for part in parts:
                found, count = parse_rows(part, row, staging.refuse, broker.message_bytes_max)
                row += count
                for rows in found:
                    await staging.add(rows.topic, rows.body, rows.numbers)
                await asyncio.sleep(0)
            raw = await read()
            if raw is grpc.aio.EOF:
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
    return bytes(response.SerializeToString())


class SinkApi:
    def __init__(self, broker: Broker) -> None:
        self._sink = broker.sink

    async def commit_epoch(self, request: Any) -> Any:
        query, epoch = _query(request.query, "query"), _epoch(request.epoch, "epoch")
        if len(request.stages) > limits.EPOCH_STAGES_MAX:
            raise InvalidArgument(
                f"stages: {len(request.stages)} stages; at most {limits.EPOCH_STAGES_MAX} are "
                "allowed"
            )
        keys = [_key(one, f"stages[{i}]") for i, one in enumerate(request.stages)]
        for index, key in enumerate(keys):
            if (key.query, key.epoch) != (query, epoch):
                raise InvalidArgument(f"stages[{index}]: {key} is of another query or epoch")
        if len({key.partition for key in keys}) < len(keys):
            raise InvalidArgument("stages: two are of one partition; one attempt wins")
        messages, is_repeated = await self._sink.commit(query, epoch, keys)
        return pb.CommitEpochResponse(messages=messages, repeated_epoch=is_repeated)

    async def abort_epoch(self, request: Any) -> Any:
        await self._sink.abort(_query(request.query, "query"), _epoch(request.epoch, "epoch"))
        return pb.AbortEpochResponse()

    async def get_query(self, request: Any) -> Any:
        last = await self._sink.last_epoch(_query(request.query, "query"))
        return pb.GetQueryResponse(last_epoch=last)


def _key(key: Any, where: str) -> StageKey:
    if not 0 <= key.partition <= _PARTITION_MAX:
        raise InvalidArgument(
            f"{where}.partition: {key.partition} is out of range; 0 to {_PARTITION_MAX} are allowed"
        )
    return StageKey(
        _query(key.query, f"{where}.query"),
        _epoch(key.epoch, f"{where}.epoch"),
        key.partition,
        _query(key.attempt, f"{where}.attempt"),
    )


def _query(name: str, where: str) -> str:
    if not 0 < len(name.encode()) <= limits.QUERY_BYTES_MAX:
        raise InvalidArgument(
            f"{where}: {names.shown(name)} has not 1 to {limits.QUERY_BYTES_MAX} bytes"
        )
    return name


def _epoch(epoch: int, where: str) -> int:
    if not 0 <= epoch <= limits.EPOCH_MAX:
        raise InvalidArgument(
            f"{where}: {epoch} is out of range; 0 to {limits.EPOCH_MAX} are allowed"
        )
    return epoch
