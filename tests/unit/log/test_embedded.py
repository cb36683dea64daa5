"""The embedded engine beyond the conformance suite: its lock, its disk, its crashes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import lmdb
import pytest

from fanlog.errors import CommitFailed, ConfigError, DataFolderInUse, DataLoss, DiskFull
from fanlog.log import folder
from fanlog.log.api import Append, Bounds, Commit, Damaged, Trim
from fanlog.log.batch import Batch
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.encoded import encode_commit
from fanlog.log.writing import FREED_BATCHES_MAX
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import (
    ALL_BYTES,
    ONE,
    SECOND_NS,
    TWO,
    Author,
    make_body,
    messages_of,
)
from fanlog.testing.damage import damage_batch, damage_meta, damage_partition, damage_state


def read(log: EmbeddedLog, partition: PartitionId = ONE, offset: int = 0) -> list[Batch | Damaged]:
    return asyncio.run(log.read(partition, offset, max_bytes=ALL_BYTES))


# The folder and its lock.


def test_second_log_on_a_folder_is_refused(log: EmbeddedLog, data_dir: Path):
    with pytest.raises(DataFolderInUse, match=f"{data_dir} is in use by process {os.getpid()}"):
        EmbeddedLog(data_dir)
    log.close()
    EmbeddedLog(data_dir).close()


HOLD = """
import sys, pathlib
from fanlog.log.embedded import EmbeddedLog
log = EmbeddedLog(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
"""


def test_another_process_is_refused_until_the_holder_dies(data_dir: Path, start_child):
    child = start_child(HOLD, data_dir)
    assert child.hear() == "ready"
    with pytest.raises(DataFolderInUse, match=f"process {child.process.pid}"):
        EmbeddedLog(data_dir)
    child.end()
    EmbeddedLog(data_dir).close()


def test_holder_without_a_number(data_dir: Path, log: EmbeddedLog):
    (data_dir / folder.LOCK_NAME).write_text("")
    with pytest.raises(DataFolderInUse, match="another process"):
        EmbeddedLog(data_dir)


def test_folder_is_made_with_its_parents(tmp_path: Path):
    EmbeddedLog(tmp_path / "a" / "b").close()
    assert (tmp_path / "a" / "b" / "data.mdb").exists()


def test_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the data folder"):
        EmbeddedLog(tmp_path / "file" / "data")


def test_failed_opening_lets_go_of_the_lock(data_dir: Path):
    data_dir.mkdir()
    (data_dir / "data.mdb").write_bytes(b"not LMDB at all" * 1_000)
    for _ in range(2):
        with pytest.raises(DataLoss, match="fanlog doctor --salvage"):
            EmbeddedLog(data_dir)


# Damage found when opening.


def fill(data_dir: Path) -> None:
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for i in range(5):
        author.commit({ONE: [make_body(b"message %d" % i)]}, state={b"key": b"value %d" % i})
    log.close()


def test_newer_format_is_refused_by_number(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(folder, "FORMAT_VERSION", 2)
        EmbeddedLog(data_dir).close()
    with pytest.raises(ConfigError, match="format version 2; this build of Fanlog reads version 1"):
        EmbeddedLog(data_dir)


@pytest.mark.parametrize("key", [folder.META_FORMAT, folder.META_IDENTITY, folder.META_LAST])
def test_damaged_facts_stop_the_broker(data_dir: Path, key: bytes):
    fill(data_dir)
    damage_meta(data_dir, key)
    with pytest.raises(DataLoss, match="fanlog doctor --salvage"):
        EmbeddedLog(data_dir)


def test_damaged_row_stops_the_broker(data_dir: Path):
    fill(data_dir)
    damage_partition(data_dir, ONE)
    with pytest.raises(DataLoss, match="fanlog doctor --salvage"):
        EmbeddedLog(data_dir)


def test_damaged_state_names_the_key(data_dir: Path):
    fill(data_dir)
    damage_state(data_dir, b"key")
    log = EmbeddedLog(data_dir)
    with pytest.raises(DataLoss, match=b"key".hex()):
        list(log.state())
    log.close()


def test_missing_facts_stop_the_broker(data_dir: Path):
    fill(data_dir)
    store = folder.open_store(data_dir)
    with store.env.begin(write=True) as txn:
        txn.delete(folder.META_LAST, db=store.meta)
    store.close()
    with pytest.raises(DataLoss, match="last sequence is missing"):
        EmbeddedLog(data_dir)


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9])
def test_file_cut_short_stops_the_broker(data_dir: Path, kept: float):
    log = EmbeddedLog(data_dir)
    Author(log).publish(ONE, *[b"x" * 10_000] * 100)
    log.close()
    path = data_dir / "data.mdb"
    os.truncate(path, int(path.stat().st_size * kept))
    with pytest.raises(DataLoss, match="is damaged: "):
        EmbeddedLog(data_dir)


# Damage found when reading.


@pytest.mark.parametrize("index", [0, 4, 20, 63, -1])
def test_damage_anywhere_in_a_batch_is_named(data_dir: Path, index: int):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for partition in (ONE, TWO):
        author.publish(partition, b"first", b"second")
        author.publish(partition, b"third", b"fourth", b"fifth")
    log.close()
    damage_batch(data_dir, ONE, 2, index=index)
    damage_batch(data_dir, TWO, 0, index=index)
    log = EmbeddedLog(data_dir)
    first, damaged = read(log, ONE)
    assert messages_of([first]) == [b"first", b"second"]
    assert isinstance(damaged, Damaged)
    assert (damaged.base_offset, damaged.count) == (2, 3)
    assert isinstance(read(log, TWO)[0], Damaged)
    assert messages_of(read(log, TWO)[1:]) == [b"third", b"fourth", b"fifth"]
    # Times around what cannot be read: as late as what follows.
    assert asyncio.run(log.offset_for_time(TWO, 0)) == 0
    # What is damaged can still be trimmed.
    trims = [Trim(partition=ONE, before=5), Trim(partition=TWO, before=0, dropped=True)]
    Author(log).commit(trims=trims)
    Author(log).collect_garbage()
    assert log.partitions() == {ONE: Bounds(5, 5)}
    assert log.positions(0, limit=10) == []
    log.close()


def test_time_of_a_partition_whose_end_is_damaged(data_dir: Path):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for _ in range(3):
        author.publish(ONE, b"a")
    last_ns = log.last_publish_time_ns
    log.close()
    damage_batch(data_dir, ONE, 2, index=20)
    log = EmbeddedLog(data_dir)
    assert asyncio.run(log.offset_for_time(ONE, last_ns)) == 2
    assert asyncio.run(log.offset_for_time(ONE, last_ns - SECOND_NS)) == 1
    log.close()


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_batch_that_is_gone_is_named(data_dir: Path, lost: int):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for i in range(3):
        author.publish(ONE, b"%d" % i, b"x")
        author.publish(TWO, b"other")
    log.close()
    store = folder.open_store(data_dir)
    with store.env.begin(write=True) as txn:
        assert txn.delete(folder.batch_key(ONE, lost), db=store.batches)
    store.close()
    log = EmbeddedLog(data_dir)
    found = read(log)
    assert [entry.base_offset for entry in found] == [0, 2, 4]
    (damaged,) = (entry for entry in found if isinstance(entry, Damaged))
    assert (damaged.base_offset, damaged.count) == (lost, 2)
    assert damaged.reason == "the batch is missing"
    assert read(log, offset=lost + 1)[0].base_offset == lost + 1
    for time_ns in (0, log.last_publish_time_ns, log.last_publish_time_ns + 1):
        assert asyncio.run(log.offset_for_time(ONE, time_ns)) in range(7)
    log.close()


def test_batch_under_another_key_is_not_served(data_dir: Path):
    fill(data_dir)
    store = folder.open_store(data_dir)
    with store.env.begin(write=True) as txn:
        value = txn.get(folder.batch_key(ONE, 1), db=store.batches)
        assert value is not None
        txn.put(folder.batch_key(ONE, 2), value, db=store.batches)
    store.close()
    log = EmbeddedLog(data_dir)
    found = read(log)
    assert isinstance(found[2], Damaged)
    assert "another place" in found[2].reason
    log.close()


# Trimming.


def test_a_commit_frees_a_bounded_number_of_batches(log: EmbeddedLog):
    author = Author(log)
    for i in range(3 * FREED_BATCHES_MAX):
        author.publish(ONE, b"%d" % i)
    author.commit(trims=[Trim(partition=ONE, before=3 * FREED_BATCHES_MAX)])
    rounds = 1
    while log.has_garbage:
        author.commit()
        rounds += 1
    # And one more, after which the last pages can be used again.
    assert rounds == 4


def test_garbage_is_remembered_over_a_restart(data_dir: Path):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for _ in range(2 * FREED_BATCHES_MAX):
        author.commit({ONE: [make_body(b"a")], TWO: [make_body(b"b")]})
    author.commit(
        trims=[Trim(partition=ONE, before=0, dropped=True), Trim(partition=TWO, before=100)]
    )
    log.close()
    log = EmbeddedLog(data_dir)
    assert log.has_garbage
    Author(log).collect_garbage()
    log.close()
    log = EmbeddedLog(data_dir)
    assert not log.has_garbage
    assert log.partitions() == {TWO: Bounds(100, 2 * FREED_BATCHES_MAX)}
    with log._env.begin() as txn:
        assert txn.stat(log._store.batches)["entries"] == 2 * FREED_BATCHES_MAX - 100
        assert txn.stat(log._store.partitions)["entries"] == 1
    log.close()


def test_freed_pages_are_used_again(log: EmbeddedLog):
    author = Author(log)
    for i in range(30):
        end = log.bounds(ONE).end
        trims = [Trim(partition=ONE, before=end - 3)] if i > 5 else []
        author.commit({ONE: [make_body(b"x" * 200_000)]}, trims=trims)
    stats = log.stats()
    assert stats.file_bytes < 12 * 200_000
    author.commit(trims=[Trim(partition=ONE, before=30)])
    author.collect_garbage()
    assert log.stats().free_bytes > stats.free_bytes


def test_freed_under_a_reader_is_not_damage(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch):
    author = Author(log)
    for i in range(10):
        author.publish(ONE, b"%d" % i)
    before = dict(log._bounds)
    author.commit(trims=[Trim(partition=ONE, before=7)])
    monkeypatch.setattr(log, "_bounds", before)
    assert messages_of(read(log)) == [b"7", b"8", b"9"]
    monkeypatch.undo()
    author.commit(trims=[Trim(partition=ONE, before=0, dropped=True)])
    monkeypatch.setattr(log, "_bounds", before)
    assert read(log, TWO) == []
    monkeypatch.setattr(log, "_cache", type(log._cache)(max_bytes=0))
    assert read(log) == []


# Commits that fail.


def test_disk_full_and_room_again(small_disk: Path):
    log = EmbeddedLog(small_disk / "data")
    author = Author(log)
    with pytest.raises(DiskFull, match="no room on the disk"):  # noqa: PT012
        for _ in range(100):
            author.publish(ONE, b"x" * 200_000)
    bounds, sequence = log.bounds(ONE), log.last_sequence
    assert bounds.end > 5
    assert log.stats().room_bytes < 600_000
    with pytest.raises(DiskFull):
        author.publish(ONE, b"x" * 200_000)
    assert (log.bounds(ONE), log.last_sequence) == (bounds, sequence)
    assert len(messages_of(read(log))) == bounds.end
    # A broker that starts on a full disk can make room, and publishing goes on.
    log.close()
    log = EmbeddedLog(small_disk / "data")
    author = Author(log)
    author.commit(trims=[Trim(partition=ONE, before=bounds.end - 1)])
    author.collect_garbage()
    assert log.stats().room_bytes > 1_000_000
    for _ in range(5):
        author.publish(ONE, b"y" * 200_000)
    log.close()
    log = EmbeddedLog(small_disk / "data")
    assert messages_of(read(log))[1:] == [b"y" * 200_000] * 5
    log.close()


def test_no_room_for_a_new_folder(small_disk: Path):
    (small_disk / "ballast").write_bytes(bytes(folder.free_disk_bytes(small_disk) - 8_192))
    with pytest.raises(DiskFull, match="no room on the disk"):
        EmbeddedLog(small_disk / "data")


def test_other_refusals_change_nothing(data_dir: Path, log: EmbeddedLog):
    author = Author(log)
    author.publish(ONE, b"a")
    with log._env.begin(write=True) as txn:
        # A transaction that is open elsewhere for writing would block; a broken one is refused.
        txn.drop(log._store.state, delete=True)
    with pytest.raises(CommitFailed, match="commit 2 could not be written"):
        author.commit({ONE: [make_body(b"b")]}, state={b"k": b"v"})
    assert log.last_sequence == 1
    author.publish(ONE, b"c")
    assert messages_of(read(log)) == [b"a", b"c"]


def test_trees_that_make_no_sense_are_data_loss(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch):
    author = Author(log)
    author.publish(ONE, b"a")
    # The newest of a partition is not read from the file.
    author.publish(ONE, b"b")

    class Broken:
        def begin(self, **_: object) -> None:
            raise lmdb.CorruptedError("mdb_cursor_get")

    monkeypatch.setattr(log, "_env", Broken())
    with pytest.raises(DataLoss, match="fanlog doctor --salvage"):
        read(log)


# Crashes.

WRITE = """
import sys, pathlib
from fanlog.log.embedded import EmbeddedLog
from fanlog.testing.conformance import *
log = EmbeddedLog(pathlib.Path(sys.argv[1]))
author = Author(log)
while True:
    number = log.last_sequence
    author.commit(
        {ONE: [make_body(b"%d" % number)], TWO: [make_body(b"%d" % number * 1000)]},
        state={b"last": b"%d" % number},
        trims=[Trim(partition=TWO, before=number - 10)],
    )
    print(number, flush=True)
"""


def test_answered_commits_survive_a_kill(data_dir: Path, start_child):
    answered = -1
    for pause in (1, 7, 30):
        child = start_child(WRITE, data_dir)
        for _ in range(pause):
            answered = int(child.hear())
        os.kill(child.process.pid, signal.SIGKILL)
        answered = max([answered, *map(int, child.process.communicate()[0].split())])
        log = EmbeddedLog(data_dir)
        kept = log.last_sequence - 1
        assert kept >= answered
        assert messages_of(read(log)) == [b"%d" % i for i in range(kept + 1)]
        assert messages_of(read(log, TWO))[-1] == b"%d" % kept * 1000
        assert dict(log.state()) == {b"last": b"%d" % kept}
        log.close()
    assert folder.page_problems(data_dir) == []


def test_commits_of_one_transaction_are_as_those_of_several(tmp_path):
    """As caches apply them: a partition that is dropped by one commit is gone for the next."""
    commits = [
        Commit(
            sequence=sequence,
            publish_time_ns=sequence,
            appends=[Append(topic=7, partition=p, base_offset=base, bodies=[make_body(b"m")])],
            trims=trims,
        )
        for sequence, (p, base, trims) in enumerate(
            [
                (ONE, 0, []),
                (TWO, 0, [Trim(partition=ONE, before=0, dropped=True)]),
                (TWO, 1, [Trim(partition=ONE, before=9), Trim(partition=TWO, before=1)]),
            ],
            start=1,
        )
    ]
    one, several = EmbeddedLog(tmp_path / "one"), EmbeddedLog(tmp_path / "several", syncs=False)

    def fill(writing):
        for commit in commits:
            writing.commit(encode_commit(commit))

    one.change(fill, "three commits")
    for commit in commits:
        several.commit(commit)
    assert one.partitions() == several.partitions() == {TWO: Bounds(1, 2)}
    assert one.positions(0, limit=9) == several.positions(0, limit=9)
    for log in (one, several):
        Author(log).collect_garbage()
        log.close()
    reopened = EmbeddedLog(tmp_path / "one")
    assert reopened.partitions() == {TWO: Bounds(1, 2)}
    reopened.close()
