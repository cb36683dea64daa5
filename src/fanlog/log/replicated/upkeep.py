"""The owner's chores: checkpoints, pieces of snapshots, old batches again, and trimming."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fanlog.errors import DataLoss
from fanlog.log.replicated import emptying
from fanlog.log.replicated.api import ReplicaClock
from fanlog.log.replicated.bodies import Body, Carried, Checkpoint, SnapshotPiece
from fanlog.log.replicated.checkpoints import (
    Chore,
    LiveBatches,
    UpkeepPace,
    WriteCarried,
    WriteCheckpoint,
    WritePiece,
    next_chore,
    trim_offset,
)
from fanlog.log.replicated.partition import PartitionUnavailable
from fanlog.log.replicated.replica import Replica

log = logging.getLogger("fanlog.replica")


class Upkeep:
    """Of one replica. Called with the log's lock held, but for `trim`."""

    def __init__(self, replica: Replica, pace: UpkeepPace, clock: ReplicaClock) -> None:
        self._replica = replica
        self._pace = pace
        self._clock = clock
        self._next_s = float("-inf")
        self._is_off = False
        #: Where the partition may begin, and where it was last made to.
        self._trim_to = self._trimmed_to = 0

    def begin_term(self) -> None:
        """This node owns from here on."""
        self._is_off = False
        self._trim_to = self._trimmed_to = 0

    def checkpoint(self) -> Checkpoint:
        """The checkpoint behind all that was read."""
        facts = self._replica.story.facts
        assert facts.card is not None
        return Checkpoint(
            identity=facts.identity,
            publish_time_ns=facts.publish_time_ns,
            total_bytes=facts.total_bytes,
            nonce=facts.nonce,
            card=facts.card,
        )

    def run(self, append: Callable[[Body], bool]) -> None:
        """Append one piece of what is due, if the last one was a while ago.

        Raises:
            DataLoss: The cache is damaged; nothing is done any more in this term.
        """
        if self._is_off or self._clock.boottime_s() < self._next_s:
            return
        try:
            self._run(append)
        except DataLoss:
            self._is_off = True
            raise

    def trim(self) -> None:
        """Let the partition begin where it may. Called without the lock; it takes a while."""
        trim_to = self._trim_to
        if trim_to <= self._trimmed_to:
            return
        try:
            self._replica.partition.delete_before(trim_to)
        except PartitionUnavailable as error:
            log.info("action=trim_again offset=%d error=%s", trim_to, error)
        else:
            log.info("action=trimmed offset=%d", trim_to)
            self._trimmed_to = trim_to

    def _run(self, append: Callable[[Body], bool]) -> None:
        chore = self._next_chore()
        if isinstance(chore, WriteCheckpoint):
            if not append(self.checkpoint()):
                return
            self._look_where_to_trim()
            chore = self._next_chore()
        if chore is not None:
            if append(self._body(chore)):
                self._look_where_to_trim()
            self._next_s = self._clock.boottime_s() + self._pace.pause_s

    def _next_chore(self) -> Chore | None:
        story = self._replica.story
        return next_chore(self._pace, story.facts, story.marks, self._live)

    def _body(self, chore: Chore) -> Body:
        match chore:
            case WriteCheckpoint():
                return self.checkpoint()
            case WritePiece():
                return self._piece(chore)
            case WriteCarried():
                return self._carried(chore)

    def _piece(self, chore: WritePiece) -> SnapshotPiece:
        begin, bytes_max = self._begin(chore.begin), self._pace.piece_bytes
        return self._replica.cache.look(
            lambda store, txn: emptying.snapshot_piece(
                store, txn, begin=begin, first=chore.first, bytes_max=bytes_max
            )
        )

    def _carried(self, chore: WriteCarried) -> Carried:
        begin, bytes_max = self._begin(chore.begin), self._pace.piece_bytes
        return self._replica.cache.look(
            lambda store, txn: emptying.carried(
                store,
                txn,
                begin=begin,
                first=chore.first,
                up_to=chore.up_to,
                bytes_max=bytes_max,
            )
        )

    def _begin(self, begin: int) -> int:
        """The first piece lies behind all that was read, if it counts."""
        return self._replica.story.facts.next_offset if begin < 0 else begin

    def _look_where_to_trim(self) -> None:
        found = trim_offset(self._replica.story.marks, self._live())
        if found is not None:
            self._trim_to = max(self._trim_to, found)

    def _live(self) -> LiveBatches:
        cache, carried_up_to = self._replica.cache, self._replica.story.marks.carried_up_to
        oldest, oldest_above = cache.look(
            lambda store, txn: (
                emptying.first_sequence(store, txn, above=-1),
                emptying.first_sequence(store, txn, above=carried_up_to),
            )
        )
        return LiveBatches(oldest_above, oldest, cache.used_bytes())
