import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchRequest(_message.Message):
    __slots__ = ("topics", "subscriptions", "only_named")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    ONLY_NAMED_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    subscriptions: _containers.RepeatedScalarFieldContainer[str]
    only_named: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., subscriptions: _Optional[_Iterable[str]] = ..., only_named: _Optional[bool] = ...) -> None: ...

class LiveSample(_message.Message):
    __slots__ = ("time", "server", "topics", "subscriptions", "problems", "problem_count", "has_rates")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    HAS_RATES_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    server: LiveServer
    topics: _containers.RepeatedCompositeFieldContainer[LiveTopic]
    subscriptions: _containers.RepeatedCompositeFieldContainer[LiveSubscription]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    problem_count: int
    has_rates: bool
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., server: _Optional[_Union[LiveServer, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[LiveTopic, _Mapping]]] = ..., subscriptions: _Optional[_Iterable[_Union[LiveSubscription, _Mapping]]] = ..., problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., problem_count: _Optional[int] = ..., has_rates: _Optional[bool] = ...) -> None: ...

class LiveServer(_message.Message):
    __slots__ = ("rates", "backlog", "disk", "lake", "jobs", "node", "topics", "subscriptions", "snapshots", "schemas", "schedules", "pipelines")
    RATES_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    LAKE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    rates: LiveRates
    backlog: LiveBacklog
    disk: LiveDisk
    lake: LiveLake
    jobs: LiveJobs
    node: LiveNode
    topics: int
    subscriptions: int
    snapshots: int
    schemas: int
    schedules: int
    pipelines: LivePipelines
    def __init__(self, rates: _Optional[_Union[LiveRates, _Mapping]] = ..., backlog: _Optional[_Union[LiveBacklog, _Mapping]] = ..., disk: _Optional[_Union[LiveDisk, _Mapping]] = ..., lake: _Optional[_Union[LiveLake, _Mapping]] = ..., jobs: _Optional[_Union[LiveJobs, _Mapping]] = ..., node: _Optional[_Union[LiveNode, _Mapping]] = ..., topics: _Optional[int] = ..., subscriptions: _Optional[int] = ..., snapshots: _Optional[int] = ..., schemas: _Optional[int] = ..., schedules: _Optional[int] = ..., pipelines: _Optional[_Union[LivePipelines, _Mapping]] = ...) -> None: ...

class LiveRates(_message.Message):
    __slots__ = ("published", "published_bytes", "delivered", "acknowledged", "failed", "dead_lettered", "commits", "calls", "refused")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    published: float
    published_bytes: float
    delivered: float
    acknowledged: float
    failed: float
    dead_lettered: float
    commits: float
    calls: float
    refused: float
    def __init__(self, published: _Optional[float] = ..., published_bytes: _Optional[float] = ..., delivered: _Optional[float] = ..., acknowledged: _Optional[float] = ..., failed: _Optional[float] = ..., dead_lettered: _Optional[float] = ..., commits: _Optional[float] = ..., calls: _Optional[float] = ..., refused: _Optional[float] = ...) -> None: ...

class LiveBacklog(_message.Message):
    __slots__ = ("messages", "outstanding", "oldest_unacked_age", "oldest_subscription", "subscriptions", "staleness", "partial")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNACKED_AGE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    messages: int
    outstanding: int
    oldest_unacked_age: _duration_pb2.Duration
    oldest_subscription: str
    subscriptions: int
    staleness: _duration_pb2.Duration
    partial: bool
    def __init__(self, messages: _Optional[int] = ..., outstanding: _Optional[int] = ..., oldest_unacked_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., oldest_subscription: _Optional[str] = ..., subscriptions: _Optional[int] = ..., staleness: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., partial: _Optional[bool] = ...) -> None: ...

class LiveDisk(_message.Message):
    __slots__ = ("used_bytes", "free_page_bytes", "room_bytes", "degraded")
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROOM_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    used_bytes: int
    free_page_bytes: int
    room_bytes: int
    degraded: str
    def __init__(self, used_bytes: _Optional[int] = ..., free_page_bytes: _Optional[int] = ..., room_bytes: _Optional[int] = ..., degraded: _Optional[str] = ...) -> None: ...

class LiveLake(_message.Message):
    __slots__ = ("uri", "alarm", "archived_sequence", "sequence")
    URI_FIELD_NUMBER: _ClassVar[int]
    ALARM_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    alarm: str
    archived_sequence: int
    sequence: int
    def __init__(self, uri: _Optional[str] = ..., alarm: _Optional[str] = ..., archived_sequence: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class LiveJobs(_message.Message):
    __slots__ = ("waiting", "running")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    waiting: int
    running: int
    def __init__(self, waiting: _Optional[int] = ..., running: _Optional[int] = ...) -> None: ...

class LivePipelines(_message.Message):
    __slots__ = ("pipelines", "flows", "failing", "missed")
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    pipelines: int
    flows: int
    failing: int
    missed: int
    def __init__(self, pipelines: _Optional[int] = ..., flows: _Optional[int] = ..., failing: _Optional[int] = ..., missed: _Optional[int] = ...) -> None: ...

class LiveNode(_message.Message):
    __slots__ = ("cpu", "memory_bytes", "loop_lag", "grpc_connections", "http_connections", "streams", "watchers")
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOP_LAG_FIELD_NUMBER: _ClassVar[int]
    GRPC_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    HTTP_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    WATCHERS_FIELD_NUMBER: _ClassVar[int]
    cpu: float
    memory_bytes: int
    loop_lag: _duration_pb2.Duration
    grpc_connections: int
    http_connections: int
    streams: int
    watchers: int
    def __init__(self, cpu: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., loop_lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., grpc_connections: _Optional[int] = ..., http_connections: _Optional[int] = ..., streams: _Optional[int] = ..., watchers: _Optional[int] = ...) -> None: ...

class LiveTopic(_message.Message):
    __slots__ = ("name", "published", "published_total", "messages")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    published: float
    published_total: int
    messages: int
    def __init__(self, name: _Optional[str] = ..., published: _Optional[float] = ..., published_total: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class LiveSubscription(_message.Message):
    __slots__ = ("name", "delivered", "acknowledged", "failed", "backlog", "backlog_estimated", "outstanding", "delayed", "oldest_unacked_age", "consumers", "pressure")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNACKED_AGE_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    delivered: float
    acknowledged: float
    failed: float
    backlog: int
    backlog_estimated: bool
    outstanding: int
    delayed: int
    oldest_unacked_age: _duration_pb2.Duration
    consumers: int
    pressure: float
    def __init__(self, name: _Optional[str] = ..., delivered: _Optional[float] = ..., acknowledged: _Optional[float] = ..., failed: _Optional[float] = ..., backlog: _Optional[int] = ..., backlog_estimated: _Optional[bool] = ..., outstanding: _Optional[int] = ..., delayed: _Optional[int] = ..., oldest_unacked_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consumers: _Optional[int] = ..., pressure: _Optional[float] = ...) -> None: ...

class ListProblemsRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class ListProblemsResponse(_message.Message):
    __slots__ = ("problems", "left_off")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OFF_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    left_off: int
    def __init__(self, problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., left_off: _Optional[int] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("code", "severity", "kind", "resource", "sentence", "since")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    code: str
    severity: str
    kind: str
    resource: str
    sentence: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, code: _Optional[str] = ..., severity: _Optional[str] = ..., kind: _Optional[str] = ..., resource: _Optional[str] = ..., sentence: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SearchTopicsRequest(_message.Message):
    __slots__ = ("project", "contains", "order_by", "page_size", "page_token")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    project: str
    contains: str
    order_by: str
    page_size: int
    page_token: str
    def __init__(self, project: _Optional[str] = ..., contains: _Optional[str] = ..., order_by: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class SearchTopicsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token", "total")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicRow]
    next_page_token: str
    total: int
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicRow, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class TopicRow(_message.Message):
    __slots__ = ("name", "create_time", "subscriptions", "published_total", "messages", "published", "schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    create_time: _timestamp_pb2.Timestamp
    subscriptions: int
    published_total: int
    messages: int
    published: float
    schema: str
    def __init__(self, name: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subscriptions: _Optional[int] = ..., published_total: _Optional[int] = ..., messages: _Optional[int] = ..., published: _Optional[float] = ..., schema: _Optional[str] = ...) -> None: ...

class SearchSubscriptionsRequest(_message.Message):
    __slots__ = ("project", "contains", "topic", "order_by", "page_size", "page_token")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    project: str
    contains: str
    topic: str
    order_by: str
    page_size: int
    page_token: str
    def __init__(self, project: _Optional[str] = ..., contains: _Optional[str] = ..., topic: _Optional[str] = ..., order_by: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class SearchSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions", "next_page_token", "total")
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionRow]
    next_page_token: str
    total: int
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[SubscriptionRow, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class SubscriptionRow(_message.Message):
    __slots__ = ("name", "topic", "create_time", "mode", "backlog", "backlog_estimated", "outstanding", "oldest_unacked_age", "consumers", "acknowledged", "pressure", "trouble", "detached", "filter", "dead_letter_topic", "published", "delivered", "failed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNACKED_AGE_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic: str
    create_time: _timestamp_pb2.Timestamp
    mode: str
    backlog: int
    backlog_estimated: bool
    outstanding: int
    oldest_unacked_age: _duration_pb2.Duration
    consumers: int
    acknowledged: float
    pressure: float
    trouble: str
    detached: bool
    filter: str
    dead_letter_topic: str
    published: float
    delivered: float
    failed: float
    def __init__(self, name: _Optional[str] = ..., topic: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mode: _Optional[str] = ..., backlog: _Optional[int] = ..., backlog_estimated: _Optional[bool] = ..., outstanding: _Optional[int] = ..., oldest_unacked_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consumers: _Optional[int] = ..., acknowledged: _Optional[float] = ..., pressure: _Optional[float] = ..., trouble: _Optional[str] = ..., detached: _Optional[bool] = ..., filter: _Optional[str] = ..., dead_letter_topic: _Optional[str] = ..., published: _Optional[float] = ..., delivered: _Optional[float] = ..., failed: _Optional[float] = ...) -> None: ...

class GetServerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerDescription(_message.Message):
    __slots__ = ("version", "server_id", "start_time", "project", "auth", "in_memory", "lake_uri", "region", "message_bytes_max", "projects", "cluster")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    AUTH_FIELD_NUMBER: _ClassVar[int]
    IN_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LAKE_URI_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PROJECTS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    version: str
    server_id: str
    start_time: _timestamp_pb2.Timestamp
    project: str
    auth: str
    in_memory: bool
    lake_uri: str
    region: str
    message_bytes_max: int
    projects: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    def __init__(self, version: _Optional[str] = ..., server_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., project: _Optional[str] = ..., auth: _Optional[str] = ..., in_memory: _Optional[bool] = ..., lake_uri: _Optional[str] = ..., region: _Optional[str] = ..., message_bytes_max: _Optional[int] = ..., projects: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ...) -> None: ...
