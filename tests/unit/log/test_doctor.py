"""The doctor finds what was planted, and nothing where nothing was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from fanlog.errors import ConfigError
from fanlog.log import batch as codec
from fanlog.log import doctor, folder
from fanlog.log.api import Trim
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import Store
from fanlog.log.report import FINDINGS_MAX, Finding, FolderReport
from fanlog.testing.conformance import ONE, THREE, TWO, Author, make_body
from fanlog.testing.damage import damage_batch, damage_meta, damage_partition, damage_state

PAGE_BYTES = 4096


@pytest.fixture
def filled(data_dir: Path) -> Path:
    """Two partitions of ten messages in five batches each, one dropped, some state."""
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for i in range(5):
        bodies = [make_body(b"%d first" % i, b"%d second" % i)]
        author.commit({ONE: bodies, TWO: bodies, THREE: bodies}, state={b"key %d" % i: b"value"})
    author.commit(trims=[Trim(partition=THREE, before=0, dropped=True)])
    author.collect_garbage()
    log.close()
    return data_dir


def texts(report: FolderReport, severity: str = "error") -> list[str]:
    return [finding.text for finding in report.findings if finding.severity == severity]


def change(data_dir: Path, write: Callable[[Store, lmdb.Transaction], object]) -> None:
    store = folder.open_store(data_dir)
    with store.env.begin(write=True) as txn:
        write(store, txn)
    store.close()


def test_sound_folder(filled: Path):
    report = examine(filled)
    assert report.findings == []
    assert report.is_healthy
    assert (report.partition_count, report.batch_count, report.message_count) == (2, 10, 20)
    assert (report.state_count, report.lost_message_count) == (5, 0)
    assert report.last_sequence >= 6
    assert 0 < report.batch_bytes < report.file_bytes
    assert report.state_bytes > 0


def test_new_folder(data_dir: Path):
    EmbeddedLog(data_dir).close()
    assert examine(data_dir).findings == []


def test_no_folder(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no log in"):
        examine(tmp_path)


def test_trimmed_folder(data_dir: Path):
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for _ in range(100):
        author.publish(ONE, b"a", b"b", b"c")
    author.commit(trims=[Trim(partition=ONE, before=295)])
    assert log.has_garbage
    log.close()
    report = examine(data_dir)
    assert report.findings == []
    assert report.message_count == 6


@pytest.mark.parametrize("index", [0, 30, 63, -1])
def test_damaged_batch(filled: Path, index: int):
    damage_batch(filled, ONE, 4, index=index)
    report = examine(filled)
    assert not report.is_healthy
    (text,) = texts(report)
    assert text.startswith("partition 1 offsets 4 to 5: ")
    assert (report.message_count, report.lost_message_count) == (18, 2)


def test_damaged_state(filled: Path):
    damage_state(filled, b"key 3")
    (text,) = texts(examine(filled))
    assert b"key 3".hex() in text


def test_damaged_row(filled: Path):
    damage_partition(filled, ONE)
    found = texts(examine(filled))
    assert found[0].startswith("the row of partition 1: ")


def test_damaged_facts(filled: Path):
    damage_meta(filled, folder.META_LAST)
    assert texts(examine(filled)) == ["the log's own facts: it fails its checksum"]


def test_missing_facts(filled: Path):
    change(filled, lambda store, txn: txn.drop(store.meta, delete=False))
    assert texts(examine(filled)) == ["the log's own facts are missing"]


def test_missing_batch(filled: Path):
    change(filled, lambda s, txn: txn.delete(folder.batch_key(TWO, 6), db=s.batches))
    missing, index = texts(examine(filled))
    assert missing == "partition 2 offsets 6 to 7: the batch is missing"
    assert "partition 2 offset 6, where no batch begins" in index


def test_missing_last_batch(filled: Path):
    change(filled, lambda s, txn: txn.delete(folder.batch_key(TWO, 8), db=s.batches))
    assert "partition 2 offsets 8 to 9: the batch is missing" in texts(examine(filled))


def test_missing_index_entry(filled: Path):
    change(filled, lambda s, txn: txn.delete(folder.commit_key(2, ONE, 2), db=s.commits))
    assert texts(examine(filled)) == [
        "partition 1 offsets 2 to 3: commit 2 has no index entry for it"
    ]


def test_index_entry_of_a_trimmed_batch_is_only_untidy(filled: Path):
    change(filled, lambda s, txn: txn.put(folder.commit_key(1, THREE, 0), b"", db=s.commits))
    report = examine(filled)
    assert report.is_healthy
    assert len(texts(report, "info")) == 1


def test_batches_without_a_row(filled: Path):
    def forget(store: Store, txn: lmdb.Transaction) -> None:
        txn.delete(folder.partition_key(TWO), db=store.partitions)

    change(filled, forget)
    assert texts(examine(filled))[0] == "batches of partition 2, which has no row"


def test_times_that_run_backwards(filled: Path):
    def swap(store: Store, txn: lmdb.Transaction) -> None:
        key = folder.batch_key(ONE, 4)
        header = codec.decode_header(txn.get(key, db=store.batches))
        ((_, value),) = codec.encode(
            [make_body(b"x", b"y")],
            sequence=header.sequence,
            topic=header.topic,
            partition=ONE,
            base_offset=4,
            publish_time_ns=1,
        )
        txn.put(key, value, db=store.batches)

    change(filled, swap)
    (text,) = texts(examine(filled))
    assert "sequence or publish time is below" in text


def test_damaged_pages_are_not_walked(filled: Path):
    path = filled / folder.DATA_NAME
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 16] = b"\xff" * 16
    path.write_bytes(content)
    report = examine(filled)
    assert report.findings[0].text.startswith("LMDB page: ")
    assert "--salvage" in report.findings[-1].text


def test_pages_of_a_file_that_changes_are_not_judged(filled: Path, monkeypatch: pytest.MonkeyPatch):
    def problems(data_dir: Path) -> list[str]:
        os.utime(data_dir / folder.DATA_NAME)
        return ["a page that was just written"]

    monkeypatch.setattr(folder, "page_problems", problems)
    report = examine(filled)
    assert report.is_healthy
    assert len(texts(report, "info")) == 1


def test_pages_that_a_write_of_the_same_tick_has_torn_are_looked_at_again(
    filled: Path, monkeypatch: pytest.MonkeyPatch
):
    found = [["torn"], []]
    monkeypatch.setattr(folder, "page_problems", lambda _: found.pop(0))
    report = examine(filled)
    assert report.is_healthy
    assert found == []


def test_a_file_that_grows_while_it_is_opened_is_not_short(
    filled: Path, monkeypatch: pytest.MonkeyPatch
):
    """What it should have is asked before what it has: a broker may add to it in between."""
    path = filled / folder.DATA_NAME

    class Growing:
        def info(self) -> dict[str, int]:
            with path.open("ab") as file:
                file.write(bytes(PAGE_BYTES))
            return {"last_pgno": path.stat().st_size // PAGE_BYTES - 1}

        def stat(self) -> dict[str, int]:
            return {"psize": PAGE_BYTES}

    monkeypatch.setattr(folder, "page_problems", lambda _: ["of no use while a broker writes"])
    folder._check_length(Growing(), filled)


def test_file_cut_short(filled: Path):
    path = filled / folder.DATA_NAME
    os.truncate(path, path.stat().st_size // 2)
    assert not examine(filled).is_healthy


def test_state_is_judged_by_the_caller(filled: Path):
    seen: list[tuple[bytes, bytes]] = []

    def inspect(records: list[tuple[bytes, bytes]]) -> list[Finding]:
        seen.extend(records)
        return [
            Finding("error", "a subscription of no topic"),
            Finding("warning", "a cursor of no subscription"),
        ]

    report = examine(filled, inspect_state=inspect)
    assert seen == [(b"key %d" % i, b"value") for i in range(5)]
    assert texts(report) == ["a subscription of no topic"]
    assert texts(report, "warning") == ["a cursor of no subscription"]


def test_slices(filled: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "_SLICE_BYTES", 1)
    monkeypatch.setattr(doctor, "_SLICE_ENTRIES", 1)
    damage_batch(filled, ONE, 4)
    report = examine(filled)
    assert (report.batch_count, report.message_count) == (10, 18)
    assert len(report.findings) == 1


def test_report_is_bounded():
    report = FolderReport(data_dir=Path())
    for i in range(FINDINGS_MAX + 5):
        report.add("warning", str(i))
    assert (len(report.findings), report.more_findings_count) == (FINDINGS_MAX, 5)
    assert report.is_healthy


WRITE_ON = """
import sys, pathlib
from fanlog.log.embedded import EmbeddedLog
from fanlog.testing.conformance import *
log = EmbeddedLog(pathlib.Path(sys.argv[1]))
author = Author(log)
print("ready", flush=True)
for number in range(100_000):
    bodies = [make_body(b"%d" % number, b"x" * 3000)]
    trims = [Trim(partition=ONE, before=number)] if number % 5 == 0 else []
    author.commit({ONE: bodies, TWO: bodies}, state={b"key": b"%d" % number}, trims=trims)
"""


def test_examined_while_a_broker_writes(filled: Path, start_child):
    child = start_child(WRITE_ON, filled)
    assert child.hear() == "ready"
    for _ in range(10):
        report = examine(filled)
        assert texts(report) == []
        assert report.partition_count == 2
    assert child.process.poll() is None


def test_partition_that_is_dropped_meanwhile(filled: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "read_row", lambda *_: None)
    report = examine(filled)
    assert report.partition_count == 2
    assert report.batch_count == 0
