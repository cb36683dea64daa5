import datetime

from fanlog.v1 import message_pb2 as _message_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeekRequest(_message.Message):
    __slots__ = ("subscription", "max_messages", "page_token", "message_id", "time")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    max_messages: int
    page_token: str
    message_id: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, subscription: _Optional[str] = ..., max_messages: _Optional[int] = ..., page_token: _Optional[str] = ..., message_id: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[PeekedMessage]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[PeekedMessage, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PeekedMessage(_message.Message):
    __slots__ = ("message", "topic", "state", "until", "failed_deliveries", "behind_message_id", "expires_at", "lapsed", "priority", "waits_for")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    FAILED_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BEHIND_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    message: _message_pb2.Message
    topic: str
    state: str
    until: _timestamp_pb2.Timestamp
    failed_deliveries: int
    behind_message_id: str
    expires_at: _timestamp_pb2.Timestamp
    lapsed: bool
    priority: int
    waits_for: str
    def __init__(self, message: _Optional[_Union[_message_pb2.Message, _Mapping]] = ..., topic: _Optional[str] = ..., state: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failed_deliveries: _Optional[int] = ..., behind_message_id: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lapsed: _Optional[bool] = ..., priority: _Optional[int] = ..., waits_for: _Optional[str] = ...) -> None: ...

class GetBacklogRequest(_message.Message):
    __slots__ = ("subscription", "by_topic")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    BY_TOPIC_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    by_topic: bool
    def __init__(self, subscription: _Optional[str] = ..., by_topic: _Optional[bool] = ...) -> None: ...

class Backlog(_message.Message):
    __slots__ = ("subscription", "messages", "messages_estimated", "bytes", "bytes_estimated", "oldest_unacked_age", "outstanding", "delayed", "forwarding", "lag_messages", "lag", "topics", "topics_left_off", "detached", "pending", "depending", "pressure", "dropped", "dropped_spans")
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNACKED_AGE_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    FORWARDING_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_LEFT_OFF_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DEPENDING_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_SPANS_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    messages: int
    messages_estimated: bool
    bytes: int
    bytes_estimated: bool
    oldest_unacked_age: _duration_pb2.Duration
    outstanding: int
    delayed: int
    forwarding: int
    lag_messages: int
    lag: _duration_pb2.Duration
    topics: _containers.RepeatedCompositeFieldContainer[TopicBacklog]
    topics_left_off: int
    detached: bool
    pending: int
    depending: int
    pressure: float
    dropped: _containers.ScalarMap[str, int]
    dropped_spans: _containers.RepeatedCompositeFieldContainer[DropSpan]
    def __init__(self, subscription: _Optional[str] = ..., messages: _Optional[int] = ..., messages_estimated: _Optional[bool] = ..., bytes: _Optional[int] = ..., bytes_estimated: _Optional[bool] = ..., oldest_unacked_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., outstanding: _Optional[int] = ..., delayed: _Optional[int] = ..., forwarding: _Optional[int] = ..., lag_messages: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicBacklog, _Mapping]]] = ..., topics_left_off: _Optional[int] = ..., detached: _Optional[bool] = ..., pending: _Optional[int] = ..., depending: _Optional[int] = ..., pressure: _Optional[float] = ..., dropped: _Optional[_Mapping[str, int]] = ..., dropped_spans: _Optional[_Iterable[_Union[DropSpan, _Mapping]]] = ...) -> None: ...

class DropSpan(_message.Message):
    __slots__ = ("topic", "reason", "first_message_id", "last_message_id", "messages", "first_time", "last_time")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIRST_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    topic: str
    reason: str
    first_message_id: str
    last_message_id: str
    messages: int
    first_time: _timestamp_pb2.Timestamp
    last_time: _timestamp_pb2.Timestamp
    def __init__(self, topic: _Optional[str] = ..., reason: _Optional[str] = ..., first_message_id: _Optional[str] = ..., last_message_id: _Optional[str] = ..., messages: _Optional[int] = ..., first_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TopicBacklog(_message.Message):
    __slots__ = ("topic", "messages", "bytes", "oldest_unacked_age", "outstanding", "delayed", "lag_messages", "lag", "pending", "depending")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNACKED_AGE_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DEPENDING_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: int
    bytes: int
    oldest_unacked_age: _duration_pb2.Duration
    outstanding: int
    delayed: int
    lag_messages: int
    lag: _duration_pb2.Duration
    pending: int
    depending: int
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., oldest_unacked_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., outstanding: _Optional[int] = ..., delayed: _Optional[int] = ..., lag_messages: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pending: _Optional[int] = ..., depending: _Optional[int] = ...) -> None: ...

class ListBacklogsRequest(_message.Message):
    __slots__ = ("project", "page_size", "page_token")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    project: str
    page_size: int
    page_token: str
    def __init__(self, project: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBacklogsResponse(_message.Message):
    __slots__ = ("backlogs", "next_page_token")
    BACKLOGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    backlogs: _containers.RepeatedCompositeFieldContainer[Backlog]
    next_page_token: str
    def __init__(self, backlogs: _Optional[_Iterable[_Union[Backlog, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("message_id", "subscription", "attributes")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    subscription: str
    attributes: bool
    def __init__(self, message_id: _Optional[str] = ..., subscription: _Optional[str] = ..., attributes: _Optional[bool] = ...) -> None: ...

class TraceResponse(_message.Message):
    __slots__ = ("message_id", "topic", "offset", "publish_time", "size_bytes", "ordering_key", "attributes", "tier", "hint", "letter_of_message_id", "letter_of_topic", "letter_of_subscription", "letter_reason", "copy_of_message_id", "addressee", "subscriptions", "subscriptions_left_off", "remembered_since", "sampled", "due_at", "priority")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    LETTER_OF_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LETTER_OF_TOPIC_FIELD_NUMBER: _ClassVar[int]
    LETTER_OF_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LETTER_REASON_FIELD_NUMBER: _ClassVar[int]
    COPY_OF_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSEE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_LEFT_OFF_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    topic: str
    offset: int
    publish_time: _timestamp_pb2.Timestamp
    size_bytes: int
    ordering_key: str
    attributes: _containers.ScalarMap[str, str]
    tier: str
    hint: str
    letter_of_message_id: str
    letter_of_topic: str
    letter_of_subscription: str
    letter_reason: str
    copy_of_message_id: str
    addressee: str
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionTrace]
    subscriptions_left_off: int
    remembered_since: _timestamp_pb2.Timestamp
    sampled: bool
    due_at: _timestamp_pb2.Timestamp
    priority: int
    def __init__(self, message_id: _Optional[str] = ..., topic: _Optional[str] = ..., offset: _Optional[int] = ..., publish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., size_bytes: _Optional[int] = ..., ordering_key: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., tier: _Optional[str] = ..., hint: _Optional[str] = ..., letter_of_message_id: _Optional[str] = ..., letter_of_topic: _Optional[str] = ..., letter_of_subscription: _Optional[str] = ..., letter_reason: _Optional[str] = ..., copy_of_message_id: _Optional[str] = ..., addressee: _Optional[str] = ..., subscriptions: _Optional[_Iterable[_Union[SubscriptionTrace, _Mapping]]] = ..., subscriptions_left_off: _Optional[int] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sampled: _Optional[bool] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., priority: _Optional[int] = ...) -> None: ...

class SubscriptionTrace(_message.Message):
    __slots__ = ("subscription", "state", "until", "delivered_at", "client_id", "failed_deliveries", "next_delivery", "behind_message_id", "letter_message_id", "events", "expires_at", "lapsed", "waits_for")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_AT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILED_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_DELIVERY_FIELD_NUMBER: _ClassVar[int]
    BEHIND_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LETTER_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    state: str
    until: _timestamp_pb2.Timestamp
    delivered_at: _timestamp_pb2.Timestamp
    client_id: str
    failed_deliveries: int
    next_delivery: str
    behind_message_id: str
    letter_message_id: str
    events: _containers.RepeatedCompositeFieldContainer[TraceEvent]
    expires_at: _timestamp_pb2.Timestamp
    lapsed: bool
    waits_for: str
    def __init__(self, subscription: _Optional[str] = ..., state: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delivered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., client_id: _Optional[str] = ..., failed_deliveries: _Optional[int] = ..., next_delivery: _Optional[str] = ..., behind_message_id: _Optional[str] = ..., letter_message_id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[TraceEvent, _Mapping]]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lapsed: _Optional[bool] = ..., waits_for: _Optional[str] = ...) -> None: ...

class TraceEvent(_message.Message):
    __slots__ = ("time", "what", "reason", "message_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    what: str
    reason: str
    message_id: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., what: _Optional[str] = ..., reason: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class PurgeRequest(_message.Message):
    __slots__ = ("subscription", "time", "message_id", "dry_run")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    time: _timestamp_pb2.Timestamp
    message_id: str
    dry_run: bool
    def __init__(self, subscription: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PurgeResponse(_message.Message):
    __slots__ = ("purged", "outstanding", "dry_run")
    PURGED_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    purged: int
    outstanding: int
    dry_run: bool
    def __init__(self, purged: _Optional[int] = ..., outstanding: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class GetDeliveryRequest(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    def __init__(self, subscription: _Optional[str] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("subscription", "mode", "consumers", "consumers_left_off", "waiting_pulls", "outstanding", "last_acknowledged", "last_delivered", "push", "counts")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_LEFT_OFF_FIELD_NUMBER: _ClassVar[int]
    WAITING_PULLS_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    LAST_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LAST_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    mode: str
    consumers: _containers.RepeatedCompositeFieldContainer[Consumer]
    consumers_left_off: int
    waiting_pulls: int
    outstanding: int
    last_acknowledged: _timestamp_pb2.Timestamp
    last_delivered: _timestamp_pb2.Timestamp
    push: PushHealth
    counts: DeliveryCounts
    def __init__(self, subscription: _Optional[str] = ..., mode: _Optional[str] = ..., consumers: _Optional[_Iterable[_Union[Consumer, _Mapping]]] = ..., consumers_left_off: _Optional[int] = ..., waiting_pulls: _Optional[int] = ..., outstanding: _Optional[int] = ..., last_acknowledged: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_delivered: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., push: _Optional[_Union[PushHealth, _Mapping]] = ..., counts: _Optional[_Union[DeliveryCounts, _Mapping]] = ...) -> None: ...

class Consumer(_message.Message):
    __slots__ = ("client_id", "address", "principal", "connected_at", "outstanding", "max_outstanding", "outstanding_bytes", "max_outstanding_bytes")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTSTANDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    address: str
    principal: str
    connected_at: _timestamp_pb2.Timestamp
    outstanding: int
    max_outstanding: int
    outstanding_bytes: int
    max_outstanding_bytes: int
    def __init__(self, client_id: _Optional[str] = ..., address: _Optional[str] = ..., principal: _Optional[str] = ..., connected_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outstanding: _Optional[int] = ..., max_outstanding: _Optional[int] = ..., outstanding_bytes: _Optional[int] = ..., max_outstanding_bytes: _Optional[int] = ...) -> None: ...

class PushHealth(_message.Message):
    __slots__ = ("endpoint", "breaker", "trouble", "next_try", "window", "under_way", "attempts", "outcomes", "failures")
    class OutcomesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TRY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    breaker: str
    trouble: str
    next_try: _timestamp_pb2.Timestamp
    window: int
    under_way: int
    attempts: int
    outcomes: _containers.ScalarMap[str, int]
    failures: _containers.RepeatedCompositeFieldContainer[PushFailure]
    def __init__(self, endpoint: _Optional[str] = ..., breaker: _Optional[str] = ..., trouble: _Optional[str] = ..., next_try: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., window: _Optional[int] = ..., under_way: _Optional[int] = ..., attempts: _Optional[int] = ..., outcomes: _Optional[_Mapping[str, int]] = ..., failures: _Optional[_Iterable[_Union[PushFailure, _Mapping]]] = ...) -> None: ...

class PushFailure(_message.Message):
    __slots__ = ("time", "reason", "messages", "message_id")
    TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    reason: str
    messages: int
    message_id: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., messages: _Optional[int] = ..., message_id: _Optional[str] = ...) -> None: ...

class DeliveryCounts(_message.Message):
    __slots__ = ("delivered", "redelivered", "acknowledged", "nacked", "expired", "dead_lettered", "filtered_out", "lapsed")
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    NACKED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    FILTERED_OUT_FIELD_NUMBER: _ClassVar[int]
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    delivered: int
    redelivered: int
    acknowledged: int
    nacked: int
    expired: int
    dead_lettered: int
    filtered_out: int
    lapsed: int
    def __init__(self, delivered: _Optional[int] = ..., redelivered: _Optional[int] = ..., acknowledged: _Optional[int] = ..., nacked: _Optional[int] = ..., expired: _Optional[int] = ..., dead_lettered: _Optional[int] = ..., filtered_out: _Optional[int] = ..., lapsed: _Optional[int] = ...) -> None: ...

class EstimateRequest(_message.Message):
    __slots__ = ("act", "resource", "time", "snapshot", "position", "message_id")
    ACT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    act: str
    resource: str
    time: _timestamp_pb2.Timestamp
    snapshot: str
    position: str
    message_id: str
    def __init__(self, act: _Optional[str] = ..., resource: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[str] = ..., position: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class EstimateResponse(_message.Message):
    __slots__ = ("sentence", "reopened", "acknowledged", "lost", "outstanding", "kept", "subscriptions", "snapshots", "topics", "estimated")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    reopened: int
    acknowledged: int
    lost: int
    outstanding: int
    kept: int
    subscriptions: int
    snapshots: int
    topics: int
    estimated: bool
    def __init__(self, sentence: _Optional[str] = ..., reopened: _Optional[int] = ..., acknowledged: _Optional[int] = ..., lost: _Optional[int] = ..., outstanding: _Optional[int] = ..., kept: _Optional[int] = ..., subscriptions: _Optional[int] = ..., snapshots: _Optional[int] = ..., topics: _Optional[int] = ..., estimated: _Optional[bool] = ...) -> None: ...
