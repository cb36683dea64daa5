"""Backups are whole, restores refuse to overwrite, and compacting gives room back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fanlog.errors import ConfigError, DataFolderInUse, DataLoss, DiskFull
from fanlog.log import folder
from fanlog.log.api import Trim
from fanlog.log.backup import backup, compact, restore
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.side_files import SideFiles
from fanlog.testing.conformance import ALL_BYTES, ONE, TWO, Author, make_body, messages_of


@pytest.fixture
def filled(data_dir: Path) -> Path:
    log = EmbeddedLog(data_dir)
    author = Author(log)
    for i in range(20):
        author.commit({ONE: [make_body(b"%d" % i, b"x" * 50_000)]}, state={b"k": b"%d" % i})
    log.close()
    return data_dir


def contents(data_dir: Path) -> tuple[object, ...]:
    log = EmbeddedLog(data_dir)
    messages = messages_of(asyncio.run(log.read(ONE, 0, max_bytes=ALL_BYTES)))
    found = (log.identity, log.last_sequence, log.partitions(), dict(log.state()), messages)
    log.close()
    return found


def test_backup_and_restore(filled: Path, tmp_path: Path):
    report = backup(filled, tmp_path / "backup")
    assert report.findings == []
    assert (report.data_dir, report.message_count) == (tmp_path / "backup", 40)
    assert [path.name for path in (tmp_path / "backup").iterdir()] == [folder.DATA_NAME]
    restore(tmp_path / "backup", tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(filled)
    assert [path.name for path in (tmp_path / "backup").iterdir()] == [folder.DATA_NAME]


#: Records of this test's own that name a file each.
BESIDE = SideFiles("extras", b"file/", lambda key, value: [value.decode()])


@pytest.fixture
def accompanied(data_dir: Path) -> Path:
    """A log whose state names two files beside it, of three that are there."""
    log = EmbeddedLog(data_dir)
    state = {b"file/1": b"one", b"file/2": b"two", b"other": b"three", b"zzz": b"z"}
    Author(log).commit({ONE: [make_body(b"x")]}, state=state)
    log.close()
    (data_dir / "extras").mkdir()
    for name in ("one", "two", "three"):
        (data_dir / "extras" / name).write_text(name)
    return data_dir


class TestFilesBeside:
    def test_what_state_names_goes_along(self, accompanied: Path, tmp_path: Path):
        report = backup(accompanied, tmp_path / "backup", beside=BESIDE)
        assert report.findings == []
        restore(tmp_path / "backup", tmp_path / "restored", beside=BESIDE)
        for place in (tmp_path / "backup", tmp_path / "restored"):
            found = {path.name: path.read_text() for path in (place / "extras").iterdir()}
            assert found == {"one": "one", "two": "two"}
        assert contents(tmp_path / "restored") == contents(accompanied)

    def test_what_is_not_there_is_said(self, accompanied: Path, tmp_path: Path):
        (accompanied / "extras" / "two").unlink()
        report = backup(accompanied, tmp_path / "backup", beside=BESIDE)
        assert [finding.severity for finding in report.findings] == ["warning"]
        assert "extras/two is named by the state" in report.findings[0].text
        assert [path.name for path in (tmp_path / "backup" / "extras").iterdir()] == ["one"]

    def test_a_broker_that_goes_on_meanwhile(self, accompanied: Path, tmp_path: Path):
        """The file is removed before it could be opened: a later state is copied, without it."""
        looked: list[str] = []
        named = BESIDE.names_in

        def removing(key: bytes, value: bytes) -> list[str]:
            names = list(named(key, value))
            if value == b"two" and "two" not in looked:
                (accompanied / "extras" / "two").unlink()
                # In another process, as a broker would.
                script = (
                    "import sys, pathlib\n"
                    "from fanlog.log.embedded import EmbeddedLog\n"
                    "from fanlog.testing.conformance import *\n"
                    "log = EmbeddedLog(pathlib.Path(sys.argv[1]))\n"
                    "Author(log).commit({ONE: [make_body(b'y')]}, state={b'file/2': None})\n"
                    "log.close()\n"
                )
                subprocess.run([sys.executable, "-c", script, str(accompanied)], check=True)
            looked.extend(names)
            return names

        report = backup(accompanied, tmp_path / "backup", beside=BESIDE._replace(names_in=removing))
        assert report.findings == []
        assert report.message_count == 2
        assert looked == ["one", "two", "one"]
        assert [path.name for path in (tmp_path / "backup" / "extras").iterdir()] == ["one"]


WRITE_ON = """
import sys, pathlib
from fanlog.log.embedded import EmbeddedLog
from fanlog.testing.conformance import *
log = EmbeddedLog(pathlib.Path(sys.argv[1]))
author = Author(log)
print("ready", flush=True)
while True:
    number = log.last_sequence
    bodies = [make_body(b"%d" % number)]
    author.commit({ONE: bodies, TWO: bodies}, state={b"number": b"%d" % number})
"""


def test_backup_while_a_broker_writes(data_dir: Path, tmp_path: Path, start_child):
    child = start_child(WRITE_ON, data_dir)
    assert child.hear() == "ready"
    for i in range(3):
        report = backup(data_dir, tmp_path / f"backup {i}")
        assert report.findings == []
        log = EmbeddedLog(tmp_path / f"backup {i}")
        # One commit, whole: as many messages in both partitions as the state says.
        assert log.last_sequence == log.bounds(ONE).end == log.bounds(TWO).end
        if log.last_sequence:
            assert dict(log.state()) == {b"number": b"%d" % (log.last_sequence - 1)}
        log.close()
    assert child.process.poll() is None


def test_backup_refuses_a_target_that_is_not_empty(filled: Path, tmp_path: Path):
    backup(filled, tmp_path / "backup")
    with pytest.raises(ConfigError, match=r"not empty: it holds data\.mdb"):
        backup(filled, tmp_path / "backup")


def test_backup_of_nothing(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no log in"):
        backup(tmp_path / "nowhere", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_backup_without_room_leaves_nothing(data_dir: Path, small_disk: Path):
    log = EmbeddedLog(data_dir)
    for _ in range(8):
        Author(log).publish(ONE, b"x" * 1_000_000)
    log.close()
    with pytest.raises(DiskFull, match="no room on the disk for the copy"):
        backup(data_dir, small_disk / "backup")
    assert list((small_disk / "backup").iterdir()) == []


def test_restore_refuses_a_folder_with_a_log(filled: Path, tmp_path: Path):
    backup(filled, tmp_path / "backup")
    with pytest.raises(ConfigError, match=r"not empty: it holds data\.mdb"):
        restore(tmp_path / "backup", filled)


def test_restore_refuses_a_folder_in_use(filled: Path, tmp_path: Path):
    backup(filled, tmp_path / "backup")
    log = EmbeddedLog(filled)
    with pytest.raises(DataFolderInUse):
        restore(tmp_path / "backup", filled)
    log.close()


def test_restore_of_nothing(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no log in"):
        restore(tmp_path, tmp_path / "restored")
    (tmp_path / folder.DATA_NAME).write_bytes(b"something else" * 1_000)
    with pytest.raises(DataLoss, match=str(tmp_path)):
        restore(tmp_path, tmp_path / "restored")
    assert not (tmp_path / "restored" / folder.DATA_NAME).exists()


def test_restore_without_room_leaves_nothing(data_dir: Path, small_disk: Path):
    log = EmbeddedLog(data_dir)
    for _ in range(8):
        Author(log).publish(ONE, b"x" * 1_000_000)
    log.close()
    with pytest.raises(DiskFull):
        restore(data_dir, small_disk / "restored")
    assert [path.name for path in (small_disk / "restored").iterdir()] == [folder.LOCK_NAME]


def test_compact(filled: Path):
    log = EmbeddedLog(filled)
    author = Author(log)
    author.commit(trims=[Trim(partition=ONE, before=38)])
    author.collect_garbage()
    log.close()
    before = contents(filled)
    sizes = compact(filled)
    assert sizes.before_bytes > 1_000_000
    assert sizes.after_bytes < 200_000
    assert (filled / folder.DATA_NAME).stat().st_size == sizes.after_bytes
    assert contents(filled) == before
    assert examine(filled).findings == []
    assert not (filled / "partial").exists()


def test_compact_after_one_that_was_killed(filled: Path):
    (filled / "partial").mkdir()
    (filled / "partial" / folder.DATA_NAME).write_bytes(b"half a copy")
    before = contents(filled)
    compact(filled)
    assert contents(filled) == before


def test_compact_refuses_a_folder_in_use(filled: Path):
    log = EmbeddedLog(filled)
    with pytest.raises(DataFolderInUse):
        compact(filled)
    log.close()


def test_compact_of_nothing(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no log in"):
        compact(tmp_path)
