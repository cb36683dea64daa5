"""The engine of a server, chosen by its settings: in memory, in a data folder, with a lake."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.tiering.table_looks import LookAtTables
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.config import Config
from fanlog.errors import ConfigError
from fanlog.log.api import Log
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import warn_if_shared
from fanlog.log.memory import MemoryLog

log = logging.getLogger("fanlog.server")


def open_store(config: Config) -> Log:
    """The log of a server that is alone.

    Raises:
        DataFolderInUse: Another process has the data folder.
        FanlogError: The log cannot be read; nothing was changed.
    """
    warn_of_shared_folders(config)
    hot: Log = MemoryLog() if config.memory else EmbeddedLog(config.data_dir)
    try:
        return with_lake(hot, config)
    except BaseException:
        hot.close()
        raise


def warn_of_shared_folders(config: Config) -> None:
    """Say which folders others may read."""
    if config.lake and "://" not in config.lake:
        warn_if_shared(Path(config.lake))
    if not config.memory:
        warn_if_shared(config.data_dir)


def with_lake(hot: Log, config: Config) -> Log:
    """A log over the hot one and the lake, where there is one.

    Raises:
        ConfigError: What a lake needs is not installed.
        LakeError: The address of the lake is none.
    """
    if not config.lake:
        return hot
    try:
        from fanlog.server import tiering

        return tiering.tiered(hot, config)
    except ImportError as error:
        raise ConfigError(f"lake {config.lake!r} is given, and {error}") from error


def new_tiers(config: Config, store: Log, clock: Clock) -> Callable[[Ledger], Tiers] | None:
    """Makes the tiers of a broker, where there is a lake."""
    if not config.lake:
        return None
    from fanlog.server import tiering

    return tiering.new_tiers(store, clock, config)


def look_at_tables(config: Config) -> LookAtTables | None:
    """Looks at the tables of the lake, where there is one."""
    if not config.lake:
        return None
    from fanlog.server import tiering

    return tiering.look_at_tables(config)


def spare_bytes_max(config: Config) -> int:
    """The most bytes that the default retention may keep; the data folder exists by now."""
    if config.topic_retention_bytes is not None:
        return config.topic_retention_bytes
    if config.memory:
        return limits.SPARE_MEMORY_BYTES_MAX
    disk_bytes = shutil.disk_usage(config.data_dir).total
    return min(limits.SPARE_BYTES_MAX, disk_bytes // limits.SPARE_DISK_PART)


def tell_kept_long(broker: Broker) -> None:
    """Say which topics were to be kept in a lake for long: now all of it is hot."""
    found = [
        topic.name
        for topic in broker.hard.catalog.topics()
        if (topic.message_retention_s or 0.0) > limits.RETENTION_S_MAX
    ]
    if found:
        log.warning(
            "action=kept_long topics=%d first=%s; they keep messages for more than 31 days, and "
            "without a lake (--lake) all of them stay in the hot log",
            *(len(found), found[0]),
        )


def tell_other_regions(broker: Broker) -> None:
    """Say which topics are here although their messages are to be in other regions.

    They were made when the server stood elsewhere, or was told so.
    """
    region = broker.rules.region
    found = [
        topic.name
        for topic in broker.hard.catalog.topics()
        if topic.storage_policy is not None and region not in topic.storage_policy.allowed_regions
    ]
    if found:
        log.warning(
            "action=region_not_allowed topics=%d first=%s region=%r; their message_storage_policy "
            "names other regions, and this server stores their messages nevertheless",
            *(len(found), found[0], region),
        )
