"""Rows of `messages`, made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fanlog.lake.tables import MESSAGES

#: 2026-01-02, in microseconds.
DAY_US = 1_767_312_000_000_000

#: The table as it was before there were seals.
UNSEALED = replace(
    MESSAGES,
    version=1,
    schema=pa.schema([one for one in MESSAGES.schema if one.name != "seal"]),
    migrations={},
)


def rows(
    offsets: Sequence[int],
    *,
    partition: int = 1,
    topic: str = "projects/p/topics/t",
    sequence: int = 1,
    time_us: int = DAY_US,
    data: bytes = b"x",
    seal: str | None = "",
) -> pa.Table:
    count = len(offsets)
    return pa.table(
        {
            "topic": [topic] * count,
            "partition": [partition] * count,
            "offset": list(offsets),
            "message_id": [f"{partition}{offset:012d}" for offset in offsets],
            "publish_time": [time_us] * count,
            "ordering_key": [""] * count,
            "attributes": [[("number", str(offset))] for offset in offsets],
            "data": [data] * count,
            "sequence": [sequence] * count,
            "seal": [seal] * count,
        },
        schema=MESSAGES.file_schema,
    )
