import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetLakeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LakeStatus(_message.Message):
    __slots__ = ("uri", "id", "alarm", "archived_sequence", "sequence", "damaged", "damaged_places", "lost_messages")
    URI_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ALARM_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_PLACES_FIELD_NUMBER: _ClassVar[int]
    LOST_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    uri: str
    id: str
    alarm: str
    archived_sequence: int
    sequence: int
    damaged: _containers.RepeatedScalarFieldContainer[str]
    damaged_places: int
    lost_messages: int
    def __init__(self, uri: _Optional[str] = ..., id: _Optional[str] = ..., alarm: _Optional[str] = ..., archived_sequence: _Optional[int] = ..., sequence: _Optional[int] = ..., damaged: _Optional[_Iterable[str]] = ..., damaged_places: _Optional[int] = ..., lost_messages: _Optional[int] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables", "look_time")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LOOK_TIME_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[LakeTable]
    look_time: _timestamp_pb2.Timestamp
    def __init__(self, tables: _Optional[_Iterable[_Union[LakeTable, _Mapping]]] = ..., look_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LakeTable(_message.Message):
    __slots__ = ("name", "version", "rows", "files", "bytes", "small_files", "largest", "smallest", "trouble")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SMALL_FILES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    rows: int
    files: int
    bytes: int
    small_files: int
    largest: _containers.RepeatedCompositeFieldContainer[LakeFile]
    smallest: _containers.RepeatedCompositeFieldContainer[LakeFile]
    trouble: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., rows: _Optional[int] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., small_files: _Optional[int] = ..., largest: _Optional[_Iterable[_Union[LakeFile, _Mapping]]] = ..., smallest: _Optional[_Iterable[_Union[LakeFile, _Mapping]]] = ..., trouble: _Optional[str] = ...) -> None: ...

class LakeFile(_message.Message):
    __slots__ = ("path", "bytes", "rows")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    rows: int
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class AcceptLossRequest(_message.Message):
    __slots__ = ("confirm",)
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    confirm: bool
    def __init__(self, confirm: _Optional[bool] = ...) -> None: ...

class AcceptLossResponse(_message.Message):
    __slots__ = ("accepted", "known_lake_id", "lake_id", "sequence", "messages", "leaving", "losses")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    known_lake_id: str
    lake_id: str
    sequence: int
    messages: int
    leaving: int
    losses: _containers.RepeatedCompositeFieldContainer[TopicLoss]
    def __init__(self, accepted: _Optional[bool] = ..., known_lake_id: _Optional[str] = ..., lake_id: _Optional[str] = ..., sequence: _Optional[int] = ..., messages: _Optional[int] = ..., leaving: _Optional[int] = ..., losses: _Optional[_Iterable[_Union[TopicLoss, _Mapping]]] = ...) -> None: ...

class TopicLoss(_message.Message):
    __slots__ = ("topic", "partition", "messages", "leaving", "start", "ranges")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    messages: int
    leaving: int
    start: int
    ranges: _containers.RepeatedCompositeFieldContainer[LostRange]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., messages: _Optional[int] = ..., leaving: _Optional[int] = ..., start: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[LostRange, _Mapping]]] = ...) -> None: ...

class LostRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...
