"""fanlog.v1.Log: the log itself, for programs that read all of it.

Batches go out as they are stored, written into the answer by hand: no message is looked at here.
"""

from __future__ import annotations

from contextlib import ExitStack

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.pacing import paced
from fanlog.broker.verbs.log_reads import Chunk, LogRange, TopicSelection
from fanlog.errors import InvalidArgument
from fanlog.log.api import Damaged
from fanlog.model import names
from fanlog.model.resources import PartitionId
from fanlog.server.calls import CallStream
from fanlog.server.methods import StreamingMethod, method
from fanlog.server.permissions import READ_LOG
from fanlog.server.request_bounds import check_size
from fanlog.v1 import log_pb2 as pb
from fanlog.wire import fields
from fanlog.wire.encode import varint

_TAG_BATCHES = b"\x0a"
_PARTITION_MAX = 2**32 - 1

assert pb.ReadResponse.DESCRIPTOR.fields_by_name["batches"].number == 1


async def read(broker: Broker, raw: bytes, stream: CallStream) -> None:
    """Answer a Read. A chunk is read when gRPC has taken the last: a slow reader holds one."""
    check_size(raw, limits.REQUEST_BYTES_MAX)
    request = fields.parse(pb.ReadRequest, raw)
    if not 0 < len(request.ranges) <= limits.LOG_READ_RANGES_MAX:
        raise InvalidArgument(
            f"ranges: {len(request.ranges)} ranges; 1 to {limits.LOG_READ_RANGES_MAX} are allowed"
        )
    numbered = list(enumerate(request.ranges))
    ranges = [_read_range(one, index) async for index, one in paced(numbered)]
    topics = {one.topic for one in ranges}
    for topic in topics:
        stream.caller.check(READ_LOG, topic)
    with ExitStack() as held:
        for topic in topics:
            held.enter_context(stream.caller.holding(READ_LOG, topic))
        async for chunk in broker.log_reads.read(ranges):
            await stream.write(_read_response(chunk))


async def get_offsets(broker: Broker, request: pb.GetOffsetsRequest) -> pb.GetOffsetsResponse:
    reads, tiers = broker.log_reads, broker.tiers
    found = await reads.offsets(_read_selection(request.selection))
    return pb.GetOffsetsResponse(
        log_id=reads.log_id,
        sequence=found.sequence,
        partitions=[
            pb.PartitionOffsets(
                topic=one.topic,
                partition=one.partition,
                start=one.start,
                hot_start=one.hot_start,
                archived=one.archived,
                end=one.end,
                is_archived=one.is_archived,
            )
            async for one in paced(found.partitions)
        ],
        lake_uri=tiers.lake_uri,
        lake_id=tiers.lake_id,
        filter=found.filter,
        archived_sequence=tiers.archived_sequence,
    )


async def get_ranges(broker: Broker, request: pb.GetRangesRequest) -> pb.GetRangesResponse:
    for name in ("max_messages", "max_bytes"):
        if getattr(request, name) < 0:
            raise InvalidArgument(f"{name}: {getattr(request, name)} is less than 0")
    found = await broker.log_reads.ranges(
        _read_selection(request.selection),
        after_sequence=request.after_sequence,
        to_sequence=request.to_sequence,
        max_messages=request.max_messages,
        max_bytes=request.max_bytes,
    )
    return pb.GetRangesResponse(
        sequence=found.sequence,
        ranges=[_range_pb(one) async for one in paced(found.ranges)],
        messages=found.messages,
        hot_after_sequence=found.hot_after_sequence,
    )


async def find_offsets(broker: Broker, request: pb.FindOffsetsRequest) -> pb.FindOffsetsResponse:
    if not request.HasField("time"):
        raise InvalidArgument("time: is needed")
    time_ns = fields.time_ns_of(request.time, "time")
    found = await broker.log_reads.find(_read_selection(request.selection), time_ns)
    return pb.FindOffsetsResponse(
        offsets=[
            pb.PartitionOffset(topic=one.topic, partition=one.partition, offset=one.start)
            async for one in paced(found)
        ]
    )


async def get_places(broker: Broker, request: pb.GetPlacesRequest) -> pb.GetPlacesResponse:
    found = await broker.log_reads.places(_read_selection(request.selection))
    return pb.GetPlacesResponse(
        partitions=[
            pb.PartitionPlaces(
                topic=one.topic,
                partition=one.partition,
                end=one.end,
                offsets=one.offsets,
                anchors=one.anchors,
            )
            async for one in paced(found)
        ]
    )


async def report_archived(
    broker: Broker, request: pb.ReportArchivedRequest
) -> pb.ReportArchivedResponse:
    for name in ("table_version", "sequence"):
        if getattr(request, name) < 0:
            raise InvalidArgument(f"{name}: {getattr(request, name)} is less than 0")
    seen = await broker.tiers.report_archived(
        request.lake_id, request.table_version, request.sequence
    )
    return pb.ReportArchivedResponse(sequence=seen)


def _read_selection(selection: pb.TopicSelection) -> TopicSelection:
    said = [name for name in ("topics", "pattern", "subscription") if getattr(selection, name)]
    if len(said) > 1:
        raise InvalidArgument(f"selection: {' and '.join(said)} are given; one of them is allowed")
    if len(selection.topics) > limits.LOG_TOPICS_MAX:
        raise InvalidArgument(
            f"selection.topics: {len(selection.topics)} names; at most {limits.LOG_TOPICS_MAX} are "
            "allowed, or a pattern"
        )
    for name in selection.topics:
        names.parse_topic(name, field="selection.topics")
    if selection.pattern:
        names.parse_topic_or_pattern(selection.pattern, field="selection.pattern")
    if selection.subscription:
        names.parse_subscription(selection.subscription, field="selection.subscription")
    return TopicSelection(
        topics=tuple(selection.topics),
        pattern=selection.pattern,
        subscription=selection.subscription,
    )


def _read_range(one: pb.Range, index: int) -> LogRange:
    # Without a name a number alone would open any project's log.
    names.parse_topic(one.topic, field=f"ranges[{index}].topic")
    if not 1 <= one.partition <= _PARTITION_MAX:
        raise InvalidArgument(f"ranges[{index}].partition: {one.partition} is not a partition")
    if not 0 <= one.start <= one.end <= limits.OFFSET_MAX:
        raise InvalidArgument(
            f"ranges[{index}]: start {one.start} to end {one.end} is not a range of offsets"
        )
    return LogRange(one.topic, PartitionId(one.partition), one.start, one.end)


def _range_pb(one: LogRange) -> pb.Range:
    return pb.Range(
        topic=one.topic,
        partition=one.partition,
        start=one.start,
        end=one.end,
        size_bytes=one.size_bytes,
    )


def _read_response(chunk: Chunk) -> bytes:
    """A ReadResponse; its batches are copied once, from where they were read."""
    rest = pb.ReadResponse(range=chunk.range)
    parts: list[bytes] = []
    for item in chunk.items:
        if isinstance(item, Damaged):
            rest.damaged.add(partition=item.partition, start=item.base_offset, end=item.end_offset)
        else:
            parts += (_TAG_BATCHES, varint(len(item.value)), item.value)
    parts.append(rest.SerializeToString())
    return b"".join(parts)


METHODS = (
    method("GetOffsets", pb.GetOffsetsRequest, pb.GetOffsetsResponse, get_offsets),
    method("GetRanges", pb.GetRangesRequest, pb.GetRangesResponse, get_ranges),
    method("FindOffsets", pb.FindOffsetsRequest, pb.FindOffsetsResponse, find_offsets),
    method("GetPlaces", pb.GetPlacesRequest, pb.GetPlacesResponse, get_places),
    method("ReportArchived", pb.ReportArchivedRequest, pb.ReportArchivedResponse, report_archived),
)
STREAMS = (
    StreamingMethod(
        "Read",
        pb.ReadRequest,
        pb.ReadResponse,
        read,
        has_many_requests=False,
        has_many_answers=True,
    ),
)
