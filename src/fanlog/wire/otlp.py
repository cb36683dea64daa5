"""Metrics as OTLP has them: an ExportMetricsServiceRequest, written by hand.

Its numbers of fields are those of opentelemetry-proto 1; tests read it back with the official
modules. An object for each of fifty thousand samples would cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from fanlog.wire.encode import field, varint

_DOUBLE: Final = Struct("<d")
_FIXED64: Final = Struct("<Q")
_SFIXED64: Final = Struct("<q")
#: A counter since the start, not since the last time.
_CUMULATIVE: Final = b"\x10\x02"
_MONOTONIC: Final = b"\x18\x01"

Attribute = tuple[str, str]


def attributes_of(tag: bytes, pairs: Iterable[Attribute]) -> bytes:
    """Repeated KeyValue with text for values."""
    return b"".join(
        field(tag, field(b"\x0a", name.encode()) + field(b"\x12", field(b"\x0a", text.encode())))
        for name, text in pairs
    )


def resource(pairs: Iterable[Attribute]) -> bytes:
    """The program that something is told of: `resource` of ResourceMetrics and ResourceSpans."""
    return field(b"\x0a", attributes_of(b"\x0a", pairs))


def scope(name: str, version: str) -> bytes:
    """The library that tells it: `scope` of ScopeMetrics and ScopeSpans."""
    return field(b"\x0a", field(b"\x0a", name.encode()) + field(b"\x12", version.encode()))


def request(resource: bytes, scope: bytes, items: Iterable[bytes]) -> bytes:
    """The request with metrics, or spans, of one resource and scope."""
    return field(b"\x0a", resource + field(b"\x12", scope + b"".join(items)))


def times(start_ns: int, now_ns: int) -> bytes:
    """`start_time_unix_nano` and `time_unix_nano` of any point."""
    return b"\x11" + _FIXED64.pack(start_ns) + b"\x19" + _FIXED64.pack(now_ns)


def number_point(names: Sequence[str], values: Sequence[str], value: float, times: bytes) -> bytes:
    """A point of a gauge or a sum."""
    labels = attributes_of(b"\x3a", zip(names, values, strict=True))
    if isinstance(value, int):
        return field(b"\x0a", times + b"\x31" + _SFIXED64.pack(value) + labels)
    return field(b"\x0a", times + b"\x21" + _DOUBLE.pack(value) + labels)


def histogram_point(
    names: Sequence[str],
    values: Sequence[str],
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    times: bytes,
) -> bytes:
    """A point of a histogram."""
    packed_counts = b"".join(map(_FIXED64.pack, counts))
    packed_bounds = b"".join(map(_DOUBLE.pack, bounds))
    return field(
        b"\x0a",
        times
        + (b"\x21" + _FIXED64.pack(sum(counts)))
        + (b"\x29" + _DOUBLE.pack(total))
        + field(b"\x32", packed_counts)
        + field(b"\x3a", packed_bounds)
        + attributes_of(b"\x4a", zip(names, values, strict=True)),
    )


def metric(name: str, text: str, unit: str, kind: str, points: bytes) -> bytes:
    """One Metric in its frame; `kind` is counter, gauge or histogram."""
    head = field(b"\x0a", name.encode()) + field(b"\x12", text.encode())
    if unit:
        head += field(b"\x1a", unit.encode())
    if kind == "gauge":
        data = b"\x2a" + varint(len(points)) + points
    elif kind == "counter":
        data = field(b"\x3a", points + _CUMULATIVE + _MONOTONIC)
    else:
        data = field(b"\x4a", points + _CUMULATIVE)
    return field(b"\x12", head + data)
