"""Errors to gRPC statuses, with the details that official clients read."""

from __future__ import annotations

from itertools import accumulate

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from fanlog.errors import AckIdsRefused, FanlogError, ResourceExhausted

#: The domain of every ErrorInfo.
DOMAIN = "fanlog"

# A status travels in HTTP/2 trailers, of which gRPC clients accept 8 KiB unless told otherwise. The
# details, which repeat the sentence, go in base64; the sentence by itself goes with every byte that
# is not printable ASCII written as three.
_TRAILERS_BYTES_MAX = 7_800
_DETAILS_BYTES_MAX = 5_000
_MESSAGE_LENGTH_MAX = 1_000
_MESSAGE_QUOTED_BYTES_MAX = 2_000
#: Bytes of the details besides the sentence and the ack ids.
_DETAILS_FRAME_BYTES = 120


def rich_status(error: FanlogError) -> Status:
    """Make the status of an error: code, sentence, one ErrorInfo, and when to try again.

    The first detail is always an ErrorInfo with the error's stable code as its reason; official
    clients read no other. For refused ack ids its metadata says of each id why. Of ids that it has
    no room for, most clients believe the code: FAILED_PRECONDITION, that they failed for
    good; RESOURCE_EXHAUSTED, that they are to be sent again. Java's takes them for done, and must
    not be given more than `all_fit`.

    The call must end with exactly this code and message: clients drop details that disagree.
    """
    code = error.grpc_status
    message = _sentence(error)
    info = ErrorInfo(reason=error.code, domain=DOMAIN)
    if isinstance(error, AckIdsRefused):
        listed, unlisted = _split(error, message)
        info.metadata.update(listed)
        if any(map(_is_transient, unlisted.values())):
            code = "RESOURCE_EXHAUSTED"
    status = Status(code=Code.Value(code), message=message)
    detail = AnyMessage()
    detail.Pack(info)
    status.details.append(detail)
    if isinstance(error, ResourceExhausted):
        status.details.append(_retry_after(error.retry_after_s))
    return status


def _retry_after(seconds: float) -> AnyMessage:
    info, detail = RetryInfo(), AnyMessage()
    info.retry_delay.FromNanoseconds(int(seconds * 1e9))
    detail.Pack(info)
    return detail


def _sentence(error: FanlogError) -> str:
    """The message, cut where trailers would have no room for it."""
    message = error.message[:_MESSAGE_LENGTH_MAX]
    if _quoted_bytes(message) <= _MESSAGE_QUOTED_BYTES_MAX:
        return message
    sizes = accumulate(map(_quoted_bytes, message))
    return message[: sum(size <= _MESSAGE_QUOTED_BYTES_MAX for size in sizes)]


def _quoted_bytes(text: str) -> int:
    if text.isascii() and text.isprintable() and "%" not in text:
        return len(text)
    return sum(1 if " " <= c <= "~" and c != "%" else 3 * len(c.encode()) for c in text)


def all_fit(error: AckIdsRefused) -> bool:
    """Whether the status of `error` names every ack id."""
    _, unlisted = _split(error, _sentence(error))
    return not unlisted


def _split(error: AckIdsRefused, message: str) -> tuple[dict[str, str], dict[str, str]]:
    """The ids that the details have room for, permanent failures first, and the rest.

    A stale id that is not named would be sent again with all the others, and refused with them.
    """
    room = (_TRAILERS_BYTES_MAX - _quoted_bytes(message)) * 3 // 4 - _DETAILS_FRAME_BYTES
    room = min(room, _DETAILS_BYTES_MAX) - len(message.encode())
    listed: dict[str, str] = {}
    unlisted: dict[str, str] = {}
    for ack_id, failure in sorted(error.failures.items(), key=lambda one: _is_transient(one[1])):
        size = len(ack_id.encode()) + len(failure) + 8
        if size <= room:
            room -= size
            listed[ack_id] = failure
        else:
            unlisted[ack_id] = failure
    return listed, unlisted


def _is_transient(failure: str) -> bool:
    return failure.startswith("TRANSIENT_")


def code_name(status: Status) -> str:
    """Give the name of a status's code, such as `NOT_FOUND`."""
    return str(Code.Name(status.code))
