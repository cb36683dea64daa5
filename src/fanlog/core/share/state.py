"""The hard state of a share, and the records it is made of.

The cursor, the fence, the attempt counts (under a dead letter policy) and the held leases (under
exactly-once). `apply` is the only method that changes them. The verbs of `fanlog.core.share.share`
decide; the methods here make records of their decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pyroaring import BitMap64

from fanlog.core.attempts import Attempts, Counts
from fanlog.core.cursor import Cursor, CursorChange
from fanlog.core.records import (
    AttemptsChunk,
    CursorChunk,
    CursorHead,
    LeaseHeld,
    ReopenedChunk,
    ShareRecord,
)
from fanlog.core.reopening import ChunkChanges
from fanlog.core.share.lease import LeaseTable
from fanlog.model.resources import Offset, PartitionId, Subscription


class ShareState:
    """The state of one share that survives a restart. Not safe to share between threads."""

    __slots__ = ("attempts", "cursor", "fence", "held", "partition", "settings")

    def __init__(self, settings: Subscription, partition: PartitionId, floor: Offset) -> None:
        self.settings = settings
        self.partition = partition
        self.cursor = Cursor(floor)
        #: Generation of the last seek: ack ids of earlier generations count for nothing.
        self.fence = 0
        #: Soft without a dead letter policy: then they only shape the back-off.
        self.attempts = Attempts()
        #: Leases under exactly-once, by generation and part.
        self.held: dict[tuple[int, int], LeaseHeld] = {}

    def apply(self, record: ShareRecord) -> None:
        """Change hard state. The only method that does, live and on recovery alike."""
        match record:
            case CursorHead(floor=mark, fence=fence):
                if mark is not None:
                    self.cursor.apply_head(mark)
                    self.fence = fence
            case CursorChunk(chunk=chunk, bits=bits):
                self.cursor.apply_chunk(chunk, bits)
            case ReopenedChunk(chunk=chunk, opened=opened):
                self.cursor.apply_reopened(chunk, opened)
            case AttemptsChunk(chunk=chunk, counts=counts):
                self.attempts.apply(chunk, counts)
            case LeaseHeld(generation=generation, part=part, offsets=offsets):
                if offsets is None:
                    self.held.pop((generation, part), None)
                else:
                    self.held[generation, part] = record
            case _:
                assert_never(record)

    @property
    def follows_commits(self) -> bool:
        """Whether the next answer may rest on records that are not committed yet.

        The message before it of its key may be a dead letter under way, or the message itself be
        reopened: then the answer must not leave before that commit.
        """
        is_ordered = self.settings.enable_message_ordering
        return (is_ordered and self.settings.dead_letter is not None) or bool(self.cursor.reopened)

    def configure(self, settings: Subscription) -> list[ShareRecord]:
        """Take other settings; return the records of state that becomes hard, or stops being so."""
        before, self.settings = self.settings, settings
        assert settings.enable_message_ordering == before.enable_message_ordering
        records: list[ShareRecord] = []
        if before.enable_exactly_once and not settings.enable_exactly_once:
            records += self._held_removal()
        if before.dead_letter is not None and settings.dead_letter is None:
            # Without a policy these records would never be written again, nor removed.
            records += self._attempts_removal()
        elif before.dead_letter is None and settings.dead_letter is not None:
            # Failures counted for the back-off count for the policy, too, and so become hard state.
            records += self.attempt_records(self.attempts.items())
        return records

    # Records.

    def creation_records(self) -> list[ShareRecord]:
        """The records of a new share."""
        return [CursorHead(self.settings.id, self.partition, self.cursor.mark, 0)]

    def removal_records(self) -> list[ShareRecord]:
        """The records that remove everything of this share."""
        owner, partition = self.settings.id, self.partition
        records: list[ShareRecord] = [CursorHead(owner, partition, None)]
        records += [CursorChunk(owner, partition, n, None) for n in self.cursor.chunks]
        records += [ReopenedChunk(owner, partition, n, None) for n in self.cursor.reopened.chunks]
        records += self._attempts_removal()
        records += self._held_removal()
        return records

    def cursor_records(self, change: CursorChange, fence: int | None = None) -> list[ShareRecord]:
        """The records of a change of the cursor; with `fence`, of a seek."""
        owner, partition = self.settings.id, self.partition
        # Reopened chunks first: applying a head with a new fence makes the soft state begin anew
        # at the floor, and the floor depends on them.
        records: list[ShareRecord] = [
            ReopenedChunk(owner, partition, n, chunk) for n, chunk in change.reopened.items()
        ]
        if change.mark != self.cursor.mark or fence is not None:
            head = CursorHead(owner, partition, change.mark, self.fence if fence is None else fence)
            records.append(head)
        records += [CursorChunk(owner, partition, n, bits) for n, bits in change.chunks.items()]
        if self.attempts:
            passed = self.attempts.chunks_below(self.cursor.floor_after(change))
            records += self.attempt_records((n, None) for n in passed)
        return records

    def reopening_records(self, opened: BitMap64, chunks: ChunkChanges) -> list[ShareRecord]:
        """The records that reopen messages: they begin without failures."""
        owner, partition = self.settings.id, self.partition
        records: list[ShareRecord] = []
        records += [ReopenedChunk(owner, partition, n, chunk) for n, chunk in chunks.items()]
        if self.attempts:
            records += self.attempt_records(self.attempts.clear(opened).items())
        return records

    def attempt_records(self, chunks: Iterable[tuple[int, Counts | None]]) -> list[ShareRecord]:
        """The records of changed counts. Without a dead letter policy they are applied here.

        Counts that only shape the back-off are soft: a restart may forget them, and a nack costs
        no commit.
        """
        if self.settings.dead_letter is None:
            for number, counts in chunks:
                self.attempts.apply(number, counts)
            return []
        owner, partition = self.settings.id, self.partition
        return [AttemptsChunk(owner, partition, number, counts) for number, counts in chunks]

    def attempt_resets(self) -> list[ShareRecord]:
        """The records that begin every count anew."""
        return self.attempt_records((n, None) for n in self.attempts.numbers())

    def lease_records(self, leases: LeaseTable) -> list[ShareRecord]:
        """The records of all leases that changed in the running verb."""
        owner, partition = self.settings.id, self.partition
        records: list[ShareRecord] = []
        for number, part in sorted(leases.changed):
            lease = leases.part(number, part)
            if lease is None:
                records.append(self._lease_removal(number, part))
            else:
                deadline_s, offsets = lease.deadline_s, lease.open
                records.append(LeaseHeld(owner, partition, number, part, deadline_s, offsets))
        return records

    def _attempts_removal(self) -> list[ShareRecord]:
        owner, partition = self.settings.id, self.partition
        return [AttemptsChunk(owner, partition, n, None) for n in self.attempts.numbers()]

    def _held_removal(self) -> list[ShareRecord]:
        return [self._lease_removal(*key) for key in self.held]

    def _lease_removal(self, generation: int, part: int) -> LeaseHeld:
        return LeaseHeld(self.settings.id, self.partition, generation, part, 0.0, None)
