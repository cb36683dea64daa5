"""The services and their methods as reflection tells of them, beside Google's messages.

The Python package of Google's API describes its messages only, so its services are described here.
They stand in a pool of their own: a program that has Google's real descriptors loaded as well would
find each service twice in the common one.
"""

from __future__ import annotations

from google.protobuf import text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from fanlog.server.methods import Method, Service, StreamingMethod
from fanlog.server.services import PUBLISHER, SCHEMA_SERVICE, SERVICES, SUBSCRIBER
from fanlog.wire import types
from fanlog.wire.fields import descriptor_of

#: Services without descriptors in any package.
_UNDESCRIBED = (PUBLISHER, SUBSCRIBER, SCHEMA_SERVICE)


def service_descriptors() -> DescriptorPool:
    """A pool that knows every service on the gRPC port, and all their messages."""
    pool = DescriptorPool()
    messages = types.Topic.DESCRIPTOR.file
    schemas = types.Schema.DESCRIPTOR.file
    added: set[str] = set()
    served: list[type[Message]] = [HealthCheckRequest, ServerReflectionRequest]
    for service in SERVICES:
        for row in _rows_of(service):
            served += (row.request, row.answer)
    for message in served:
        _add(pool, descriptor_of(message).file, added)
    services = FileDescriptorProto(
        name="google/pubsub/v1/services.proto",
        package=messages.package,
        syntax="proto3",
        dependency=[messages.name, schemas.name, descriptor_of(Empty).file.name],
    )
    for service in _UNDESCRIBED:
        described = services.service.add(name=service.short_name)
        for row in _rows_of(service):
            is_stream = isinstance(row, StreamingMethod)
            described.method.add(
                name=row.name,
                input_type=f".{descriptor_of(row.request).full_name}",
                output_type=f".{descriptor_of(row.answer).full_name}",
                client_streaming=is_stream,
                server_streaming=is_stream,
            )
    pool.AddSerializedFile(services.SerializeToString())
    pool.AddSerializedFile(_reflection_v1())
    return pool


def _reflection_v1() -> bytes:
    """Reflection's first version, which differs from the alpha by its package alone."""
    file = FileDescriptorProto.FromString(descriptor_of(ServerReflectionRequest).file.serialized_pb)
    text = text_format.MessageToString(file).replace("reflection.v1alpha", "reflection.v1")
    found = text_format.Parse(text, FileDescriptorProto())
    found.name = "grpc/reflection/v1/reflection.proto"
    return found.SerializeToString()


def _rows_of(service: Service) -> list[Method | StreamingMethod]:
    return [*service.methods, *service.streams]


def _add(pool: DescriptorPool, file: FileDescriptor, added: set[str]) -> None:
    if file.name in added:
        return
    added.add(file.name)
    for dependency in file.dependencies:
        _add(pool, dependency, added)
    pool.AddSerializedFile(file.serialized_pb)
