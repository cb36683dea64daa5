"""The data folder: its files, its lock, and the databases of LMDB's environment in it.

    fanlog.lock   held by the one process that writes; its content is that process's number
    data.mdb      the LMDB file
    lock.mdb      LMDB's table of readers; made again whenever it is missing

Databases inside `data.mdb`, keys big-endian so that they sort by number:

    batches       partition, base offset            -> batch (`fanlog.log.batch`)
    commits       sequence, partition, base offset  -> nothing
    state         the broker's key                  -> envelope (`fanlog.log.envelope`)
    partitions    partition                         -> envelope of `PartitionRow`
    meta          `format`, `identity`, `last`      -> envelope

Everything but `commits` describes itself, and `commits` can be made again from the batches.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import lmdb

from fanlog import limits
from fanlog.errors import CommitFailed, ConfigError, DataFolderInUse, DataLoss, DiskFull
from fanlog.log import envelope, pages
from fanlog.log.envelope import EnvelopeDamaged, Kind
from fanlog.model.resources import Offset, PartitionId

log = logging.getLogger("fanlog.log")

#: Version of the folder as a whole: databases, keys and their meaning.
FORMAT_VERSION = 1

LOCK_NAME = "fanlog.lock"
DATA_NAME = "data.mdb"
READERS_NAME = "lock.mdb"

#: In the folder of a node of a cluster (`fanlog.log.replicated.cache`): the cluster's name, and the
#: data folder, which is never synced.
CACHE_NAME = "cache.json"
CACHE_LOG_NAME = "log"

#: The log holds messages and the secrets of push endpoints: its owner alone reads it.
FOLDER_MODE = 0o700
FILE_MODE = 0o600

#: Address space, not disk: the map is made once and never resized while in use.
MAP_BYTES = 1 << 40

DATABASES = (b"batches", b"commits", b"state", b"partitions", b"meta")

META_FORMAT = b"format"
META_IDENTITY = b"identity"
META_LAST = b"last"
#: Present in a folder that `fanlog doctor --salvage` made: offsets may be missing.
META_SALVAGED = b"salvaged"
#: Present in the cache of a replicated log (`fanlog.log.replicated.cache`): how far it is.
META_REPLICA = b"replica"
#: The same: where a reader of the partition could begin.
META_MARKS = b"marks"

_BATCH_KEY = struct.Struct(">IQ")
BATCH_KEY_BYTES = _BATCH_KEY.size
_COMMIT_KEY = struct.Struct(">QIQ")
COMMIT_KEY_BYTES = _COMMIT_KEY.size
_PARTITION_KEY = struct.Struct(">I")
_PARTITION_ROW = struct.Struct("<QQB")
_META_FORMAT = struct.Struct("<I")
_META_LAST = struct.Struct("<QQ")

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

#: LMDB's ways of saying that its pages make no sense.
_TREE_ERRORS = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)

#: The errors that reading raises for a page or a key that makes no sense.
UNREADABLE = (lmdb.Error, struct.error)

_SALVAGE_HINT = "Stop the broker and run `fanlog doctor --salvage`, or restore a backup."


class PartitionRow(NamedTuple):
    """The stored facts about a partition beside its batches."""

    start: Offset
    end: Offset
    #: Forgotten by the broker; its batches are still being freed.
    is_dropped: bool


class FolderFacts(NamedTuple):
    """The facts about the log in the database `meta`."""

    identity: bytes
    last_sequence: int
    last_publish_time_ns: int
    is_salvaged: bool


class Store:
    """An open environment and its databases. One per process and folder (LMDB's own rule)."""

    def __init__(self, env: lmdb.Environment, *, create: bool) -> None:
        self.env = env
        handles = [env.open_db(name, create=create) for name in DATABASES]
        self.batches, self.commits, self.state, self.partitions, self.meta = handles

    def close(self) -> None:
        self.env.close()


def open_store(data_dir: Path, *, readonly: bool = False, syncs: bool = True) -> Store:
    """Open the environment in `data_dir`, making it if there is none and `readonly` is not set.

    A read-only store may be opened while another process writes. One that is to be written has its
    pages verified first, unless there are too many of them. Without `syncs` a commit survives the
    process, and not the machine.

    Raises:
        DataLoss: LMDB finds its own pages damaged, or the file is cut short.
        DiskFull: There is no room to make it.
        ConfigError: The files cannot be opened.
    """
    if not readonly and (data_dir / DATA_NAME).exists():
        _check_file(data_dir)
    try:
        env = lmdb.open(
            str(data_dir),
            map_size=MAP_BYTES,
            max_dbs=len(DATABASES),
            max_spare_txns=1,
            readonly=readonly,
            create=not readonly,
            sync=syncs,
            mode=FILE_MODE,
        )
        try:
            _check_length(env, data_dir)
            return Store(env, create=not readonly)
        except BaseException:
            env.close()
            raise
    except _TREE_ERRORS as error:
        raise data_loss(data_dir, str(error)) from error
    except lmdb.DiskError as error:
        raise write_error(error, f"the data folder {data_dir}", data_dir) from error
    except lmdb.Error as error:
        raise ConfigError(f"cannot open the data folder {data_dir}: {error}") from error


def _check_file(data_dir: Path) -> None:
    """Look at a file before LMDB does, which trusts it: some damage would end the process."""
    path = data_dir / DATA_NAME
    size_bytes = path.stat().st_size
    if size_bytes == 0 or pages.is_unborn(path):
        # LMDB would take a torn first write for damage, and a broker would never start.
        os.truncate(path, 0)
    elif size_bytes > limits.VERIFY_BYTES_MAX:
        log.warning(
            "action=pages_not_verified bytes=%d; it would take long: let `fanlog doctor` do it",
            size_bytes,
        )
    else:
        for problem in page_problems(data_dir):
            if not pages.is_harmless(problem):
                raise data_loss(data_dir, problem)


def data_loss(data_dir: Path, reason: str) -> DataLoss:
    """The error for a folder whose trees or own records cannot be trusted."""
    return DataLoss(f"the data folder {data_dir} is damaged: {reason}. {_SALVAGE_HINT}")


def free_disk_bytes(place: Path) -> int:
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def write_error(error: lmdb.Error | OSError, what: str, place: Path) -> DiskFull | CommitFailed:
    """The error for something that could not be written at `place`: no room, or anything else."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
    # LMDB calls it an input/output error when the disk took only a part of a write.
    is_cut = code == errno.EIO and free_disk_bytes(place) < limits.COMMIT_BYTES_MAX
    if isinstance(error, lmdb.MapFullError) or code in _NO_ROOM or is_cut:
        return DiskFull(f"there is no room on the disk for {what}: {error}")
    return CommitFailed(f"{what} could not be written: {error}")


def page_problems(data_dir: Path) -> list[str]:
    """Problems of LMDB's pages, found without LMDB, which trusts them. At rest only."""
    return pages.problems(data_dir / DATA_NAME, facts=DATABASES[-1], last=META_LAST)


def _check_length(env: lmdb.Environment, data_dir: Path) -> None:
    # A page beyond the end of the file would kill the process when it is touched. Free pages may
    # lie there lawfully, so that a short file is looked at more closely before it is refused.
    # In this order: a broker that writes to it meanwhile makes it longer.
    expected_bytes = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    size_bytes = (data_dir / DATA_NAME).stat().st_size
    if size_bytes < expected_bytes and page_problems(data_dir):
        reason = f"{DATA_NAME} has {size_bytes} bytes and should have {expected_bytes}"
        raise data_loss(data_dir, reason)


def make(data_dir: Path) -> None:
    """Make the folder unless it is there.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        data_dir.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the data folder {data_dir}: {error}") from error


def warn_if_shared(path: Path) -> None:
    """Say in the log that others of this machine may read a folder; one that is not there, not."""
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~FOLDER_MODE:
            log.warning(
                "action=folder_shared path=%s mode=%o; others on this machine can read messages "
                "and secrets in it: chmod -R go= %s",
                path,
                mode,
                path,
            )


def require(data_dir: Path) -> None:
    """Refuse a folder that holds no log.

    Raises:
        ConfigError: There is no data file in it.
    """
    path = data_dir / DATA_NAME
    if not path.is_file() or path.stat().st_size == 0:
        raise ConfigError(f"there is no log in {data_dir}: it has no {DATA_NAME}, or an empty one")


def is_cache(data_dir: Path) -> bool:
    """Whether the folder is that of a node of a cluster."""
    return (data_dir / CACHE_NAME).exists()


def log_place(data_dir: Path) -> Path:
    """Where the data file is: in the folder of a node, one below."""
    return data_dir / CACHE_LOG_NAME if is_cache(data_dir) else data_dir


def refuse_cache(data_dir: Path) -> None:
    """Refuse the folder of a node of a cluster, and the log in it, to those who would write there.

    Raises:
        ConfigError: It is one.
    """
    for place in (data_dir, data_dir.parent):
        if is_cache(place) and (place is data_dir or data_dir.name == CACHE_LOG_NAME):
            raise ConfigError(
                f"the folder {place} is the cache of a node of a cluster, whose log is in Kafka: "
                "serve it with --kafka and --cluster, or make a folder of its own from it with "
                "`fanlog backup`"
            )


def require_empty(data_dir: Path) -> None:
    """Make the folder if need be, and refuse one that holds anything but a lock that is free.

    Raises:
        ConfigError: It is not empty.
    """
    make(data_dir)
    found = sorted(entry.name for entry in data_dir.iterdir() if entry.name != LOCK_NAME)
    if found:
        raise ConfigError(f"the folder {data_dir} is not empty: it holds {found[0]}")


@contextmanager
def hold(data_dir: Path) -> Iterator[None]:
    """Hold the folder's lock for the length of a `with` block; see `take_lock`."""
    descriptor = take_lock(data_dir)
    try:
        yield
    finally:
        os.close(descriptor)


def take_lock(data_dir: Path) -> int:
    """Take the folder for this process; the lock goes when the returned descriptor is closed.

    Raises:
        DataFolderInUse: Another process, or this one, holds it already.
        ConfigError: The folder is missing or not writable.
    """
    try:
        descriptor = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise ConfigError(f"cannot write to the data folder {data_dir}: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        by = f"process {holder}" if holder.isdigit() else "another process"
        raise DataFolderInUse(
            f"the data folder {data_dir} is in use by {by}: stop it, or choose another folder"
        ) from error
    # The number is a courtesy; a full disk must not keep a broker from starting and making room.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, after files were made or renamed in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def batch_key(partition: PartitionId, base_offset: Offset) -> bytes:
    return _BATCH_KEY.pack(partition, base_offset)


def parse_batch_key(key: bytes | memoryview) -> tuple[PartitionId, Offset]:
    partition, base_offset = _BATCH_KEY.unpack(key)
    return PartitionId(partition), base_offset


def commit_key(sequence: int, partition: PartitionId, base_offset: Offset) -> bytes:
    return _COMMIT_KEY.pack(sequence, partition, base_offset)


def parse_commit_key(key: bytes | memoryview) -> tuple[int, PartitionId, Offset]:
    sequence, partition, base_offset = _COMMIT_KEY.unpack(key)
    return sequence, PartitionId(partition), base_offset


def partition_key(partition: PartitionId) -> bytes:
    return _PARTITION_KEY.pack(partition)


def parse_partition_key(key: bytes | memoryview) -> PartitionId:
    return PartitionId(_PARTITION_KEY.unpack(key)[0])


def pack_row(row: PartitionRow) -> bytes:
    return _PARTITION_ROW.pack(*row)


def parse_row(payload: bytes) -> PartitionRow:
    start, end, flags = _PARTITION_ROW.unpack(payload)
    return PartitionRow(start, end, bool(flags))


def read_row(
    store: Store, txn: lmdb.Transaction[memoryview], partition: PartitionId
) -> PartitionRow | None:
    """A partition's row as `txn` sees it; None when there is none or it is not readable."""
    key = partition_key(partition)
    value = txn.get(key, db=store.partitions)
    if value is None:
        return None
    try:
        return parse_row(open_envelope(Kind.PARTITION, key, value))
    except EnvelopeDamaged:
        return None


def open_envelope(kind: Kind, key: bytes | memoryview, value: bytes | memoryview) -> bytes:
    """The payload of a record that stands under `key`.

    Raises:
        EnvelopeDamaged: It is not that record, whole and unchanged.
    """
    record = envelope.decode(value)
    if record.kind is not kind or record.key != key or record.value_bytes != len(value):
        raise EnvelopeDamaged("it is the record of another key")
    return record.payload


def read_facts(store: Store, txn: lmdb.Transaction[memoryview]) -> FolderFacts | None:
    """Read the facts in `meta`; None when the folder is new.

    Raises:
        EnvelopeDamaged: A fact is missing or unreadable, or the format is another build's.
    """
    version_bytes = get_meta(store, txn, META_FORMAT)
    if version_bytes is None:
        return None
    (version,) = _META_FORMAT.unpack(version_bytes)
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"the data folder has format version {version}; "
            f"this build of Fanlog reads version {FORMAT_VERSION}"
        )
    identity, last = get_meta(store, txn, META_IDENTITY), get_meta(store, txn, META_LAST)
    if identity is None or last is None:
        raise EnvelopeDamaged("the log's identity or its last sequence is missing")
    sequence, publish_time_ns = _META_LAST.unpack(last)
    is_salvaged = get_meta(store, txn, META_SALVAGED) is not None
    return FolderFacts(identity, sequence, publish_time_ns, is_salvaged)


def write_facts(store: Store, txn: lmdb.Transaction[memoryview], facts: FolderFacts) -> None:
    """Write all of `meta`: for a new folder."""
    write_last(store, txn, facts.last_sequence, facts.last_publish_time_ns)
    entries = [(META_FORMAT, _META_FORMAT.pack(FORMAT_VERSION)), (META_IDENTITY, facts.identity)]
    if facts.is_salvaged:
        entries.append((META_SALVAGED, b""))
    for key, payload in entries:
        put_meta(store, txn, key, payload, facts.last_sequence, facts.last_publish_time_ns)


def write_last(
    store: Store, txn: lmdb.Transaction[memoryview], sequence: int, publish_time_ns: int
) -> None:
    """Note the commit that `txn` is."""
    put_meta(
        store, txn, META_LAST, _META_LAST.pack(sequence, publish_time_ns), sequence, publish_time_ns
    )


def put_meta(
    store: Store,
    txn: lmdb.Transaction[memoryview],
    key: bytes,
    payload: bytes,
    sequence: int,
    publish_time_ns: int,
) -> None:
    """Write a fact of the commit with that sequence and publish time."""
    value = envelope.encode(
        Kind.META, key, payload, sequence=sequence, publish_time_ns=publish_time_ns
    )
    txn.put(key, value, db=store.meta)


def get_meta(store: Store, txn: lmdb.Transaction[memoryview], key: bytes) -> bytes | None:
    """A fact as `txn` sees it; None when there is none.

    Raises:
        EnvelopeDamaged: It is not readable.
    """
    value = txn.get(key, db=store.meta)
    return None if value is None else open_envelope(Kind.META, key, value)
