import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicSelection(_message.Message):
    __slots__ = ("topics", "pattern", "subscription")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    subscription: str
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., subscription: _Optional[str] = ...) -> None: ...

class GetOffsetsRequest(_message.Message):
    __slots__ = ("selection",)
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    selection: TopicSelection
    def __init__(self, selection: _Optional[_Union[TopicSelection, _Mapping]] = ...) -> None: ...

class GetOffsetsResponse(_message.Message):
    __slots__ = ("log_id", "sequence", "partitions", "lake_uri", "lake_id", "filter", "archived_sequence")
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LAKE_URI_FIELD_NUMBER: _ClassVar[int]
    LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    log_id: str
    sequence: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOffsets]
    lake_uri: str
    lake_id: str
    filter: str
    archived_sequence: int
    def __init__(self, log_id: _Optional[str] = ..., sequence: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionOffsets, _Mapping]]] = ..., lake_uri: _Optional[str] = ..., lake_id: _Optional[str] = ..., filter: _Optional[str] = ..., archived_sequence: _Optional[int] = ...) -> None: ...

class PartitionOffsets(_message.Message):
    __slots__ = ("topic", "partition", "start", "hot_start", "archived", "end", "is_archived")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    HOT_START_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    IS_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    start: int
    hot_start: int
    archived: int
    end: int
    is_archived: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., start: _Optional[int] = ..., hot_start: _Optional[int] = ..., archived: _Optional[int] = ..., end: _Optional[int] = ..., is_archived: _Optional[bool] = ...) -> None: ...

class GetRangesRequest(_message.Message):
    __slots__ = ("selection", "after_sequence", "to_sequence", "max_messages", "max_bytes")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TO_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    selection: TopicSelection
    after_sequence: int
    to_sequence: int
    max_messages: int
    max_bytes: int
    def __init__(self, selection: _Optional[_Union[TopicSelection, _Mapping]] = ..., after_sequence: _Optional[int] = ..., to_sequence: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class GetRangesResponse(_message.Message):
    __slots__ = ("sequence", "ranges", "messages", "hot_after_sequence")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HOT_AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    messages: int
    hot_after_sequence: int
    def __init__(self, sequence: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ..., messages: _Optional[int] = ..., hot_after_sequence: _Optional[int] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("topic", "partition", "start", "end", "size_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    start: int
    end: int
    size_bytes: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class FindOffsetsRequest(_message.Message):
    __slots__ = ("selection", "time")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    selection: TopicSelection
    time: _timestamp_pb2.Timestamp
    def __init__(self, selection: _Optional[_Union[TopicSelection, _Mapping]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FindOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class PartitionOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class GetPlacesRequest(_message.Message):
    __slots__ = ("selection",)
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    selection: TopicSelection
    def __init__(self, selection: _Optional[_Union[TopicSelection, _Mapping]] = ...) -> None: ...

class GetPlacesResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionPlaces]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionPlaces, _Mapping]]] = ...) -> None: ...

class PartitionPlaces(_message.Message):
    __slots__ = ("topic", "partition", "end", "offsets", "anchors")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    end: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    anchors: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., end: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., anchors: _Optional[_Iterable[int]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    def __init__(self, ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("batches", "damaged", "range")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    damaged: _containers.RepeatedCompositeFieldContainer[Range]
    range: int
    def __init__(self, batches: _Optional[_Iterable[bytes]] = ..., damaged: _Optional[_Iterable[_Union[Range, _Mapping]]] = ..., range: _Optional[int] = ...) -> None: ...

class ReportArchivedRequest(_message.Message):
    __slots__ = ("lake_id", "table_version", "sequence")
    LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    lake_id: str
    table_version: int
    sequence: int
    def __init__(self, lake_id: _Optional[str] = ..., table_version: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class ReportArchivedResponse(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...
