import datetime

from fanlog.v1 import message_pb2 as _message_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReopenRequest(_message.Message):
    __slots__ = ("subscription", "offsets", "start_time", "end_time", "request_id", "message_ids")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetSet]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    request_id: str
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subscription: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[OffsetSet, _Mapping]]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_id: _Optional[str] = ..., message_ids: _Optional[_Iterable[str]] = ...) -> None: ...

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
    __slots__ = ("reopened", "skipped", "skipped_messages")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    reopened: int
    skipped: int
    skipped_messages: _containers.RepeatedCompositeFieldContainer[SkippedMessages]
    def __init__(self, reopened: _Optional[int] = ..., skipped: _Optional[int] = ..., skipped_messages: _Optional[_Iterable[_Union[SkippedMessages, _Mapping]]] = ...) -> None: ...

class SkippedMessages(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class SeekSubscriptionRequest(_message.Message):
    __slots__ = ("subscription", "time", "snapshot", "position", "message_id")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    time: _timestamp_pb2.Timestamp
    snapshot: str
    position: str
    message_id: str
    def __init__(self, subscription: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[str] = ..., position: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class SeekSubscriptionResponse(_message.Message):
    __slots__ = ("reopened", "acknowledged", "reopened_from", "hint")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FROM_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    reopened: int
    acknowledged: int
    reopened_from: _timestamp_pb2.Timestamp
    hint: str
    def __init__(self, reopened: _Optional[int] = ..., acknowledged: _Optional[int] = ..., reopened_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., hint: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("message", "source_subscription", "source_topic", "source_message_id", "delivery_attempts", "reason", "leased")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    message: _message_pb2.Message
    source_subscription: str
    source_topic: str
    source_message_id: str
    delivery_attempts: int
    reason: str
    leased: bool
    def __init__(self, message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., source_subscription: _Optional[str] = ..., source_topic: _Optional[str] = ..., source_message_id: _Optional[str] = ..., delivery_attempts: _Optional[int] = ..., reason: _Optional[str] = ..., leased: _Optional[bool] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("subscription", "source_subscription", "reason", "start_time", "end_time", "page_size", "page_token", "filter")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    source_subscription: str
    reason: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    filter: str
    def __init__(self, subscription: _Optional[str] = ..., source_subscription: _Optional[str] = ..., reason: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("letters", "next_page_token")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("subscription", "message_ids", "request_id", "all", "source_subscription", "reason", "start_time", "end_time", "max_messages", "page_token", "copies", "filter")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    all: bool
    source_subscription: str
    reason: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    max_messages: int
    page_token: str
    copies: bool
    filter: str
    def __init__(self, subscription: _Optional[str] = ..., message_ids: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ..., all: _Optional[bool] = ..., source_subscription: _Optional[str] = ..., reason: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_messages: _Optional[int] = ..., page_token: _Optional[str] = ..., copies: _Optional[bool] = ..., filter: _Optional[str] = ...) -> None: ...

class RedriveResponse(_message.Message):
    __slots__ = ("reopened", "copied", "skipped", "skipped_letters", "next_page_token")
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reopened: int
    copied: int
    skipped: int
    skipped_letters: _containers.RepeatedCompositeFieldContainer[SkippedLetter]
    next_page_token: str
    def __init__(self, reopened: _Optional[int] = ..., copied: _Optional[int] = ..., skipped: _Optional[int] = ..., skipped_letters: _Optional[_Iterable[_Union[SkippedLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SkippedLetter(_message.Message):
    __slots__ = ("message_id", "reason")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    reason: str
    def __init__(self, message_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("subscription", "message_ids", "all", "source_subscription", "reason", "start_time", "end_time", "max_messages", "page_token", "filter")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    source_subscription: str
    reason: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    max_messages: int
    page_token: str
    filter: str
    def __init__(self, subscription: _Optional[str] = ..., message_ids: _Optional[_Iterable[str]] = ..., all: _Optional[bool] = ..., source_subscription: _Optional[str] = ..., reason: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_messages: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class DiscardResponse(_message.Message):
    __slots__ = ("discarded", "skipped", "skipped_letters", "next_page_token")
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    discarded: int
    skipped: int
    skipped_letters: _containers.RepeatedCompositeFieldContainer[SkippedLetter]
    next_page_token: str
    def __init__(self, discarded: _Optional[int] = ..., skipped: _Optional[int] = ..., skipped_letters: _Optional[_Iterable[_Union[SkippedLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CountDeadLettersRequest(_message.Message):
    __slots__ = ("subscription", "page_token", "source_subscription", "reason", "start_time", "end_time", "filter")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    page_token: str
    source_subscription: str
    reason: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    filter: str
    def __init__(self, subscription: _Optional[str] = ..., page_token: _Optional[str] = ..., source_subscription: _Optional[str] = ..., reason: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., filter: _Optional[str] = ...) -> None: ...

class CountDeadLettersResponse(_message.Message):
    __slots__ = ("groups", "rest", "next_page_token")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[LetterGroup]
    rest: int
    next_page_token: str
    def __init__(self, groups: _Optional[_Iterable[_Union[LetterGroup, _Mapping]]] = ..., rest: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class LetterGroup(_message.Message):
    __slots__ = ("source_subscription", "reason", "letters", "first_time", "last_time", "message_id")
    SOURCE_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    source_subscription: str
    reason: str
    letters: int
    first_time: _timestamp_pb2.Timestamp
    last_time: _timestamp_pb2.Timestamp
    message_id: str
    def __init__(self, source_subscription: _Optional[str] = ..., reason: _Optional[str] = ..., letters: _Optional[int] = ..., first_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message_id: _Optional[str] = ...) -> None: ...
