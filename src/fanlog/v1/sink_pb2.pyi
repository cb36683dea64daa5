from fanlog.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StageKey(_message.Message):
    __slots__ = ("query", "epoch", "partition", "attempt")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    query: str
    epoch: int
    partition: int
    attempt: str
    def __init__(self, query: _Optional[str] = ..., epoch: _Optional[int] = ..., partition: _Optional[int] = ..., attempt: _Optional[str] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("key", "rows")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    key: StageKey
    rows: _containers.RepeatedCompositeFieldContainer[StagedRows]
    def __init__(self, key: _Optional[_Union[StageKey, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[StagedRows, _Mapping]]] = ...) -> None: ...

class StagedRows(_message.Message):
    __slots__ = ("topic", "messages")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ...) -> None: ...

class StageResponse(_message.Message):
    __slots__ = ("messages", "refused")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    messages: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedRow]
    def __init__(self, messages: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedRow, _Mapping]]] = ...) -> None: ...

class RefusedRow(_message.Message):
    __slots__ = ("row", "reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    reason: str
    def __init__(self, row: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class CommitEpochRequest(_message.Message):
    __slots__ = ("query", "epoch", "stages")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    query: str
    epoch: int
    stages: _containers.RepeatedCompositeFieldContainer[StageKey]
    def __init__(self, query: _Optional[str] = ..., epoch: _Optional[int] = ..., stages: _Optional[_Iterable[_Union[StageKey, _Mapping]]] = ...) -> None: ...

class CommitEpochResponse(_message.Message):
    __slots__ = ("messages", "repeated_epoch")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REPEATED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    messages: int
    repeated_epoch: bool
    def __init__(self, messages: _Optional[int] = ..., repeated_epoch: _Optional[bool] = ...) -> None: ...

class AbortEpochRequest(_message.Message):
    __slots__ = ("query", "epoch")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    query: str
    epoch: int
    def __init__(self, query: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class AbortEpochResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetQueryRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: str
    def __init__(self, query: _Optional[str] = ...) -> None: ...

class GetQueryResponse(_message.Message):
    __slots__ = ("last_epoch",)
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    last_epoch: int
    def __init__(self, last_epoch: _Optional[int] = ...) -> None: ...
