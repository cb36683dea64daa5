"""Requests of `fanlog.v1` that were damaged on the way: always an answer, never INTERNAL."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

import grpc
import pytest

from fanlog.v1 import inspection_pb2, log_pb2, sink_pb2
from fanlog.v1.message_pb2 import Message
from server.conftest import PATIENCE_S, PROJECT

ROUNDS = 150
NEVER = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED"}


def seeds(topic: str, subscription: str, partition: int) -> dict[str, Any]:
    """A request that is fine, by method; of Stage, the first of its call."""
    chosen = log_pb2.TopicSelection(topics=[topic])
    pattern = log_pb2.TopicSelection(pattern=f"projects/{PROJECT}/topics/a.#")
    one = log_pb2.Range(topic=topic, partition=partition, start=0, end=2, size_bytes=7)
    key = sink_pb2.StageKey(query="rubbish", epoch=1, partition=2, attempt="a")
    rows = sink_pb2.StagedRows(
        topic=topic, messages=[Message(data=b"a", attributes={"k": "v"}, ordering_key="o")]
    )
    times = log_pb2.FindOffsetsRequest(selection=pattern)
    times.time.FromSeconds(1_700_000_000)
    return {
        "Log/GetOffsets": log_pb2.GetOffsetsRequest(selection=chosen),
        "Log/GetRanges": log_pb2.GetRangesRequest(
            selection=chosen, after_sequence=1, to_sequence=2, max_messages=3, max_bytes=4
        ),
        "Log/FindOffsets": times,
        "Log/GetPlaces": log_pb2.GetPlacesRequest(selection=chosen),
        "Log/Read": log_pb2.ReadRequest(ranges=[one, one]),
        "Log/ReportArchived": log_pb2.ReportArchivedRequest(
            lake_id="l", table_version=1, sequence=2
        ),
        "Inspection/Peek": inspection_pb2.PeekRequest(
            subscription=subscription, max_messages=3, message_id=f"{partition}000000000000"
        ),
        "Inspection/GetBacklog": inspection_pb2.GetBacklogRequest(
            subscription=subscription, by_topic=True
        ),
        "Inspection/ListBacklogs": inspection_pb2.ListBacklogsRequest(
            project=f"projects/{PROJECT}", page_size=2
        ),
        "Inspection/Trace": inspection_pb2.TraceRequest(
            message_id=f"{partition}000000000000", subscription=subscription, attributes=True
        ),
        "Inspection/Purge": inspection_pb2.PurgeRequest(
            subscription=subscription, message_id=f"{partition}000000000000", dry_run=True
        ),
        "Sink/Stage": sink_pb2.StageRequest(key=key, rows=[rows]),
        "Sink/CommitEpoch": sink_pb2.CommitEpochRequest(query="rubbish", epoch=1, stages=[key]),
        "Sink/AbortEpoch": sink_pb2.AbortEpochRequest(query="rubbish", epoch=1),
        "Sink/GetQuery": sink_pb2.GetQueryRequest(query="rubbish"),
    }


def damaged(raw: bytes, chance: random.Random) -> bytes:
    body = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                del body[at:]
            case 1:
                body[at:at] = chance.randbytes(chance.randint(1, 4))
            case 2 if at < len(body):
                body[at] ^= 1 << chance.randrange(8)
            case _:
                body += body[at:]
    return bytes(body)


@pytest.mark.parametrize("method", seeds("t", "s", 1))
def test_damaged_requests(server, method):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, b"a", b"b")
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    raw = seeds(topic, subscription, partition)[method].SerializeToString()
    chance = random.Random(method)
    found: list[tuple[str, bytes, str]] = []
    with closing(server.channel()) as channel:
        path = f"/fanlog.v1.{method}"
        for _ in range(ROUNDS):
            request = damaged(raw, chance)
            try:
                if method == "Log/Read":
                    list(channel.unary_stream(path)(request, timeout=PATIENCE_S))
                elif method == "Sink/Stage":
                    channel.stream_unary(path)(iter([request]), timeout=PATIENCE_S)
                else:
                    channel.unary_unary(path)(request, timeout=PATIENCE_S)
            except grpc.RpcError as error:
                found.append((error.code().name, request, error.details()))
    assert [one for one in found if one[0] in NEVER] == []
    assert found
