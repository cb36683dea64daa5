"""A cache made anew of all that the partition has, as a new node makes it; to compare with others.

Reading verifies every entry, the chain and the sequences. Each piece of a snapshot that lies where
the rebuilt cache has all state already is compared with it: snapshots tell what the entries tell.
"""

from __future__ import annotations

from pathlib import Path

from fanlog.log.folder import Store
from fanlog.log.replicated import emptying
from fanlog.log.replicated.bodies import SnapshotPiece
from fanlog.log.replicated.cache import ReplicaCache
from fanlog.log.replicated.driving import WAIT_S, StepsDriver
from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.story import Story, ToldEntry, new_facts
from fanlog.log.stored_batches import Transaction

#: A piece that has all keys behind its first one.
_ALL_BYTES = 1 << 62


class Rebuilt:
    """Used by one thread; `close` it.

    Args:
        place: A folder for it, new or empty; as large as the log when all is read.
        driver: Reads the partition.

    Raises:
        PartitionUnavailable: The partition does not answer.
    """

    def __init__(self, place: Path, driver: StepsDriver) -> None:
        self._driver = driver
        self.bounds = driver.patiently(lambda: driver.partition.bounds(wait_s=WAIT_S))
        self.cache = ReplicaCache(place, boot_id="rebuilt")
        self._story = Story(driver.partition.cluster, new_facts(self.bounds.start))
        #: Offsets of pieces of snapshots that tell something else than the entries before them.
        self.wrong_pieces: list[int] = []
        self.checked_pieces = 0
        #: The last record that is no entry of the cluster.
        self.last_stray: ToldEntry | None = None

    @property
    def facts(self) -> StoryFacts:
        return self._story.facts

    @property
    def stray_count(self) -> int:
        """Records that are no entries of the cluster."""
        return self._story.stray_count

    @property
    def is_whole(self) -> bool:
        return self._story.has_begun and self._story.is_whole

    def read_to(self, end: int) -> None:
        """Read on, up to and without an offset that is not behind the partition's end.

        Raises:
            StoryBroken: It cannot be read on; the sentence names the offset and the problem.
            PartitionUnavailable, OffsetGone: As the partition does.
            DiskFull, CommitFailed, DataLoss: The folder cannot hold it.
        """
        while self.facts.next_offset < end:
            waiting: list[ToldEntry] = []
            for record in self._driver.fetch(self.facts.next_offset):
                if record.offset >= end:
                    break
                was_whole = self.is_whole
                told = self._story.read(record)
                if told.entry is None:
                    self.last_stray = told
                if was_whole and isinstance(told.body, SnapshotPiece):
                    # The entries before it alone.
                    self._apply(waiting)
                    waiting = []
                    self._check(told.offset, told.body)
                waiting.append(told)
            self._apply(waiting)

    def close(self) -> None:
        self.cache.close()

    def _apply(self, told: list[ToldEntry]) -> None:
        if told:
            self.cache.apply(told, self._story)

    def _check(self, offset: int, piece: SnapshotPiece) -> None:
        self.checked_pieces += 1

        def read(store: Store, txn: Transaction) -> SnapshotPiece:
            return emptying.snapshot_piece(
                store,
                txn,
                begin=piece.begin,
                first=piece.first,
                bytes_max=_ALL_BYTES,
                stop=piece.until,
            )

        found = self.cache.look(read)
        if (found.rows, found.state) != (piece.rows, piece.state):
            self.wrong_pieces.append(offset)
