"""Stored batches for tests, and messages as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fanlog.log.batch import Batch, decode, encode
from fanlog.wire.publish import build_body

Message = tuple[bytes, Mapping[str, str], str]

TIME_NS = 1_700_000_000_123_456_000


def stored(
    messages: Sequence[Message],
    *,
    partition: int = 12,
    base_offset: int = 1_000,
    sequence: int = 7,
    attributes: Mapping[str, str] | None = None,
) -> list[bytes]:
    """The values that a log has of one publish."""
    body = replace(build_body(messages), attributes=dict(attributes or {}))
    values = encode(
        [body],
        sequence=sequence,
        topic=3,
        partition=partition,
        base_offset=base_offset,
        publish_time_ns=TIME_NS,
    )
    return [value for _, value in values]


def batch_of(messages: Sequence[Message], **fields: object) -> Batch:
    """One stored batch, read back."""
    [value] = stored(messages, **fields)  # type: ignore[arg-type]
    return decode(value)
