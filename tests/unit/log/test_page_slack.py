"""Copies of a data file have nothing in them that was deleted or replaced."""

from __future__ import annotations

import io
import mmap
import random
from pathlib import Path

import pytest

from fanlog.log import backup as copies
from fanlog.log import folder
from fanlog.log.backup import backup, compact
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.page_slack import zero_slack
from fanlog.testing.conformance import ONE, Author, make_body

PLANTED = b"PLANTED-SECRET"
COUNT = 40
PAGE_BYTES = mmap.PAGESIZE


def fill(data_dir: Path) -> dict[bytes, bytes]:
    """Write many values with a secret in them, and replace all of them: those that are there."""
    log = EmbeddedLog(data_dir)
    author = Author(log)
    author.commit({ONE: [make_body(b"a", b"b" * 9_000), make_body(b"c")]})
    for number in range(COUNT):
        author.commit(state={b"S%04d" % number: b"x" * 300 + PLANTED * 30})
    # Values that share a page, that have a page of their own, and that have several.
    sizes = (600, 2_300, 1_200, 4_080 - 39, 9_000)
    state = {b"S%04d" % n: b"z" * sizes[n % len(sizes)] for n in range(COUNT)}
    for key, value in state.items():
        author.commit(state={key: value})
    log.close()
    return state


def content(data_dir: Path) -> bytes:
    return (data_dir / folder.DATA_NAME).read_bytes()


def test_the_file_itself_keeps_old_bytes_until_they_are_overwritten(data_dir: Path):
    fill(data_dir)
    assert PLANTED in content(data_dir)


def test_a_compacted_file_has_none(data_dir: Path):
    state = fill(data_dir)
    compact(data_dir)
    assert PLANTED not in content(data_dir)
    log = EmbeddedLog(data_dir)
    assert dict(log.state()) == state
    log.close()
    assert examine(data_dir).findings == []


def test_a_backup_has_none(data_dir: Path, tmp_path: Path):
    fill(data_dir)
    report = backup(data_dir, tmp_path / "backup")
    assert report.findings == []
    assert report.message_count == 3
    assert PLANTED not in content(tmp_path / "backup")


def test_wild_pages_are_no_error(data_dir: Path):
    """A damaged file is copied as it is; the doctor of the copy says so."""
    fill(data_dir)
    compact(data_dir)
    whole, chance = content(data_dir), random.Random(1)
    path = data_dir / "wild"
    for _ in range(300):
        wild = bytearray(whole)
        for _ in range(8):
            page = chance.randrange(2, len(whole) // PAGE_BYTES)
            wild[page * PAGE_BYTES + chance.randrange(64)] = chance.randrange(256)
        path.write_bytes(wild)
        with path.open("r+b") as file:
            zero_slack(file)
        assert path.stat().st_size == len(whole)


def test_without_zeroing_they_would(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """LMDB alone leaves them: if it does so no longer, zeroing is not needed any more."""

    def leave(_: io.BufferedRandom) -> int:
        return 0

    monkeypatch.setattr(copies, "zero_slack", leave)
    fill(data_dir)
    compact(data_dir)
    assert PLANTED in content(data_dir)
