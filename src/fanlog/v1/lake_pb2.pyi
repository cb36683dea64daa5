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
    __slots__ = ("uri", "id", "alarm", "archived_sequence", "sequence")
    URI_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ALARM_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    id: str
    alarm: str
    archived_sequence: int
    sequence: int
    def __init__(self, uri: _Optional[str] = ..., id: _Optional[str] = ..., alarm: _Optional[str] = ..., archived_sequence: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

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
