"""The core of a broker in a program: built as the server builds its own, on a log of the same kind.

Lives on the loop, from `open_core` to `close`.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from fanlog import limits
from fanlog.broker import spool
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker as Core
from fanlog.broker.clock import Clock, SystemClock
from fanlog.broker.committer import Committer, InstantCommitter, ThreadCommitter
from fanlog.broker.schemas.examiner import Apart
from fanlog.broker.seal_key_file import read_seal_keys, seal_keys
from fanlog.broker.tiering.cold_check import check_nothing_cold
from fanlog.core.seal_keys import NO_KEYS
from fanlog.errors import ConfigError
from fanlog.in_process.options import is_temporary
from fanlog.log.api import Log
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import DeadLetterDefault
from fanlog.model.server_rules import ServerRules
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose

log = logging.getLogger("fanlog.in_process")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """Settings of a broker in a program; see `Broker`."""

    #: None for a log in memory.
    folder: Path | None
    disk_reserve_bytes: int
    message_bytes_max: int
    topic_retention_s: float
    dead_letter_default: DeadLetterDefault
    seal_key_file: Path | None
    clock: Clock | None


class OpenCore:
    """A core that was started, and what it stands on."""

    def __init__(self, core: Core, store: Log, examiner: Apart) -> None:
        self.core = core
        self._store = store
        self._examiner = examiner

    async def close(self) -> None:
        """Finish what was begun; everything answered is durable when this returns."""
        try:
            await self.core.stop()
            self._examiner.close()
            await self.core.tiers.stop()
        finally:
            self._store.close()

    def disown(self) -> None:
        """In the child of a fork: let go of the folder's lock, and touch nothing else."""
        disown = getattr(self._store, "disown", None)
        if disown is not None:
            disown()


async def open_core(settings: CoreSettings) -> OpenCore:
    """Open the log and start a broker on it.

    Raises:
        DataFolderInUse: Another process, or another broker of this one, has the folder.
        FanlogError: The folder cannot be read, or has messages that are in a lake; unchanged.
    """
    keys = NO_KEYS
    if settings.seal_key_file is not None:
        keys = seal_keys(read_seal_keys(settings.seal_key_file))
    store = _open_store(settings.folder)
    committer: Committer
    committer = InstantCommitter(store) if settings.folder is None else ThreadCommitter(store)
    examiner = Apart()
    try:
        core = build_broker(
            store,
            committer,
            settings.clock or SystemClock(),
            compose=compose,
            candidates=candidates,
            contents=contents,
            jitter=random.random,
            settings=_broker_settings(settings),
            examiner=examiner,
            spool=_spool(settings.folder),
            seal_keys=keys,
        )
        await core.start()
        check_nothing_cold(core.hard, store, "a server is to open it (fanlog serve --lake)")
        core.tiers.begin()
        await _remove_temporary(core)
        _tell_not_sent(core)
    except BaseException:
        committer.close()
        store.close()
        raise
    return OpenCore(core, store, examiner)


def _open_store(folder: Path | None) -> Log:
    if folder is None:
        return MemoryLog(keeps_batches=True)
    # Imported here: a program with messages in memory needs no LMDB.
    from fanlog.log.embedded import EmbeddedLog
    from fanlog.log.folder import warn_if_shared

    warn_if_shared(folder)
    return EmbeddedLog(folder)


def _spool(folder: Path | None) -> spool.Spool | None:
    if folder is None:
        return None
    return spool.FileSpool(folder / spool.FOLDER_NAME, limits.STAGED_BYTES_MAX)


def _broker_settings(settings: CoreSettings) -> BrokerSettings:
    folder = settings.folder
    spare_bytes = limits.SPARE_MEMORY_BYTES_MAX
    if folder is not None:
        disk_bytes = shutil.disk_usage(folder).total
        spare_bytes = min(limits.SPARE_BYTES_MAX, disk_bytes // limits.SPARE_DISK_PART)
    return BrokerSettings(
        disk_reserve_bytes=0 if folder is None else settings.disk_reserve_bytes,
        message_bytes_max=settings.message_bytes_max,
        rules=ServerRules(dead_letter_default=settings.dead_letter_default),
        topic_retention_s=settings.topic_retention_s,
        topic_retention_bytes=spare_bytes,
    )


async def _remove_temporary(core: Core) -> None:
    """Remove the subscriptions without a name of a program that did not stop its broker."""
    for subscription in filter(is_temporary, list(core.hard.catalog.subscriptions())):
        await core.subscriptions.delete(subscription.name)


def _tell_not_sent(core: Core) -> None:
    """Say which subscriptions of the folder nobody serves: those need a server."""
    found = [one.name for one in core.hard.catalog.subscriptions() if one.mode != "pull"]
    if found:
        log.warning(
            "action=not_sent subscriptions=%d first=%s; push, forwards and exports are done by a "
            "server alone: their messages wait",
            *(len(found), found[0]),
        )


def check_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder as a path; raises ConfigError for a file."""
    if folder is None:
        return None
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"folder: {path} is not a folder")
    return path
