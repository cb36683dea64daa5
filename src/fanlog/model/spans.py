"""Spans: the steps of one message on its way, and the context that ties them to one trace.

The words are those of OpenTelemetry and of W3C's Trace Context: a context travels as the text
`00-<trace id>-<span id>-<flags>`, in the header `traceparent` or in an attribute of a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

#: The header, or the metadata, that a context is sent in; messages have an attribute for it.
TRACEPARENT: Final = "traceparent"

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1

Kind = Literal["internal", "server", "client", "producer", "consumer"]


@dataclass(frozen=True, slots=True)
class SpanContext:
    """A place in a trace: the span that others begin below."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{int(self.is_sampled):02x}"


def parse_traceparent(text: str) -> SpanContext | None:
    """The context that a text says; None for a text that says none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    # Later versions may say more behind it; 255 is none.
    if (
        version == "ff"
        or (version == "00" and rest)
        or not int(trace_id, 16)
        or not int(span_id, 16)
    ):
        return None
    is_sampled = bool(int(flags, 16) & _SAMPLED)
    return SpanContext(bytes.fromhex(trace_id), bytes.fromhex(span_id), is_sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """One step, when it is over."""

    context: SpanContext
    #: The span that it is a part of; empty for the first of a trace.
    parent_id: bytes
    name: str
    kind: Kind
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    #: Of several messages, the contexts of the others.
    links: tuple[SpanContext, ...] = ()
    #: Why it failed; empty when it did not.
    error: str = ""
