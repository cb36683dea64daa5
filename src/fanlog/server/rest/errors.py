"""Errors as HTTP answers: `{"error": {"code", "message", "status", "details"}}`."""

from __future__ import annotations

import math

import orjson
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from fanlog.errors import FanlogError, MethodNotAllowed, ResourceExhausted
from fanlog.model.json_value import Json, JsonObject
from fanlog.wire.status import code_name, rich_status

#: The HTTP code that Google's APIs give for each status.
HTTP_CODES = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
}
#: Seconds after which a caller that was pushed back, or sent away, may come again.
RETRY_AFTER_S = 1


Headers = list[tuple[bytes, bytes]]


def described(error: FanlogError) -> tuple[int, JsonObject]:
    """HTTP code and body of an error's answer."""
    status = rich_status(error)
    name = code_name(status)
    # A status that was made a milder one than the error's own is worth that one's code.
    code = error.http_status if name == error.grpc_status else HTTP_CODES[name]
    return code, error_json(code, name, status)


def answer(error: FanlogError) -> tuple[int, Headers, bytes]:
    """HTTP code, headers and body of an error's answer."""
    code, body = described(error)
    headers: Headers = []
    if code in (429, 503):
        after_s = error.retry_after_s if isinstance(error, ResourceExhausted) else RETRY_AFTER_S
        headers.append((b"retry-after", b"%d" % math.ceil(after_s)))
    if code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    return code, headers, orjson.dumps(body)


def error_json(code: int, name: str, status: Status) -> JsonObject:
    """The body of an error."""
    details: list[Json] = []
    for detail in status.details:
        again = RetryInfo()
        if detail.Unpack(again):
            delay = again.retry_delay.ToJsonString()
            details.append({"@type": detail.type_url, "retryDelay": delay})
            continue
        info = ErrorInfo()
        detail.Unpack(info)
        shown: JsonObject = {
            "@type": detail.type_url,
            "reason": info.reason,
            "domain": info.domain,
        }
        if info.metadata:
            shown["metadata"] = dict(info.metadata)
        details.append(shown)
    return {"error": {"code": code, "message": status.message, "status": name, "details": details}}
