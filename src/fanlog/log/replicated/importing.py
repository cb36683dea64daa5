"""A data folder brought into an empty partition: the log goes on there, as the same log.

What is written looks like a partition that was trimmed, so every node begins with it as it always
does, at a checkpoint with a snapshot behind it:

    take-over     names the log; deleted as soon as the checkpoint stands
    checkpoint    the sequence and the publish time of the folder; the partition begins here
    stages        that the state relies on
    carried       all live batches
    snapshot      all rows and state; not before its last piece can any node own the log
    hand-over     to any node

An import that was killed goes on from what stands in the partition: pieces that are there are not
written again. Each run begins a term, so that an earlier one that still runs is fenced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fanlog.errors import CommitFailed, ConfigError, DataLoss, Unavailable
from fanlog.log import folder
from fanlog.log.batch import BatchDamaged
from fanlog.log.doctor import examine
from fanlog.log.envelope import EnvelopeDamaged
from fanlog.log.folder import FolderFacts, Store
from fanlog.log.replicated import emptying, steps
from fanlog.log.replicated.bodies import Body, Checkpoint, HandOver, StageEnd, StagePiece
from fanlog.log.replicated.comparing import Compared, Side, compare
from fanlog.log.replicated.driving import WAIT_S, StepsDriver
from fanlog.log.replicated.partition import (
    OffsetGone,
    Partition,
    PartitionBounds,
    PartitionUnavailable,
    RecordTooLarge,
)
from fanlog.log.replicated.payloads import NONCE_BYTES
from fanlog.log.replicated.rebuilding import Rebuilt
from fanlog.log.replicated.steps import AppendOutcome
from fanlog.log.replicated.story import Story, StoryBroken, new_facts
from fanlog.log.report import FolderReport
from fanlog.log.side_files import SideFiles
from fanlog.log.stored_batches import Transaction

PIECE_BYTES = 1024 * 1024
#: Ends the file of a stage, with what it says of itself; the pieces are before it.
_STAGE_END_BYTES = 1024

#: Told what was appended so far, in bytes, of about so many.
Progress = Callable[[int, int], None]


class Imported(NamedTuple):
    """What an import found to be true in the end."""

    identity: str
    sequence: int
    message_count: int
    partition_count: int
    batch_count: int
    state_count: int
    #: Entries that this run appended, and their bytes.
    entry_count: int
    appended_bytes: int
    #: It was complete before this run.
    was_complete: bool
    #: Files that the state relies on, and that were not there to be brought along.
    missing_files: tuple[str, ...]


class ImportSource:
    """A data folder of a stopped broker, held and read until `close`.

    Raises:
        DataFolderInUse: A broker is using it.
        ConfigError: There is no log in it, or one that cannot be brought into a cluster.
        DataLoss: It is damaged.
    """

    def __init__(self, data_dir: Path) -> None:
        folder.refuse_cache(data_dir)
        folder.require(data_dir)
        self.data_dir = data_dir
        with ExitStack() as stack:
            stack.enter_context(folder.hold(data_dir))
            self.report: FolderReport = examine(data_dir)
            if not self.report.is_healthy:
                raise DataLoss(
                    f"the folder {data_dir} is damaged, and nothing was imported: look at it with "
                    "`fanlog doctor`"
                )
            self.store: Store = folder.open_store(data_dir, readonly=True)
            stack.callback(self.store.close)
            self.txn: Transaction = stack.enter_context(self.store.env.begin(buffers=True))
            self.facts = self._read_facts()
            self._closing = stack.pop_all()
        #: Of the file; about what the import appends.
        self.size_bytes = (data_dir / folder.DATA_NAME).stat().st_size

    def close(self) -> None:
        self._closing.close()

    def _read_facts(self) -> FolderFacts:
        try:
            facts = folder.read_facts(self.store, self.txn)
        except EnvelopeDamaged as error:
            raise folder.data_loss(self.data_dir, str(error)) from error
        if facts is None or not facts.last_sequence:
            raise ConfigError(
                f"the log in {self.data_dir} has no commit: begin the cluster without it"
            )
        if facts.is_salvaged:
            raise ConfigError(
                f"the log in {self.data_dir} was salvaged, and offsets may be missing in it: a "
                "cluster takes whole logs alone; serve it by itself"
            )
        return facts


class Import:
    """One run. The steps of `run`, in order; used by one thread.

    Args:
        source: The folder.
        partition: Where it goes.
        card: Of imports: the same in all runs, and that of no node.
        beside: Files that the state relies on.
        progress: Called now and then.
        patience_s: For a partition that does not answer.
    """

    def __init__(
        self,
        source: ImportSource,
        partition: Partition,
        card: bytes,
        *,
        beside: SideFiles | None = None,
        progress: Progress = lambda done, total: None,
        patience_s: float = 60.0,
    ) -> None:
        self._source = source
        self._partition = partition
        self._card = card
        self._beside = beside
        self._progress = progress
        self._driver = StepsDriver(partition, patience_s=patience_s)
        self._story = Story(partition.cluster, new_facts(0))
        self._entry_count = 0
        self._appended_bytes = 0
        self._missing: list[str] = []

    def run(self, work_dir: Path) -> Imported:
        """Bring the folder in, or the rest of it, and verify that it is all there.

        Args:
            work_dir: New or empty; a cache is made there to compare it with the folder.

        Raises:
            ConfigError: The cluster has another story, or this one and more.
            Unavailable: The partition does not answer, or another writer came between. Start it
                again: it goes on.
            DataLoss: The folder is damaged, or the partition does not tell what it should.
            DiskFull, CommitFailed: The working folder cannot hold the cache.
        """
        try:
            was_complete = self._find_begin()
            if not was_complete:
                self._write()
            compared = self._verify(work_dir)
        except (PartitionUnavailable, OffsetGone) as error:
            raise Unavailable(
                f"the partition does not answer: {error}; start the import again, it goes on"
            ) from error
        except StoryBroken as error:
            raise DataLoss(
                f"the log of the cluster {self._partition.cluster!r} cannot be read: {error}"
            ) from error
        except (EnvelopeDamaged, BatchDamaged, *folder.UNREADABLE) as error:
            raise folder.data_loss(self._source.data_dir, str(error)) from error
        facts = self._source.facts
        return Imported(
            facts.identity.hex(),
            facts.last_sequence,
            self._source.report.message_count,
            compared.partition_count,
            compared.batch_count,
            compared.state_count,
            self._entry_count,
            self._appended_bytes,
            was_complete,
            tuple(self._missing),
        )

    # Where to begin.

    def _find_begin(self) -> bool:
        """Read what is there, up to where this run goes on; whether the import was complete."""
        bounds = self._bounds()
        if bounds.end == 0:
            return False
        if bounds.start == 0 and self._has_untrimmed_checkpoint(bounds):
            bounds = self._bounds()
        self._read_from(bounds)
        self._check_same(bounds)
        facts = self._story.facts
        return facts.card != self._card or facts.successor is not None

    def _has_untrimmed_checkpoint(self, bounds: PartitionBounds) -> bool:
        """An import was killed before the partition was made to begin at its checkpoint."""
        story = Story(self._partition.cluster, new_facts(0))
        while story.facts.next_offset < bounds.end:
            for record in self._driver.fetch(story.facts.next_offset):
                before = story.facts
                try:
                    story.read(record)
                except StoryBroken:
                    entry = story.decode(record.value)
                    if (
                        before.card == self._card
                        and before.sequence == 0
                        and isinstance(entry.body, Checkpoint)
                        and entry.head.chain == before.chain
                        and entry.head.expected == record.offset
                        and entry.body.nonce == before.nonce
                        and entry.body.identity == before.identity
                    ):
                        self._require_identity(before.identity)
                        self._partition.delete_before(record.offset)
                        return True
                    raise
                if story.facts.sequence:
                    # Of nodes, which began it.
                    return False
        return False

    def _read_from(self, bounds: PartitionBounds) -> None:
        story = self._story = Story(self._partition.cluster, new_facts(bounds.start))
        self._driver.drive(steps.read_to(story, bounds.end))

    def _check_same(self, bounds: PartitionBounds) -> None:
        """Refuse what is not this folder's story."""
        story, wanted = self._story, self._source.facts
        facts, name = story.facts, f"the cluster {self._partition.cluster!r}"
        if not story.has_begun:
            raise ConfigError(
                f"the topic of {name} had {bounds.end} records, and none of them begins a log: "
                "import into a cluster that is new"
            )
        self._require_identity(facts.identity)
        if facts.sequence > wanted.last_sequence:
            raise ConfigError(
                f"{name} has this log and goes on from it: it is at commit {facts.sequence}, and "
                f"the folder at {wanted.last_sequence}; nothing is to be imported"
            )
        has_checkpoint = bool(story.marks.checkpoints)
        is_other = facts.sequence != wanted.last_sequence
        if has_checkpoint and (is_other or facts.publish_time_ns != wanted.last_publish_time_ns):
            raise ConfigError(
                f"{name} has this log up to commit {facts.sequence}, and the folder is at "
                f"{wanted.last_sequence}: it was served since the import began; delete the topic "
                "and import it anew"
            )
        if facts.card != self._card and not (has_checkpoint and story.is_whole):
            raise ConfigError(f"{name} has this log, and something else than an import wrote it")

    def _require_identity(self, identity: bytes) -> None:
        if identity != self._source.facts.identity:
            raise ConfigError(
                f"the cluster {self._partition.cluster!r} has another log ({identity.hex()}) than "
                f"the folder ({self._source.facts.identity.hex()}): import into a cluster that is "
                "new, before its first node is started"
            )

    # Writing.

    def _write(self) -> None:
        self._take_over()
        if not self._story.marks.checkpoints:
            self._begin_log()
        if self._story.marks.carrying is None and self._story.marks.carried_begin < 0:
            self._write_stages()
        while self._story.marks.carried_begin < 0:
            self._append(self._carried())
        while self._story.marks.snapshot_begin < 0:
            self._append(self._piece())
        self._append(HandOver(successor=""))

    def _take_over(self) -> None:
        nonce = os.urandom(NONCE_BYTES)
        identity = self._source.facts.identity
        running = steps.take_over(self._story, card=self._card, identity=identity, nonce=nonce)
        if self._driver.drive(running) is None:
            raise Unavailable(
                f"another writer began in the cluster {self._partition.cluster!r}, or Kafka lost "
                "the take-over: see that no node and no other import runs, and start it again"
            )

    def _begin_log(self) -> None:
        """Go on at the folder's last commit: the partition begins anew with a checkpoint."""
        facts, wanted = self._story.facts, self._source.facts
        begun = replace(
            facts,
            start_offset=facts.next_offset,
            sequence=wanted.last_sequence,
            publish_time_ns=wanted.last_publish_time_ns,
        )
        self._story = Story(self._partition.cluster, begun)
        assert begun.card is not None
        self._append(
            Checkpoint(
                identity=begun.identity,
                publish_time_ns=begun.publish_time_ns,
                total_bytes=begun.total_bytes,
                nonce=begun.nonce,
                card=begun.card,
            )
        )
        start = self._story.marks.checkpoints[-1].offset
        self._driver.patiently(lambda: self._partition.delete_before(start))

    def _write_stages(self) -> None:
        if self._beside is None:
            return
        place = self._source.data_dir / self._beside.folder
        for name in self._beside.names(self._source.store, self._source.txn):
            path = place / name
            if path.is_file():
                self._write_stage(path)
            else:
                self._missing.append(f"{self._beside.folder}/{name}")

    def _write_stage(self, path: Path) -> None:
        end = max(0, path.stat().st_size - _STAGE_END_BYTES)
        with path.open("rb") as file:
            for position in range(0, end, PIECE_BYTES):
                content = file.read(min(PIECE_BYTES, end - position))
                self._append(StagePiece(stage_id=path.stem, position=position, content=content))
            self._append(StageEnd(stage_id=path.stem, position=end, said=file.read()))

    def _carried(self) -> Body:
        marks, facts = self._story.marks, self._story.facts
        before = marks.carrying
        return emptying.carried(
            self._source.store,
            self._source.txn,
            begin=facts.next_offset if before is None else before.begin,
            first=b"" if before is None else before.until,
            up_to=facts.sequence,
            bytes_max=PIECE_BYTES,
        )

    def _piece(self) -> Body:
        before = self._story.marks.snapshot
        return emptying.snapshot_piece(
            self._source.store,
            self._source.txn,
            begin=self._story.facts.next_offset if before is None else before.begin,
            first=b"" if before is None else before.until,
            bytes_max=PIECE_BYTES,
        )

    def _append(self, body: Body) -> None:
        before_bytes = self._story.facts.total_bytes
        try:
            outcome = self._driver.drive(steps.append(self._story, body))
        except RecordTooLarge as error:
            raise CommitFailed(f"the partition refuses a record: {error}") from error
        if outcome is AppendOutcome.FENCED:
            raise Unavailable(
                f"another writer took the cluster {self._partition.cluster!r} over in the middle "
                "of the import: see that no other import runs, and start it again"
            )
        if outcome is AppendOutcome.UNKNOWN:
            raise Unavailable(
                "Kafka did not say whether it has the last record; start the import again, it goes "
                "on"
            )
        self._entry_count += 1
        self._appended_bytes += self._story.facts.total_bytes - before_bytes
        self._progress(self._appended_bytes, self._source.size_bytes)

    # Verifying.

    def _verify(self, work_dir: Path) -> Compared:
        """Make a cache of what stands in the partition, and compare it with the folder."""
        # Nodes may have begun to add renewals behind it.
        end = self._story.facts.next_offset
        rebuilt = Rebuilt(work_dir, self._driver)
        try:
            rebuilt.read_to(end)
            if not rebuilt.is_whole:
                raise DataLoss("the partition has no whole snapshot after the import")
            source = Side("the folder", self._source.store, self._source.txn)
            compared = rebuilt.cache.look(
                lambda store, txn: compare(source, Side("Kafka", store, txn))
            )
        finally:
            rebuilt.close()
        if compared.differences:
            raise DataLoss(
                f"the cluster {self._partition.cluster!r} differs from the folder after the "
                f"import: {'; '.join(compared.differences)}"
            )
        return compared

    def _bounds(self) -> PartitionBounds:
        return self._driver.patiently(lambda: self._partition.bounds(wait_s=WAIT_S))
