import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterState(_message.Message):
    __slots__ = ("cluster", "topic", "told_by", "term", "owner", "end_offset", "sequence", "session", "nodes", "kafka")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOLD_BY_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    topic: str
    told_by: str
    term: int
    owner: str
    end_offset: int
    sequence: int
    session: _duration_pb2.Duration
    nodes: _containers.RepeatedCompositeFieldContainer[ClusterNode]
    kafka: KafkaState
    def __init__(self, cluster: _Optional[str] = ..., topic: _Optional[str] = ..., told_by: _Optional[str] = ..., term: _Optional[int] = ..., owner: _Optional[str] = ..., end_offset: _Optional[int] = ..., sequence: _Optional[int] = ..., session: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[ClusterNode, _Mapping]]] = ..., kafka: _Optional[_Union[KafkaState, _Mapping]] = ...) -> None: ...

class ClusterNode(_message.Message):
    __slots__ = ("name", "role", "api_address", "link_address", "applied_offset", "lag_records", "lag", "silent", "trouble")
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ROLE_UNSPECIFIED: _ClassVar[ClusterNode.Role]
        OWNER: _ClassVar[ClusterNode.Role]
        STANDBY: _ClassVar[ClusterNode.Role]
        STARTING: _ClassVar[ClusterNode.Role]
        GONE: _ClassVar[ClusterNode.Role]
        FAILED: _ClassVar[ClusterNode.Role]
    ROLE_UNSPECIFIED: ClusterNode.Role
    OWNER: ClusterNode.Role
    STANDBY: ClusterNode.Role
    STARTING: ClusterNode.Role
    GONE: ClusterNode.Role
    FAILED: ClusterNode.Role
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    API_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: ClusterNode.Role
    api_address: str
    link_address: str
    applied_offset: int
    lag_records: int
    lag: _duration_pb2.Duration
    silent: _duration_pb2.Duration
    trouble: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[ClusterNode.Role, str]] = ..., api_address: _Optional[str] = ..., link_address: _Optional[str] = ..., applied_offset: _Optional[int] = ..., lag_records: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., silent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., trouble: _Optional[str] = ...) -> None: ...

class KafkaState(_message.Message):
    __slots__ = ("servers", "reachable", "silent", "troubles")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedScalarFieldContainer[str]
    reachable: bool
    silent: _duration_pb2.Duration
    troubles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, servers: _Optional[_Iterable[str]] = ..., reachable: _Optional[bool] = ..., silent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., troubles: _Optional[_Iterable[str]] = ...) -> None: ...

class MoveClusterRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class MoveClusterResponse(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ..., **kwargs) -> None: ...
