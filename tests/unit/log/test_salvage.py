"""Salvage: what is sound comes back at its own offsets, and the report says what is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fanlog.errors import ConfigError, DataFolderInUse, DiskFull
from fanlog.log import folder
from fanlog.log import salvage as salvage_module
from fanlog.log.api import Bounds, Damaged, Trim
from fanlog.log.batch import Batch
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.report import FolderReport
from fanlog.log.salvage import salvage
from fanlog.log.side_files import SideFiles
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import ALL_BYTES, ONE, THREE, TWO, Author, make_body, messages_of
from fanlog.testing.damage import damage_batch, damage_meta, damage_partition, damage_state


@pytest.fixture
def filled(data_dir: Path) -> Path:
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for i in range(10):
        bodies = [make_body(b"%d first" % i, b"x" * 5_000)]
        author.commit(
            {ONE: bodies, TWO: bodies, THREE: bodies},
            state={b"key": b"value %d" % i, b"key %d" % i: b"value"},
        )
    trims = [Trim(partition=THREE, before=0, dropped=True), Trim(partition=TWO, before=5)]
    author.commit(trims=trims)
    author.collect_garbage()
    log.close()
    return data_dir


@pytest.fixture
def out_dir(tmp_path: Path) -> Path:
    return tmp_path / "salvaged"


def ruin_pages(data_dir: Path) -> None:
    """Make every page of LMDB's trees unreadable; the values on them stay as they are."""
    path = data_dir / folder.DATA_NAME
    content = bytearray(path.read_bytes())
    content[:8192] = bytes(8192)
    for page in range(2, len(content) // 4096):
        # Flags at byte 10: a leaf is no longer a leaf. Inside a long value there are no headers.
        if content[page * 4096 : page * 4096 + 8] == page.to_bytes(8, "little"):
            content[page * 4096 + 10] ^= 0x40
    path.write_bytes(content)


def read(log: EmbeddedLog, partition: PartitionId = ONE) -> list[Batch | Damaged]:
    return asyncio.run(log.read(partition, 0, max_bytes=ALL_BYTES))


def losses(report: FolderReport) -> list[str]:
    return [finding.text for finding in report.findings]


def test_sound_folder_comes_back_whole(filled: Path, out_dir: Path):
    log = EmbeddedLog(filled)
    before = (log.identity, log.last_sequence, log.partitions(), list(log.state()))
    positions, batches = log.positions(0, limit=1_000), read(log)
    log.close()
    report = salvage(filled, out_dir)
    assert report.findings == []
    assert report.data_dir == out_dir
    log = EmbeddedLog(out_dir)
    assert (log.identity, log.last_sequence, log.partitions(), list(log.state())) == before
    assert log.positions(0, limit=1_000) == positions
    assert read(log) == batches
    Author(log).publish(ONE, b"goes on")
    log.close()


def test_damaged_batch_becomes_a_hole(filled: Path, out_dir: Path):
    damage_batch(filled, ONE, 4)
    damage_batch(filled, TWO, 18)
    report = salvage(filled, out_dir)
    assert report.is_healthy
    assert report.lost_message_count == 4
    assert losses(report)[0].startswith("lost: partition 1 from offset 4 on: ")
    assert "partition 2 offsets 18 to 19: the batch is missing" in losses(report)
    log = EmbeddedLog(out_dir)
    found = read(log)
    assert [entry.base_offset for entry in found] == list(range(0, 20, 2))
    assert isinstance(found[2], Damaged)
    assert (found[2].base_offset, found[2].count) == (4, 2)
    # The end stays, so that no offset is given twice.
    assert log.bounds(TWO) == Bounds(5, 20)
    Author(log).publish(TWO, b"next")
    assert messages_of(read(log, TWO)[-1:]) == [b"next"]
    log.close()
    assert examine(out_dir).is_healthy


def test_lost_beginning_is_trimmed(filled: Path, out_dir: Path):
    damage_batch(filled, ONE, 0)
    report = salvage(filled, out_dir)
    assert "lost: partition 1 offsets 0 to 1: the partition now starts at 2" in losses(report)
    log = EmbeddedLog(out_dir)
    assert log.bounds(ONE) == Bounds(2, 20)
    log.close()


def test_damaged_state_is_lost_or_replaced_by_an_older_copy(filled: Path, out_dir: Path):
    damage_state(filled, b"key")
    damage_state(filled, b"key 3")
    report = salvage(filled, out_dir)
    assert report.is_healthy
    log = EmbeddedLog(out_dir)
    state = dict(log.state())
    log.close()
    assert state[b"key 9"] == b"value"
    assert b"key 3" not in state
    assert f"lost: the state record under the key {b'key 3'.hex()}: it fails its checksum" in (
        losses(report)
    )
    # An older copy may be on a page that was not used again yet.
    if b"key" in state:
        assert state[b"key"].startswith(b"value ")
        assert any("is replaced by that of commit" in text for text in losses(report))


def test_lost_row_is_made_from_the_batches(filled: Path, out_dir: Path):
    damage_partition(filled, ONE, index=40)
    report = salvage(filled, out_dir)
    assert report.is_healthy
    log = EmbeddedLog(out_dir)
    assert log.bounds(ONE) == Bounds(0, 20)
    log.close()


def test_lost_identity_is_made_anew(filled: Path, out_dir: Path):
    damage_meta(filled, folder.META_IDENTITY)
    report = salvage(filled, out_dir)
    assert losses(report)[-1] == "lost: the log's identity; it has a new one"
    EmbeddedLog(out_dir).close()


# When the trees cannot be walked.


def test_file_is_searched(filled: Path, out_dir: Path):
    log = EmbeddedLog(filled)
    identity, last_sequence, state = log.identity, log.last_sequence, dict(log.state())
    batches = read(log)
    log.close()
    ruin_pages(filled)
    assert not examine(filled).is_healthy
    report = salvage(filled, out_dir)
    assert report.is_healthy
    assert "file searched" in losses(report)[0]
    log = EmbeddedLog(out_dir)
    assert log.identity == identity
    assert log.last_sequence == last_sequence
    assert dict(log.state()) == state
    assert read(log) == batches
    assert log.bounds(TWO) == Bounds(5, 20)
    log.close()


@pytest.mark.parametrize("are_pages_sound", [True, False])
def test_files_that_state_names_go_along(filled: Path, out_dir: Path, are_pages_sound: bool):
    beside = SideFiles("extras", b"key ", lambda key, _: [key.decode().replace(" ", "-")])
    (filled / "extras").mkdir()
    for number in range(9):
        (filled / "extras" / f"key-{number}").write_text(f"extra {number}")
    (filled / "extras" / "nobody's").touch()
    if not are_pages_sound:
        ruin_pages(filled)
    report = salvage(filled, out_dir, beside=beside)
    assert losses(report)[-1] == "extras/key-9 is named by the state, and is not there to be copied"
    found = {path.name: path.read_text() for path in (out_dir / "extras").iterdir()}
    assert found == {f"key-{number}": f"extra {number}" for number in range(9)}
    assert len(list((filled / "extras").iterdir())) == 10


def test_search_passes_over_damage(filled: Path, out_dir: Path):
    damage_batch(filled, ONE, 6)
    damage_state(filled, b"key 4")
    ruin_pages(filled)
    report = salvage(filled, out_dir)
    assert report.lost_message_count == 2
    log = EmbeddedLog(out_dir)
    assert isinstance(read(log)[3], Damaged)
    assert b"key 5" in dict(log.state())
    assert b"key 4" not in dict(log.state())
    log.close()


def test_search_does_not_look_inside_messages(data_dir: Path, out_dir: Path):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    author.publish(ONE, b"the real first message" * 500)
    log.close()
    stored = (data_dir / folder.DATA_NAME).read_bytes()
    log = EmbeddedLog(data_dir)
    author = Author(log)
    # A publisher sends a piece of a data file, batches and records included.
    author.publish(TWO, b"head" * 2_000 + stored)
    author.commit(state={b"key": b"value"})
    log.close()
    ruin_pages(data_dir)
    assert salvage(data_dir, out_dir).is_healthy
    log = EmbeddedLog(out_dir)
    assert log.last_sequence == 3
    assert log.partitions() == {ONE: Bounds(0, 1), TWO: Bounds(0, 1)}
    assert messages_of(read(log, TWO)) == [b"head" * 2_000 + stored]
    log.close()


def test_newest_wins_where_batches_overlap():
    def place(base: int, end: int, sequence: int, time_ns: int = 1) -> salvage_module._Place:
        return salvage_module._Place(sequence, time_ns, ONE, base, end, 0, 0)

    def kept(*places: salvage_module._Place) -> list[salvage_module._Place]:
        forward = list(salvage_module._without_overlaps(places, {}))
        assert forward == list(salvage_module._without_overlaps(places[::-1], {}))
        return forward

    first, second, third = place(0, 10, 1), place(10, 15, 3), place(15, 20, 3)
    assert kept(first, second, third) == [first, second, third]
    # A commit that failed, and the one that took its sequence or its offsets.
    assert kept(first, place(10, 20, 2), second, third) == [first, second, third]
    assert kept(first, place(10, 12, 3, time_ns=0), second, third) == [first, second, third]
    assert kept(first, place(12, 17, 2), second, third) == [first, second, third]


def test_file_of_something_else_gives_an_empty_log(data_dir: Path, out_dir: Path):
    data_dir.mkdir()
    (data_dir / folder.DATA_NAME).write_bytes(b"no log was here" * 10_000)
    report = salvage(data_dir, out_dir)
    assert (report.message_count, report.state_count) == (0, 0)
    EmbeddedLog(out_dir).close()


# What it refuses.


def test_refuses_a_folder_in_use(filled: Path, out_dir: Path):
    log = EmbeddedLog(filled)
    with pytest.raises(DataFolderInUse):
        salvage(filled, out_dir)
    log.close()


def test_refuses_a_target_that_is_not_empty(filled: Path, out_dir: Path):
    out_dir.mkdir()
    (out_dir / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty: it holds notes\.txt"):
        salvage(filled, out_dir)


def test_refuses_nothing(tmp_path: Path, out_dir: Path):
    with pytest.raises(ConfigError, match="there is no log in"):
        salvage(tmp_path, out_dir)


def test_no_room(data_dir: Path, small_disk: Path):
    log = EmbeddedLog(data_dir)
    for _ in range(8):
        Author(log).publish(ONE, b"x" * 1_000_000)
    log.close()
    with pytest.raises(DiskFull):
        salvage(data_dir, small_disk / "salvaged")


def test_large_folders_are_written_in_slices(
    filled: Path, out_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(salvage_module, "_SLICE_BYTES", 20_000)
    assert salvage(filled, out_dir).message_count == 36


def test_a_batch_under_a_key_of_another_length_is_named_and_its_neighbours_come_back(
    filled: Path, out_dir: Path
):
    store = folder.open_store(filled)
    with store.env.begin(write=True) as txn:
        txn.put(b"short", b"rubbish", db=store.batches)
    store.close()
    report = salvage(filled, out_dir)
    assert losses(report) == [f"lost: a batch under the key {b'short'.hex()}: damaged"]
    log = EmbeddedLog(out_dir)
    assert len(messages_of(read(log))) == 20
    log.close()
