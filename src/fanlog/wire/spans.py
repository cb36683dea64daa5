"""The contexts of traces that messages bring in an attribute, and spans as OTLP has them."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from fanlog.model.attributes import CLIENT_TRACEPARENT
from fanlog.model.spans import Kind, SpanContext, TraceSpan
from fanlog.wire import types
from fanlog.wire.encode import field, varint

_MARK: Final = CLIENT_TRACEPARENT.encode()
_FIXED64: Final = Struct("<Q")
_KINDS: Final[Mapping[Kind, int]] = {
    "internal": 1,
    "server": 2,
    "client": 3,
    "producer": 4,
    "consumer": 5,
}
_ERROR: Final = b"\x18\x02"


def contexts_in(content: bytes) -> Mapping[int, str]:
    """The context of each message that has one, by its index in a run of `messages` fields."""
    # Looked for in the bytes first: mostly no message has one.
    if _MARK not in content:
        return {}
    return {
        index: message.attributes[CLIENT_TRACEPARENT]
        for index, message in enumerate(types.PublishRequest.FromString(content).messages)
        if CLIENT_TRACEPARENT in message.attributes
    }


def span_field(span: TraceSpan) -> bytes:
    """One Span in its frame, as ScopeSpans has it."""
    parts = [
        field(b"\x0a", span.context.trace_id),
        field(b"\x12", span.context.span_id),
        field(b"\x22", span.parent_id) if span.parent_id else b"",
        field(b"\x2a", span.name.encode()),
        b"\x30" + varint(_KINDS[span.kind]),
        b"\x39" + _FIXED64.pack(span.start_ns),
        b"\x41" + _FIXED64.pack(span.end_ns),
        *(_attribute(name, value) for name, value in span.attributes.items()),
        *(_link(link) for link in span.links),
    ]
    if span.error:
        parts.append(field(b"\x7a", field(b"\x12", span.error.encode()) + _ERROR))
    return field(b"\x12", b"".join(parts))


def _attribute(name: str, value: str | int) -> bytes:
    return field(b"\x4a", field(b"\x0a", name.encode()) + field(b"\x12", _any(value)))


def _any(value: str | int) -> bytes:
    if isinstance(value, int):
        return b"\x18" + varint(value)
    return field(b"\x0a", value.encode())


def _link(context: SpanContext) -> bytes:
    return field(b"\x6a", field(b"\x0a", context.trace_id) + field(b"\x12", context.span_id))
