import datetime

from fanlog.v1 import replay_pb2 as _replay_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListExportsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListExportsResponse(_message.Message):
    __slots__ = ("log_id", "exports")
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    EXPORTS_FIELD_NUMBER: _ClassVar[int]
    log_id: str
    exports: _containers.RepeatedCompositeFieldContainer[Export]
    def __init__(self, log_id: _Optional[str] = ..., exports: _Optional[_Iterable[_Union[Export, _Mapping]]] = ...) -> None: ...

class Export(_message.Message):
    __slots__ = ("subscription", "id")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    id: int
    def __init__(self, subscription: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class GetBatchRequest(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    def __init__(self, subscription: _Optional[str] = ...) -> None: ...

class GetBatchResponse(_message.Message):
    __slots__ = ("log_id", "id", "advanced", "batch")
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ADVANCED_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    log_id: str
    id: int
    advanced: int
    batch: ExportBatch
    def __init__(self, log_id: _Optional[str] = ..., id: _Optional[int] = ..., advanced: _Optional[int] = ..., batch: _Optional[_Union[ExportBatch, _Mapping]] = ...) -> None: ...

class ExportBatch(_message.Message):
    __slots__ = ("number", "time", "table", "files", "offsets")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    number: int
    time: _timestamp_pb2.Timestamp
    table: ExportTable
    files: ExportFiles
    offsets: _containers.RepeatedCompositeFieldContainer[ExportOffsets]
    def __init__(self, number: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., table: _Optional[_Union[ExportTable, _Mapping]] = ..., files: _Optional[_Union[ExportFiles, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[ExportOffsets, _Mapping]]] = ...) -> None: ...

class ExportOffsets(_message.Message):
    __slots__ = ("topic", "set")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    set: _replay_pb2.OffsetSet
    def __init__(self, topic: _Optional[str] = ..., set: _Optional[_Union[_replay_pb2.OffsetSet, _Mapping]] = ...) -> None: ...

class ExportTable(_message.Message):
    __slots__ = ("table", "use_topic_schema", "write_metadata", "drop_unknown_fields")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    USE_TOPIC_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    WRITE_METADATA_FIELD_NUMBER: _ClassVar[int]
    DROP_UNKNOWN_FIELDS_FIELD_NUMBER: _ClassVar[int]
    table: str
    use_topic_schema: bool
    write_metadata: bool
    drop_unknown_fields: bool
    def __init__(self, table: _Optional[str] = ..., use_topic_schema: _Optional[bool] = ..., write_metadata: _Optional[bool] = ..., drop_unknown_fields: _Optional[bool] = ...) -> None: ...

class ExportFiles(_message.Message):
    __slots__ = ("bucket", "filename_prefix", "filename_suffix", "filename_datetime_format", "is_avro", "write_metadata", "use_topic_schema", "max_duration", "max_bytes", "max_messages")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    FILENAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    FILENAME_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    FILENAME_DATETIME_FORMAT_FIELD_NUMBER: _ClassVar[int]
    IS_AVRO_FIELD_NUMBER: _ClassVar[int]
    WRITE_METADATA_FIELD_NUMBER: _ClassVar[int]
    USE_TOPIC_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    filename_prefix: str
    filename_suffix: str
    filename_datetime_format: str
    is_avro: bool
    write_metadata: bool
    use_topic_schema: bool
    max_duration: _duration_pb2.Duration
    max_bytes: int
    max_messages: int
    def __init__(self, bucket: _Optional[str] = ..., filename_prefix: _Optional[str] = ..., filename_suffix: _Optional[str] = ..., filename_datetime_format: _Optional[str] = ..., is_avro: _Optional[bool] = ..., write_metadata: _Optional[bool] = ..., use_topic_schema: _Optional[bool] = ..., max_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_bytes: _Optional[int] = ..., max_messages: _Optional[int] = ...) -> None: ...

class AdvanceRequest(_message.Message):
    __slots__ = ("subscription", "number")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    number: int
    def __init__(self, subscription: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class AdvanceResponse(_message.Message):
    __slots__ = ("acknowledged",)
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: int
    def __init__(self, acknowledged: _Optional[int] = ...) -> None: ...

class ReportExportRequest(_message.Message):
    __slots__ = ("subscription", "state", "reason")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    subscription: str
    state: str
    reason: str
    def __init__(self, subscription: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReportExportResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
