"""A log in memory, filled by hand."""

from __future__ import annotations

from collections.abc import Sequence

from fanlog.log.api import Append, Commit, Log, Trim
from fanlog.model.resources import PartitionId
from fanlog.wire.publish import build_body

SECOND_NS = 1_000_000_000
#: 2026-01-02.
DAY_NS = 1_767_312_000 * SECOND_NS

Message = tuple[bytes, dict[str, str], str]


def messages(count: int, *, first: int = 0, key: str = "") -> list[Message]:
    return [
        (b"message %d" % number, {"number": str(number)}, key)
        for number in range(first, first + count)
    ]


def publish(
    log: Log,
    given: Sequence[Message] | int = 1,
    *,
    partition: int = 1,
    time_ns: int = 0,
) -> int:
    """Append messages in a commit of their own; its sequence. Numbered by their offsets."""
    end = log.bounds(PartitionId(partition)).end
    given = messages(given, first=end) if isinstance(given, int) else given
    sequence = log.last_sequence + 1
    log.commit(
        Commit(
            sequence=sequence,
            publish_time_ns=time_ns or max(DAY_NS, log.last_publish_time_ns) + SECOND_NS,
            appends=[
                Append(
                    topic=partition,
                    partition=PartitionId(partition),
                    base_offset=end,
                    bodies=[build_body(given)],
                )
            ],
        )
    )
    return sequence


def trim(log: Log, before: int, *, partition: int = 1) -> None:
    log.commit(
        Commit(
            sequence=log.last_sequence + 1,
            publish_time_ns=log.last_publish_time_ns,
            trims=[Trim(partition=PartitionId(partition), before=before)],
        )
    )


def topic_of(partition: int) -> str:
    return f"projects/p/topics/t{partition}"
