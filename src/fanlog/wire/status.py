"""Errors to gRPC statuses, with the details that official clients read."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from fanlog.errors import AckIdsRefused, FanlogError

#: Who speaks, in every ErrorInfo.
DOMAIN = "fanlog"

# A status travels in HTTP/2 trailers, of which gRPC clients accept 8 KiB unless told otherwise; the
# details go in base64. What is left is for the sentence and the other trailers.
_DETAILS_BYTES_MAX = 5_000
_MESSAGE_LENGTH_MAX = 1_000


def rich_status(error: FanlogError) -> Status:
    """Make the status of an error: code, sentence, and one ErrorInfo.

    The first detail is always an ErrorInfo whose reason is the error's stable code; official
    clients read no other. For refused ack ids its metadata says of each id why. When not all of
    them fit, the status becomes RESOURCE_EXHAUSTED, on which clients send those that are not listed
    again: a permanent answer would be taken for all of them.

    The call must end with exactly this code and message: clients drop details that disagree.
    """
    code = error.grpc_status
    message = error.message[:_MESSAGE_LENGTH_MAX]
    info = ErrorInfo(reason=error.code, domain=DOMAIN)
    if isinstance(error, AckIdsRefused):
        room = _DETAILS_BYTES_MAX - len(message.encode())
        for ack_id, failure in error.failures.items():
            size = len(ack_id.encode()) + len(failure) + 8
            if size > room:
                code = "RESOURCE_EXHAUSTED"
                continue
            room -= size
            info.metadata[ack_id] = failure
    status = Status(code=Code.Value(code), message=message)
    detail = AnyMessage()
    detail.Pack(info)
    status.details.append(detail)
    return status


def code_name(status: Status) -> str:
    """Give the name of a status's code, such as `NOT_FOUND`."""
    return str(Code.Name(status.code))
