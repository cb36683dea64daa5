import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Alert(_message.Message):
    __slots__ = ("name", "condition", "subscription", "limit", "clear", "minimum_time", "create_time", "holding", "since_time", "messages", "last_message_id", "last_sentence", "last_error")
    class Condition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONDITION_UNSPECIFIED: _ClassVar[Alert.Condition]
        DEAD_LETTERS: _ClassVar[Alert.Condition]
        BACKLOG_MESSAGES: _ClassVar[Alert.Condition]
        BACKLOG_AGE: _ClassVar[Alert.Condition]
        ENDPOINT_FAILING: _ClassVar[Alert.Condition]
        CONSUMER_GONE: _ClassVar[Alert.Condition]
        PUBLISHES_REFUSED: _ClassVar[Alert.Condition]
        DISK_LOW: _ClassVar[Alert.Condition]
        LAKE_ALARM: _ClassVar[Alert.Condition]
        ARCHIVE_LAG: _ClassVar[Alert.Condition]
    CONDITION_UNSPECIFIED: Alert.Condition
    DEAD_LETTERS: Alert.Condition
    BACKLOG_MESSAGES: Alert.Condition
    BACKLOG_AGE: Alert.Condition
    ENDPOINT_FAILING: Alert.Condition
    CONSUMER_GONE: Alert.Condition
    PUBLISHES_REFUSED: Alert.Condition
    DISK_LOW: Alert.Condition
    LAKE_ALARM: Alert.Condition
    ARCHIVE_LAG: Alert.Condition
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAST_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SENTENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    condition: Alert.Condition
    subscription: str
    limit: int
    clear: int
    minimum_time: _duration_pb2.Duration
    create_time: _timestamp_pb2.Timestamp
    holding: bool
    since_time: _timestamp_pb2.Timestamp
    messages: int
    last_message_id: str
    last_sentence: str
    last_error: str
    def __init__(self, name: _Optional[str] = ..., condition: _Optional[_Union[Alert.Condition, str]] = ..., subscription: _Optional[str] = ..., limit: _Optional[int] = ..., clear: _Optional[int] = ..., minimum_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., holding: _Optional[bool] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., messages: _Optional[int] = ..., last_message_id: _Optional[str] = ..., last_sentence: _Optional[str] = ..., last_error: _Optional[str] = ...) -> None: ...

class CreateAlertRequest(_message.Message):
    __slots__ = ("parent", "alert_id", "alert")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ALERT_ID_FIELD_NUMBER: _ClassVar[int]
    ALERT_FIELD_NUMBER: _ClassVar[int]
    parent: str
    alert_id: str
    alert: Alert
    def __init__(self, parent: _Optional[str] = ..., alert_id: _Optional[str] = ..., alert: _Optional[_Union[Alert, _Mapping]] = ...) -> None: ...

class GetAlertRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListAlertsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAlertsResponse(_message.Message):
    __slots__ = ("alerts", "next_page_token")
    ALERTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    alerts: _containers.RepeatedCompositeFieldContainer[Alert]
    next_page_token: str
    def __init__(self, alerts: _Optional[_Iterable[_Union[Alert, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateAlertRequest(_message.Message):
    __slots__ = ("alert", "update_mask")
    ALERT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    alert: Alert
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, alert: _Optional[_Union[Alert, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class DeleteAlertRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteAlertResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
