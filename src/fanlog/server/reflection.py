"""Reflection: services and their descriptors, told to tools that know neither.

Version v1 and v1alpha are the same messages under two names; the Python package has the older one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha.reflection_pb2 import (
    ErrorResponse,
    ExtensionNumberResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)

from fanlog import limits
from fanlog.server.calls import CallStream
from fanlog.server.gate import Gate
from fanlog.transport.calls import Streaming
from fanlog.transport.methods import MethodForm, RpcMethod
from fanlog.transport.statuses import INVALID_ARGUMENT, NOT_FOUND, CallRefused, Status

SERVICE_NAMES = (
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
)
#: Both, as the table of permissions has it.
METHOD = "grpc.reflection.ServerReflectionInfo"


def reflection_forms() -> list[MethodForm]:
    """The methods without what they tell."""
    return [
        MethodForm(
            f"/{service}/ServerReflectionInfo",
            limits.REFLECTION_REQUEST_BYTES_MAX,
            is_unary=False,
            has_many_requests=True,
        )
        for service in SERVICE_NAMES
    ]


class Reflection:
    """Answers from one pool, which has the descriptors of all services."""

    def __init__(
        self, services: Iterable[str], pool: DescriptorPool, gate: Gate | None = None
    ) -> None:
        self._services = sorted([*services, *SERVICE_NAMES])
        self._pool = pool
        self._gate = gate

    def methods(self) -> list[RpcMethod]:
        serve: Streaming = self._serve
        if self._gate is not None:
            serve = self._gate.guard_stream(METHOD, serve)
        return [
            RpcMethod(
                f"/{service}/ServerReflectionInfo",
                limits.REFLECTION_REQUEST_BYTES_MAX,
                streaming=serve,
                has_many_requests=True,
            )
            for service in SERVICE_NAMES
        ]

    async def _serve(self, call: CallStream) -> None:
        while isinstance(raw := await call.read(), bytes):
            try:
                request = ServerReflectionRequest.FromString(raw)
            except DecodeError as error:
                why = f"no ServerReflectionRequest: {error}"
                raise CallRefused(Status(INVALID_ARGUMENT, why)) from None
            answer = self._answer(request)
            answer.original_request.CopyFrom(request)
            answer.valid_host = request.host
            await call.write(answer.SerializeToString())

    def _answer(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        found = partial(ServerReflectionResponse)
        try:
            match request.WhichOneof("message_request"):
                case "list_services":
                    names = [ServiceResponse(name=name) for name in self._services]
                    return found(list_services_response=ListServiceResponse(service=names))
                case "file_by_filename":
                    return _describe(self._pool.FindFileByName(request.file_by_filename))
                case "file_containing_symbol":
                    symbol = request.file_containing_symbol
                    return _describe(self._pool.FindFileContainingSymbol(symbol))
                case "file_containing_extension":
                    asked = request.file_containing_extension
                    message = self._pool.FindMessageTypeByName(asked.containing_type)
                    field = self._pool.FindExtensionByNumber(message, asked.extension_number)
                    return _describe(self._pool.FindFileContainingSymbol(field.full_name))
                case "all_extension_numbers_of_type":
                    name = request.all_extension_numbers_of_type
                    message = self._pool.FindMessageTypeByName(name)
                    numbers = sorted(one.number for one in self._pool.FindAllExtensions(message))
                    return found(
                        all_extension_numbers_response=ExtensionNumberResponse(
                            base_type_name=name, extension_number=numbers
                        )
                    )
        except KeyError:
            error = ErrorResponse(error_code=NOT_FOUND, error_message="not found")
            return found(error_response=error)
        wrong = ErrorResponse(error_code=INVALID_ARGUMENT, error_message="nothing is asked for")
        return found(error_response=wrong)


def _describe(file: FileDescriptor) -> ServerReflectionResponse:
    """A file and all that it imports."""
    found: dict[str, FileDescriptor] = {}
    waiting = [file]
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += one.dependencies
    files = [one.serialized_pb for one in found.values()]
    return ServerReflectionResponse(
        file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=files)
    )
