"""The cache of a partition: an LMDB folder without syncs, and how far it is.

    fanlog.lock   held by the process that has the folder
    cache.json    cluster, identity of the log, and the machine's boot during which it was made
    log/          a data folder as any other (`fanlog.log.folder`), never synced
    stages/       files of stages (`stages.py`), the same

Entries and the facts behind them are applied in one LMDB transaction. So the cache is the story up
to some offset, whatever happened to the process; after a power cut it may be torn, and is discarded
when the machine booted since. `cache.json` is synced before `log/` is made: a folder without it is
no cache, and never emptied.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fanlog.errors import ConfigError, DataLoss, FanlogError
from fanlog.log import folder
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.encoded import EncodedCommit
from fanlog.log.folder import FolderFacts
from fanlog.log.replicated import filling
from fanlog.log.replicated.bodies import Carried, Checkpoint, SnapshotPiece
from fanlog.log.replicated.facts import StoryFacts, parse_facts
from fanlog.log.replicated.marks import Marks, parse_marks
from fanlog.log.replicated.stages import StageFiles
from fanlog.log.replicated.story import Story, ToldEntry
from fanlog.log.stored_batches import Transaction
from fanlog.log.writing import Writing

log = logging.getLogger("fanlog.replica")

Found = TypeVar("Found")

NAME = folder.CACHE_NAME
LOG_NAME = folder.CACHE_LOG_NAME
STAGES_NAME = "stages"
_FORMAT_VERSION = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ReplicaCache:
    """The cache in a folder, which it makes if need be and holds until `close`.

    One thread at a time may call its methods; readers use `log` on the loop as any `EmbeddedLog`.

    Args:
        cache_dir: The folder.
        boot_id: Of the machine since it was started; "" if not known: then no cache is believed.

    Raises:
        DataFolderInUse: Another process holds the folder.
        ConfigError: It holds something else than a cache.
    """

    def __init__(self, cache_dir: Path, *, boot_id: str) -> None:
        self._cache_dir = cache_dir
        self._boot_id = boot_id
        self.stages = StageFiles(cache_dir / STAGES_NAME)
        #: That the folder is the cache of; None for a new one.
        self._cluster: str | None = None
        self.log: EmbeddedLog | None = None
        #: None when there is no log; so are the marks.
        self.facts: StoryFacts | None = None
        self.marks: Marks | None = None
        folder.make(cache_dir)
        self._lock = folder.take_lock(cache_dir)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def require(self, cluster: str) -> None:
        """Refuse the cache of another cluster.

        Raises:
            ConfigError: It is one.
        """
        if self._cluster not in (None, cluster):
            raise ConfigError(
                f"the folder {self._cache_dir} is the cache of the cluster {self._cluster!r}, and "
                f"this node is of {cluster!r}"
            )

    def apply(self, told: Sequence[ToldEntry], story: Story) -> None:
        """Apply entries, those that do not count included, and store what `story` knows by then.

        Raises:
            DiskFull: No room; nothing changed.
            CommitFailed: LMDB refused; nothing changed.
            DataLoss: The cache is damaged.
        """
        facts, marks = story.facts, story.marks
        if self.log is None:
            if not story.has_begun:
                return
            self._begin(told, story)
        assert self.log is not None
        for one in told:
            self.stages.apply(one.body)

        def fill(writing: Writing) -> None:
            for one in told:
                body = one.body
                if isinstance(body, EncodedCommit):
                    writing.commit(body)
                elif facts.start_offset and isinstance(body, SnapshotPiece):
                    filling.put_piece(writing, body)
                elif facts.start_offset and isinstance(body, Carried):
                    filling.put_batches(writing, body.batches)
            writing.put_fact(folder.META_REPLICA, facts.to_bytes())
            if marks is not self.marks:
                writing.put_fact(folder.META_MARKS, marks.to_bytes())

        self.log.change(fill, f"the entries before offset {facts.next_offset}")
        self.facts, self.marks = facts, marks

    def look(self, read: Callable[[folder.Store, Transaction], Found]) -> Found:
        """As `EmbeddedLog.look`, of a log that there is."""
        assert self.log is not None
        return self.log.look(read)

    def used_bytes(self) -> int:
        """Of the log's pages."""
        assert self.log is not None
        stats = self.log.stats()
        return stats.file_bytes - stats.free_bytes

    def discard(self, reason: str) -> None:
        """Empty the folder, to begin again."""
        log.warning("action=cache_discarded folder=%s reason=%r", self._cache_dir, reason)
        if self.log is not None:
            self.log.close()
        self.log = self.facts = self.marks = None
        self._cluster = None
        shutil.rmtree(self._cache_dir / LOG_NAME, ignore_errors=True)
        shutil.rmtree(self.stages.place, ignore_errors=True)
        (self._cache_dir / NAME).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder. Idempotent."""
        if self.log is not None:
            self.log.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self) -> None:
        if (self._cache_dir / folder.DATA_NAME).exists():
            raise ConfigError(
                f"the folder {self._cache_dir} holds the log of a single server, and no cache of "
                "a cluster: choose another folder"
            )
        path = self._cache_dir / NAME
        if not path.exists():
            if (self._cache_dir / LOG_NAME).exists():
                raise ConfigError(f"the folder {self._cache_dir} has a log, and no {NAME}")
            return
        try:
            said = json.loads(path.read_bytes())
            version, cluster, boot_id = said["version"], said["cluster"], said["boot_id"]
        except (ValueError, KeyError, TypeError):
            self.discard(f"{NAME} cannot be read")
            return
        self._cluster = cluster
        if version != _FORMAT_VERSION:
            self.discard(f"it has format version {version}")
        elif not boot_id or boot_id != self._boot_id:
            self.discard("the machine booted since, and it is never synced")
        else:
            self._open_log()

    def _open_log(self) -> None:
        data_dir = self._cache_dir / LOG_NAME
        if not (data_dir / folder.DATA_NAME).exists():
            self.discard("it is empty")
            return
        try:
            self.log = EmbeddedLog(data_dir, syncs=False)
            facts, marks = self.log.look(
                lambda store, txn: (
                    folder.get_meta(store, txn, folder.META_REPLICA),
                    folder.get_meta(store, txn, folder.META_MARKS),
                )
            )
            if facts is None or marks is None:
                raise ValueError("it does not say how far it is")
            self.facts, self.marks = parse_facts(facts), parse_marks(marks)
            if self.facts.identity != self.log.identity:
                raise ValueError("it says how far another log is")
        except (DataLoss, ConfigError, ValueError) as error:
            self.discard(str(error))

    def _begin(self, told: Sequence[ToldEntry], story: Story) -> None:
        """Make the log, as it is before the first entry that counts."""
        identity = story.facts.identity
        self._cluster = story.cluster
        said = {
            "version": _FORMAT_VERSION,
            "cluster": story.cluster,
            "identity": identity.hex(),
            "boot_id": self._boot_id,
        }
        try:
            with open(self._cache_dir / NAME, "wb") as file:
                file.write(json.dumps(said).encode())
                file.flush()
                os.fsync(file.fileno())
            folder.sync_folder(self._cache_dir)
        except OSError as error:
            raise folder.write_error(error, f"{NAME} of the cache", self._cache_dir) from error
        sequence = publish_time_ns = 0
        first = next(one for one in told if not one.void)
        if isinstance(first.body, Checkpoint):
            assert first.entry is not None
            sequence = first.entry.head.sequence
            publish_time_ns = first.body.publish_time_ns
        begin = FolderFacts(identity, sequence, publish_time_ns, is_salvaged=False)
        try:
            self.log = EmbeddedLog(self._cache_dir / LOG_NAME, begin=begin, syncs=False)
        except FanlogError:
            shutil.rmtree(self._cache_dir / LOG_NAME, ignore_errors=True)
            raise


def machine_boot_id() -> str:
    """A name of the time since the machine was started; "" if it does not tell, as Linux does."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
