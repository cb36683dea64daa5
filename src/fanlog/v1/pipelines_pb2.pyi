import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListPipelinesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPipelinesResponse(_message.Message):
    __slots__ = ("pipelines",)
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    pipelines: _containers.RepeatedCompositeFieldContainer[Pipeline]
    def __init__(self, pipelines: _Optional[_Iterable[_Union[Pipeline, _Mapping]]] = ...) -> None: ...

class Pipeline(_message.Message):
    __slots__ = ("name", "version", "spark_version", "master", "parallelism", "start_time", "flows", "job", "silent", "missed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPARK_VERSION_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    spark_version: str
    master: str
    parallelism: int
    start_time: _timestamp_pb2.Timestamp
    flows: _containers.RepeatedCompositeFieldContainer[PipelineFlow]
    job: str
    silent: _duration_pb2.Duration
    missed: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., spark_version: _Optional[str] = ..., master: _Optional[str] = ..., parallelism: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., flows: _Optional[_Iterable[_Union[PipelineFlow, _Mapping]]] = ..., job: _Optional[str] = ..., silent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., missed: _Optional[bool] = ...) -> None: ...

class PipelineFlow(_message.Message):
    __slots__ = ("name", "state", "start_time", "batch", "batch_time", "failures", "failure_time", "error")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[PipelineFlow.State]
        RUNNING: _ClassVar[PipelineFlow.State]
        RESTING: _ClassVar[PipelineFlow.State]
    STATE_UNSPECIFIED: PipelineFlow.State
    RUNNING: PipelineFlow.State
    RESTING: PipelineFlow.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: PipelineFlow.State
    start_time: _timestamp_pb2.Timestamp
    batch: int
    batch_time: _timestamp_pb2.Timestamp
    failures: int
    failure_time: _timestamp_pb2.Timestamp
    error: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[PipelineFlow.State, str]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., batch: _Optional[int] = ..., batch_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failures: _Optional[int] = ..., failure_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class ReportPipelineRequest(_message.Message):
    __slots__ = ("pipeline", "leaving")
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    pipeline: Pipeline
    leaving: bool
    def __init__(self, pipeline: _Optional[_Union[Pipeline, _Mapping]] = ..., leaving: _Optional[bool] = ...) -> None: ...

class ReportPipelineResponse(_message.Message):
    __slots__ = ("again",)
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    again: _duration_pb2.Duration
    def __init__(self, again: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
