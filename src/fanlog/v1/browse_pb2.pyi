import datetime

from fanlog.v1 import message_pb2 as _message_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrowseMessagesRequest(_message.Message):
    __slots__ = ("topic", "subscription", "time", "offset", "message_id", "newest_first", "ordering_key", "attributes", "filter", "max_messages", "page_token", "max_data_bytes", "decode")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    time: _timestamp_pb2.Timestamp
    offset: int
    message_id: str
    newest_first: bool
    ordering_key: str
    attributes: _containers.ScalarMap[str, str]
    filter: str
    max_messages: int
    page_token: str
    max_data_bytes: int
    decode: bool
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., offset: _Optional[int] = ..., message_id: _Optional[str] = ..., newest_first: _Optional[bool] = ..., ordering_key: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., filter: _Optional[str] = ..., max_messages: _Optional[int] = ..., page_token: _Optional[str] = ..., max_data_bytes: _Optional[int] = ..., decode: _Optional[bool] = ...) -> None: ...

class BrowseMessagesResponse(_message.Message):
    __slots__ = ("messages", "next_page_token", "looked_at", "looked_at_bytes", "looked_until", "damaged")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOKED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[BrowsedMessage]
    next_page_token: str
    looked_at: int
    looked_at_bytes: int
    looked_until: _timestamp_pb2.Timestamp
    damaged: int
    def __init__(self, messages: _Optional[_Iterable[_Union[BrowsedMessage, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., looked_at: _Optional[int] = ..., looked_at_bytes: _Optional[int] = ..., looked_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., damaged: _Optional[int] = ...) -> None: ...

class BrowsedMessage(_message.Message):
    __slots__ = ("message", "topic", "offset", "data_bytes", "data_cut", "size_bytes", "tier", "decoded", "decoding_error", "schema_revision_id", "addressee")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_CUT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    DECODED_FIELD_NUMBER: _ClassVar[int]
    DECODING_ERROR_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_REVISION_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSEE_FIELD_NUMBER: _ClassVar[int]
    message: _message_pb2.Message
    topic: str
    offset: int
    data_bytes: int
    data_cut: bool
    size_bytes: int
    tier: str
    decoded: str
    decoding_error: str
    schema_revision_id: str
    addressee: str
    def __init__(self, message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., topic: _Optional[str] = ..., offset: _Optional[int] = ..., data_bytes: _Optional[int] = ..., data_cut: _Optional[bool] = ..., size_bytes: _Optional[int] = ..., tier: _Optional[str] = ..., decoded: _Optional[str] = ..., decoding_error: _Optional[str] = ..., schema_revision_id: _Optional[str] = ..., addressee: _Optional[str] = ...) -> None: ...

class ParseFilterRequest(_message.Message):
    __slots__ = ("filter",)
    FILTER_FIELD_NUMBER: _ClassVar[int]
    filter: str
    def __init__(self, filter: _Optional[str] = ...) -> None: ...

class ParseFilterResponse(_message.Message):
    __slots__ = ("filter", "tree", "problem", "reads_data")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    READS_DATA_FIELD_NUMBER: _ClassVar[int]
    filter: str
    tree: FilterNode
    problem: FilterProblem
    reads_data: bool
    def __init__(self, filter: _Optional[str] = ..., tree: _Optional[_Union[FilterNode, _Mapping]] = ..., problem: _Optional[_Union[FilterProblem, _Mapping]] = ..., reads_data: _Optional[bool] = ...) -> None: ...

class FilterNode(_message.Message):
    __slots__ = ("kind", "words", "text", "parts")
    KIND_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    words: str
    text: str
    parts: _containers.RepeatedCompositeFieldContainer[FilterNode]
    def __init__(self, kind: _Optional[str] = ..., words: _Optional[str] = ..., text: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[FilterNode, _Mapping]]] = ...) -> None: ...

class FilterProblem(_message.Message):
    __slots__ = ("message", "column")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    message: str
    column: int
    def __init__(self, message: _Optional[str] = ..., column: _Optional[int] = ...) -> None: ...

class TryFilterRequest(_message.Message):
    __slots__ = ("filter", "topic", "subscription", "last", "max_samples")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MAX_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    filter: str
    topic: str
    subscription: str
    last: int
    max_samples: int
    def __init__(self, filter: _Optional[str] = ..., topic: _Optional[str] = ..., subscription: _Optional[str] = ..., last: _Optional[int] = ..., max_samples: _Optional[int] = ...) -> None: ...

class TryFilterResponse(_message.Message):
    __slots__ = ("looked_at", "matched", "matching", "others", "cut_short", "looked_back_to", "damaged")
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    MATCHING_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    CUT_SHORT_FIELD_NUMBER: _ClassVar[int]
    LOOKED_BACK_TO_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    looked_at: int
    matched: int
    matching: _containers.RepeatedCompositeFieldContainer[BrowsedMessage]
    others: _containers.RepeatedCompositeFieldContainer[BrowsedMessage]
    cut_short: bool
    looked_back_to: _timestamp_pb2.Timestamp
    damaged: int
    def __init__(self, looked_at: _Optional[int] = ..., matched: _Optional[int] = ..., matching: _Optional[_Iterable[_Union[BrowsedMessage, _Mapping]]] = ..., others: _Optional[_Iterable[_Union[BrowsedMessage, _Mapping]]] = ..., cut_short: _Optional[bool] = ..., looked_back_to: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., damaged: _Optional[int] = ...) -> None: ...
