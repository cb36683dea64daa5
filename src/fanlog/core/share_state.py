"""The hard state of a share, and the records it is made of.

The cursor, the fence, the attempt counts (under a dead letter policy) and the held leases (under
exactly-once). `apply` is the only thing that changes them; what decides is `fanlog.core.share`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap64

from fanlog.core.attempts import Attempts, Counts
from fanlog.core.cursor import Cursor, CursorChange
from fanlog.core.decision import Decision
from fanlog.core.lease import Lease
from fanlog.core.records import (
    AttemptsChunk,
    CursorChunk,
    CursorHead,
    LeaseHeld,
    ReopenedChunk,
    ShareRecord,
)
from fanlog.core.reopening import ChunkChanges
from fanlog.model.resources import Offset, PartitionId, Subscription


class ShareState:
    """What a share keeps. Not safe to share between threads."""

    def __init__(self, settings: Subscription, partition: PartitionId, floor: Offset = 0) -> None:
        self.settings = settings
        self.partition = partition
        self.cursor = Cursor(floor)
        self._fence = 0
        self._attempts = Attempts()
        self._held: dict[tuple[int, int], LeaseHeld] = {}

    def apply(self, record: ShareRecord) -> None:
        """Change hard state. The only method that does."""
        match record:
            case CursorHead(floor=mark, fence=fence):
                if mark is not None:
                    self.cursor.apply_head(mark)
                    self._fence = fence
            case CursorChunk(chunk=chunk, bits=bits):
                self.cursor.apply_chunk(chunk, bits)
            case ReopenedChunk(chunk=chunk, opened=opened):
                self.cursor.apply_reopened(chunk, opened)
            case AttemptsChunk(chunk=chunk, counts=counts):
                self._attempts.apply(chunk, counts)
            case LeaseHeld(generation=generation, part=part, offsets=offsets):
                if offsets is None:
                    self._held.pop((generation, part), None)
                else:
                    self._held[generation, part] = record

    def created(self) -> Decision:
        """The records of a new share."""
        return Decision([CursorHead(self.settings.id, self.partition, self.cursor.mark, 0)])

    @property
    def follows_commits(self) -> bool:
        """Whether a message may be handed out because of what is still on its way to the disk.

        The one before it of its key may be a dead letter, or it may be reopened itself.
        """
        is_ordered = self.settings.enable_message_ordering
        return (is_ordered and self.settings.dead_letter is not None) or bool(self.cursor.reopened)

    def attempts_of(self, offset: Offset) -> int:
        """Failed deliveries of a message so far, as far as they are counted."""
        return self._attempts[offset]

    @property
    def has_attempts(self) -> bool:
        return bool(self._attempts)

    def _removed_records(self) -> list[ShareRecord]:
        """The records that remove everything of this share."""
        owner, partition = self.settings.id, self.partition
        records: list[ShareRecord] = [CursorHead(owner, partition, None)]
        records += [CursorChunk(owner, partition, n, None) for n in self.cursor.chunks]
        records += [ReopenedChunk(owner, partition, n, None) for n in self.cursor.reopened.chunks]
        records += self._attempts_over()
        records += [self._lease_over(*key) for key in self._held]
        return records

    def _cursor_records(self, change: CursorChange, fence: int | None = None) -> list[ShareRecord]:
        owner, partition = self.settings.id, self.partition
        # First: what begins anew after a jump begins at the floor, and so must know of these.
        records: list[ShareRecord] = [
            ReopenedChunk(owner, partition, n, chunk) for n, chunk in change.reopened.items()
        ]
        if change.mark != self.cursor.mark or fence is not None:
            head = CursorHead(
                owner, partition, change.mark, self._fence if fence is None else fence
            )
            records.append(head)
        records += [CursorChunk(owner, partition, n, bits) for n, bits in change.chunks.items()]
        if self._attempts:
            passed = self._attempts.passed(self.cursor.floor_after(change))
            records += self._attempt_records((n, None) for n in passed)
        return records

    def _attempt_records(self, chunks: Iterable[tuple[int, Counts | None]]) -> list[ShareRecord]:
        """Hard under a dead letter policy; soft, and so applied here, under retries alone."""
        if self.settings.dead_letter is None:
            for number, counts in chunks:
                self._attempts.apply(number, counts)
            return []
        owner, partition = self.settings.id, self.partition
        return [AttemptsChunk(owner, partition, number, counts) for number, counts in chunks]

    def _recounted(self, before: Subscription) -> list[ShareRecord]:
        """The settings are others now: attempts become hard, or stop being so, with the policy."""
        if before.dead_letter is not None and self.settings.dead_letter is None:
            # Without a policy these records would never be written again, nor removed.
            return self._attempts_over()
        if before.dead_letter is None and self.settings.dead_letter is not None:
            # Failures counted for the back-off count for the policy, too, and so become hard state.
            return self._attempt_records(self._attempts.items())
        return []

    def _reopened_records(self, opened: BitMap64, chunks: ChunkChanges) -> list[ShareRecord]:
        """Reopened messages begin without failures."""
        owner, partition = self.settings.id, self.partition
        records: list[ShareRecord] = []
        records += [ReopenedChunk(owner, partition, n, chunk) for n, chunk in chunks.items()]
        if self._attempts:
            records += self._attempt_records(self._attempts.cleared(opened).items())
        return records

    def _attempts_over(self) -> list[ShareRecord]:
        owner, partition = self.settings.id, self.partition
        return [AttemptsChunk(owner, partition, n, None) for n in self._attempts.numbers()]

    def _lease_record(self, lease: Lease) -> LeaseHeld:
        owner = self.settings.id
        return LeaseHeld(
            owner, self.partition, lease.generation, lease.part, lease.deadline_s, lease.open
        )

    def _lease_over(self, generation: int, part: int) -> LeaseHeld:
        return LeaseHeld(self.settings.id, self.partition, generation, part, 0.0, None)
