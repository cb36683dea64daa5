"""The batch: the unit of everything the log stores. Values here; the bytes are in this file too.

(Layout and codec: to be written here, see docs/internals/data_files.md.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fanlog.model import Offset, PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Messages ready to be stored, all of one publish: the bytes and where each message starts.

    `content` is a run of PublishRequest's repeated `messages` fields, tags and lengths included.
    `starts[i]` is where field i begins in `content`; the last entry is its length, so that there is
    one entry more than there are messages. `key_hashes` has one entry a message, 0 for no ordering
    key, or is None when no message has one.
    """

    content: bytes
    starts: Sequence[int]
    key_hashes: Sequence[int] | None = None
    #: Attributes added to every message of the body when it is delivered.
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as read back: what the header says, the slot table, and the body's bytes."""

    topic: int
    partition: PartitionId
    base_offset: Offset
    #: Sequence of the commit that wrote it.
    sequence: int
    publish_time_ns: int
    #: As in `Body`: one entry more than there are messages, offsets into `content`.
    starts: Sequence[int]
    key_hashes: Sequence[int] | None
    attributes: Mapping[str, str]
    #: As in `Body`.
    content: bytes

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + len(self.starts) - 1
