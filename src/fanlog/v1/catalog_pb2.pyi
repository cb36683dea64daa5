import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeTopicsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicDescription]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicDescription, _Mapping]]] = ...) -> None: ...

class TopicDescription(_message.Message):
    __slots__ = ("name", "created_at", "partition_count", "effective_retention", "retention_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at: _timestamp_pb2.Timestamp
    partition_count: int
    effective_retention: _duration_pb2.Duration
    retention_by: str
    def __init__(self, name: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., partition_count: _Optional[int] = ..., effective_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retention_by: _Optional[str] = ...) -> None: ...

class DescribeSubscriptionsRequest(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subscriptions: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionDescription]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[SubscriptionDescription, _Mapping]]] = ...) -> None: ...

class SubscriptionDescription(_message.Message):
    __slots__ = ("name", "created_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DescribeConsumersRequest(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    def __init__(self, subscription: _Optional[str] = ...) -> None: ...

class DescribeConsumersResponse(_message.Message):
    __slots__ = ("slot_count", "consumers", "left_slots")
    SLOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    LEFT_SLOTS_FIELD_NUMBER: _ClassVar[int]
    slot_count: int
    consumers: _containers.RepeatedCompositeFieldContainer[ConsumerDescription]
    left_slots: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slot_count: _Optional[int] = ..., consumers: _Optional[_Iterable[_Union[ConsumerDescription, _Mapping]]] = ..., left_slots: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumerDescription(_message.Message):
    __slots__ = ("client_id", "address", "principal", "connected_at", "slots", "moving_slots", "outstanding")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    MOVING_SLOTS_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    address: str
    principal: str
    connected_at: _timestamp_pb2.Timestamp
    slots: _containers.RepeatedScalarFieldContainer[int]
    moving_slots: _containers.RepeatedScalarFieldContainer[int]
    outstanding: int
    def __init__(self, client_id: _Optional[str] = ..., address: _Optional[str] = ..., principal: _Optional[str] = ..., connected_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slots: _Optional[_Iterable[int]] = ..., moving_slots: _Optional[_Iterable[int]] = ..., outstanding: _Optional[int] = ...) -> None: ...

class DescribeSchemaRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SchemaDescription(_message.Message):
    __slots__ = ("name", "compatibility", "revisions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    compatibility: str
    revisions: _containers.RepeatedCompositeFieldContainer[RevisionDescription]
    def __init__(self, name: _Optional[str] = ..., compatibility: _Optional[str] = ..., revisions: _Optional[_Iterable[_Union[RevisionDescription, _Mapping]]] = ...) -> None: ...

class RevisionDescription(_message.Message):
    __slots__ = ("id", "number", "created_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
