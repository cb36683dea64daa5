"""The failure of a call: one error, with a sentence that the reader of it can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fanlog.errors import FanlogError

#: How gRPC begins the details of a call that never reached a server.
_UNREACHED: Final = (
    "failed to connect",
    "connection refused",
    "dns resolution failed",
    "name resolution",
)

_NAME_CREDENTIALS: Final = (
    "name a token with --token-file (the option token_file, or FANLOG_TOKEN_FILE), or a key file"
    " with --credentials (the option credentials, or FANLOG_CREDENTIALS)"
)


class CallFailed(FanlogError):
    """A call was refused or did not arrive; the sentence says which, `status` is gRPC's name."""

    code = "CALL_FAILED"

    def __init__(self, message: str, status: str, *, has_arrived: bool = True) -> None:
        super().__init__(message)
        self.status = status
        #: False when no server was there to hear it.
        self.has_arrived = has_arrived


@dataclass(frozen=True, slots=True)
class Wording:
    """How the sentences of one kind of program call the server, and its setting for the address."""

    server: str
    #: With places for `endpoint` and for the `details` that gRPC gives. A sentence that quotes the
    #: details is used for every call that is UNAVAILABLE; another one only if no server was there.
    unavailable: str


COMMAND_LINE: Final = Wording(
    "server",
    "no server answers at {endpoint}; start one with `fanlog serve`,"
    " or name another with --endpoint",
)
SPARK: Final = Wording(
    "broker",
    "the broker at {endpoint} cannot be reached ({details}); start one with `fanlog serve`, or name"
    " another with the option endpoint",
)


def failure_of(
    error: Any, *, endpoint: str, timeout_s: float, wording: Wording, credentials: str = ""
) -> CallFailed:
    """The `grpc.RpcError` of a call, which is the call as well, as our own error.

    Args:
        credentials: How sentences call the credentials that were sent; empty for none.
    """
    status = error.code().name
    details = error.details() or ""
    if status == "UNAVAILABLE":
        disagreement = _disagreement(endpoint, details.lower())
        if disagreement:
            sentence = f"the {wording.server} at {endpoint} {disagreement}"
            return CallFailed(sentence, status, has_arrived=False)
        has_arrived = not any(word in details.lower() for word in _UNREACHED)
        if not has_arrived or "{details}" in wording.unavailable:
            sentence = wording.unavailable.format(endpoint=endpoint, details=details)
            return CallFailed(sentence, status, has_arrived=has_arrived)
    server = f"the {wording.server} at {endpoint}"
    if status == "DEADLINE_EXCEEDED":
        return CallFailed(f"{server} did not answer within {timeout_s:g} s", status)
    if status == "UNAUTHENTICATED":
        return CallFailed(f"{server} {_not_accepted(credentials)}", status)
    said = details or f"{server} answered {status} and no reason"
    if status == "PERMISSION_DENIED":
        said += f"; {_not_allowed(credentials)}"
    return CallFailed(said, status)


def _not_accepted(credentials: str) -> str:
    if credentials:
        return (
            f"does not accept {credentials}: it has ended or was revoked, or is for another server;"
            " `fanlog auth token create` and `fanlog auth key create` make a new one"
        )
    return f"wants to know who calls; {_NAME_CREDENTIALS}"


def _not_allowed(credentials: str) -> str:
    if credentials:
        return (
            "`fanlog auth whoami` shows who calls, and `fanlog auth policy add` lets an"
            " administrator give it a role"
        )
    return f"the call had no credentials; if the server asks for some, {_NAME_CREDENTIALS}"


def _disagreement(endpoint: str, details: str) -> str:
    """The point on which the two sides of a connection that broke at once disagree; or empty.

    gRPC tells it as a server that cannot be reached, and a server that is there is not to be
    started.
    """
    if "certificate_verify_failed" in details:
        return (
            "shows a certificate that is for another name, or by an authority that is not known"
            " here; name the authority's file with --ca (the option ca, or FANLOG_CA)"
        )
    if not details.startswith("failed to connect") or not any(
        word in details for word in ("recvmsg", "handshake", "unwrap failed", "socket closed")
    ):
        return ""
    if endpoint.startswith("https://"):
        return (
            "does not speak TLS, or wants to see a certificate of ours; name one with --cert and"
            " --key (the options cert and key, or FANLOG_CERT and FANLOG_KEY)"
        )
    return (
        "hangs up on plain text; if it speaks TLS, name the authority of its certificate with --ca"
        " (the option ca, or FANLOG_CA), or write https:// before its address"
    )
