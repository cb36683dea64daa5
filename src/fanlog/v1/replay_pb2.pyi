import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReopenRequest(_message.Message):
    __slots__ = ("subscription", "offsets", "start_time", "end_time", "request_id")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetSet]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    request_id: str
    def __init__(self, subscription: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[OffsetSet, _Mapping]]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class OffsetSet(_message.Message):
    __slots__ = ("partition", "start", "end", "bitmap")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BITMAP_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start: int
    end: int
    bitmap: bytes
    def __init__(self, partition: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., bitmap: _Optional[bytes] = ...) -> None: ...

class ReopenResponse(_message.Message):
    __slots__ = ("reopened", "skipped")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    reopened: int
    skipped: int
    def __init__(self, reopened: _Optional[int] = ..., skipped: _Optional[int] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("subscription", "message_ids", "request_id")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, subscription: _Optional[str] = ..., message_ids: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class RedriveResponse(_message.Message):
    __slots__ = ("reopened", "copied", "skipped")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    reopened: int
    copied: int
    skipped: int
    def __init__(self, reopened: _Optional[int] = ..., copied: _Optional[int] = ..., skipped: _Optional[int] = ...) -> None: ...
