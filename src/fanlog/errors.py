"""Every error a caller can meet: one tree, each class with a stable code.

The gRPC and HTTP hints are names and numbers, not library objects: `fanlog.wire` is the only place
that turns an error into a status. Codes are part of the public contract and never change meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class FanlogError(Exception):
    """Base of all errors raised for the world's mistakes (ours are assertions)."""

    code: ClassVar[str] = "INTERNAL"
    #: Name of the gRPC status code.
    grpc_status: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Internal(FanlogError):
    """A mistake of ours. The broker's log has the trace; please report it."""


class InvalidArgument(FanlogError):
    """A value is malformed, missing or out of range; the sentence names it and its limit."""

    code = "INVALID_ARGUMENT"
    grpc_status = "INVALID_ARGUMENT"
    http_status = 400


class TooLarge(InvalidArgument):
    """The request has more bytes than it may; send fewer messages in one."""

    code = "TOO_LARGE"
    http_status = 413


class UnsupportedMediaType(InvalidArgument):
    """HTTP: the body says it is not JSON in UTF-8. Send `content-type: application/json`."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    http_status = 415


class HostNotAllowed(FanlogError):
    """HTTP: the request calls the server by a name that it does not have (DNS rebinding).

    A proxy's names are allowed with `http_hosts`.
    """

    code = "HOST_NOT_ALLOWED"
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class ForeignOrigin(FanlogError):
    """HTTP: a web page of another origin sent the request; `cors_origins` lists those that may."""

    code = "FOREIGN_ORIGIN"
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class CsrfTokenMissing(FanlogError):
    """HTTP: a changing request with a session's cookie does not show the session's CSRF token.

    `GET /v1/session` says it; it goes into the header `x-csrf-token`.
    """

    code = "CSRF_TOKEN_MISSING"
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class InsecureSession(FanlogError):
    """HTTP: a session over plain HTTP from another machine. Use TLS, or a token in each request."""

    code = "INSECURE_SESSION"
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class OutOfRange(FanlogError):
    """A number lies outside what the service accepts where Google answers OUT_OF_RANGE."""

    code = "OUT_OF_RANGE"
    grpc_status = "OUT_OF_RANGE"
    http_status = 400


class Unimplemented(FanlogError):
    """The request needs something this version does not do; the field is named. Leave it unset."""

    code = "UNIMPLEMENTED"
    grpc_status = "UNIMPLEMENTED"
    http_status = 501


class MethodNotAllowed(Unimplemented):
    """HTTP: the path takes other methods; the header `Allow` lists them."""

    code = "METHOD_NOT_ALLOWED"
    http_status = 405

    def __init__(self, message: str, allowed: str = "GET") -> None:
        super().__init__(message)
        self.allowed = allowed


class PermissionDenied(FanlogError):
    """The caller, or the process that works for it, may not do this; the message says what may."""

    code = "PERMISSION_DENIED"
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class Unauthenticated(FanlogError):
    """The caller did not show who it is, or not in a way that this server believes.

    The answer is the same for every reason; the server's log has the reason. Send a token, or have
    a client use a key file; see the guide on access.
    """

    code = "UNAUTHENTICATED"
    grpc_status = "UNAUTHENTICATED"
    http_status = 401


class NotFound(FanlogError):
    """The named resource does not exist. Create it first, or check the project in the name."""

    code = "NOT_FOUND"
    grpc_status = "NOT_FOUND"
    http_status = 404


class TopicNotFound(NotFound):
    """No topic of that name exists."""

    code = "TOPIC_NOT_FOUND"


class SubscriptionNotFound(NotFound):
    """No subscription of that name exists."""

    code = "SUBSCRIPTION_NOT_FOUND"


class MessageNotFound(NotFound):
    """No message has that id: no topic of this server gave it, or not yet."""

    code = "MESSAGE_NOT_FOUND"


class SnapshotNotFound(NotFound):
    """No snapshot of that name exists, or it has expired."""

    code = "SNAPSHOT_NOT_FOUND"


class RouteNotFound(NotFound):
    """HTTP: nothing is served at this path; `/openapi.json` lists what is."""

    code = "ROUTE_NOT_FOUND"


class SchemaNotFound(NotFound):
    """No schema of that name exists, or it has no such revision."""

    code = "SCHEMA_NOT_FOUND"


class AccountNotFound(NotFound):
    """The named service account does not exist."""

    code = "ACCOUNT_NOT_FOUND"


class JobNotFound(NotFound):
    """There is no such job; it may have been forgotten since it ended."""

    code = "JOB_NOT_FOUND"


class ScheduleNotFound(NotFound):
    """There is no such schedule."""

    code = "SCHEDULE_NOT_FOUND"


class AlertNotFound(NotFound):
    """There is no such alert."""

    code = "ALERT_NOT_FOUND"


class JobFailed(FanlogError):
    """A job came to no good end; the sentence says why."""

    code = "JOB_FAILED"
    grpc_status = "ABORTED"
    http_status = 409


class SchemaMismatch(InvalidArgument):
    """A message does not conform to its topic's schema; nothing of the request was published.

    The sentence names the message by its index in the request, the path in its data and what was
    expected there.
    """

    code = "SCHEMA_MISMATCH"


class SchemaIncompatible(InvalidArgument):
    """A new revision breaks the compatibility its schema promises; the breaking changes are listed.

    Change the definition, or commit with another compatibility.
    """

    code = "SCHEMA_INCOMPATIBLE"


class AlreadyExists(FanlogError):
    """A resource of that name exists already. Choose another name or use the one there is."""

    code = "ALREADY_EXISTS"
    grpc_status = "ALREADY_EXISTS"
    http_status = 409


class Aborted(FanlogError):
    """Somebody else's change came in between. Read what is there now, and repeat yours."""

    code = "ABORTED"
    grpc_status = "ABORTED"
    http_status = 409


class FailedPrecondition(FanlogError):
    """The resource is not in a state that allows this; the sentence says which state it is in."""

    code = "FAILED_PRECONDITION"
    grpc_status = "FAILED_PRECONDITION"
    http_status = 400


class ResourceExhausted(FanlogError):
    """A limit of the service itself is reached; try again later or make room."""

    code = "RESOURCE_EXHAUSTED"
    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 429

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateExceeded(ResourceExhausted):
    """A project, a caller or a topic has used up a rate; the answer says when to try again."""

    code = "RATE_EXCEEDED"


class DiskFull(ResourceExhausted):
    """The disk has only the reserve left. Publishing resumes by itself when there is room."""

    code = "DISK_FULL"


class HotLogFull(ResourceExhausted):
    """The hot log has reached `hot_size_bytes` and waits for the archive.

    Publishing resumes by itself when the archive has come further. Is the pipeline running?
    """

    code = "HOT_LOG_FULL"


class WriterBacklogFull(ResourceExhausted):
    """Too many bytes wait for the disk already. Try again in a moment, or publish more slowly."""

    code = "WRITER_BACKLOG_FULL"


class LoadShed(ResourceExhausted):
    """The disk is behind, and publishes of low priority are refused first (`shed_at`).

    Try again when the answer says, or publish with a `fanlog-priority`.
    """

    code = "LOAD_SHED"


class BacklogFull(ResourceExhausted):
    """A critical subscription of the topic is too far behind, and pushes back on publishers.

    Publish again later; its consumers have to come further first.
    """

    code = "BACKLOG_FULL"


class Unavailable(FanlogError):
    """The broker is draining, starting or recovering. Nothing is lost; try again."""

    code = "UNAVAILABLE"
    grpc_status = "UNAVAILABLE"
    http_status = 503


class LakeUnavailable(Unavailable):
    """Archived messages are asked for and the lake cannot be read now, or is not the right one.

    Hot messages are served; the broker's log and `/readyz` say what is wrong with the lake.
    """

    code = "LAKE_UNAVAILABLE"


class CommitFailed(Unavailable):
    """The log refused a commit; the request changed nothing. Try again; see the broker's log."""

    code = "COMMIT_FAILED"


class CommitTooLarge(CommitFailed):
    """One commit would have more bytes than a replicated log takes; nothing changed.

    Send fewer messages in one request, or change fewer subscriptions at once.
    """

    code = "COMMIT_TOO_LARGE"


class Fenced(CommitFailed):
    """This node does not own the log any more; nothing changed. The new owner does: try again."""

    code = "FENCED"


class OutcomeUnknown(CommitFailed):
    """It is not known whether the commit happened: this node cannot say, and stepped down.

    Messages published with a dedup id can be published again; others may then be there twice.
    """

    code = "OUTCOME_UNKNOWN"


class DataLoss(FanlogError):
    """Stored bytes fail their checksum; `fanlog doctor` names what is damaged."""

    code = "DATA_LOSS"
    grpc_status = "DATA_LOSS"
    http_status = 500


class DataFolderInUse(FanlogError):
    """Another broker holds the data folder. Stop it, or choose another folder."""

    code = "DATA_FOLDER_IN_USE"


class ConfigError(FanlogError):
    """A flag, variable or file setting is wrong; the sentence names it."""

    code = "CONFIG"


class AckIdsRefused(FanlogError):
    """Exactly-once: some ack ids were refused, so nothing of the request was applied.

    `failures` maps each ack id of the request to the reason official clients understand:
    `PERMANENT_FAILURE_INVALID_ACK_ID`, or `TRANSIENT_FAILURE_…` for those worth sending again.
    """

    code = "ACK_IDS_REFUSED"
    grpc_status = "FAILED_PRECONDITION"
    http_status = 400

    def __init__(self, message: str, failures: Mapping[str, str]) -> None:
        super().__init__(message)
        self.failures = dict(failures)
