"""The calls of the API's verbs, over gRPC and over REST."""

from __future__ import annotations

from fanlog.core.authority import ANONYMOUS
from fanlog.model import attributes
from fanlog.transport.calls import (
    EVERYBODY,
    Call,
    CallEnded,
    Caller,
    CallStream,
    Certificate,
    Endable,
    Entry,
    Evidence,
    StreamingCall,
    Unary,
)

__all__ = [
    "EVERYBODY",
    "SHORT_BODY",
    "SHORT_FORM_METADATA",
    "Call",
    "CallEnded",
    "CallStream",
    "Caller",
    "Certificate",
    "Endable",
    "Entry",
    "Evidence",
    "StreamingCall",
    "Unary",
    "maker_of",
    "metadata_of",
]

#: Metadata of an update that the short form asks for, and the body of push requests in that form;
#: see `SubscriptionUpdate.short_body`.
SHORT_FORM_METADATA = attributes.SHORT_FORM
SHORT_BODY = "plain"


def maker_of(call: Call) -> str | None:
    """The principal that a resource is made by; None for a caller that nobody knows."""
    principal = call.caller.principal
    return None if principal is None or principal is ANONYMOUS else principal.member


def metadata_of(call: Call) -> dict[str, str | bytes]:
    """The metadata that came with a call, by name."""
    return dict(call.invocation_metadata() or ())
