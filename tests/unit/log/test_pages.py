"""LMDB's pages with flipped bits: named before LMDB is let near them."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import lmdb
import pytest

from fanlog import limits
from fanlog.errors import DataLoss
from fanlog.log import folder
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.salvage import salvage
from fanlog.testing.conformance import ONE, Author

PAGE = 4096
#: Where the transaction number stands on a meta page.
TRANSACTION = 144


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("template")
    log = EmbeddedLog(data_dir)
    for number in range(40):
        Author(log).publish(ONE, b"%d" % number * 500)
        Author(log).commit(state={b"key-%d" % number: b"x" * 300})
    log.close()
    return data_dir / folder.DATA_NAME


@pytest.fixture
def filled(template: Path, data_dir: Path) -> Path:
    data_dir.mkdir()
    return Path(shutil.copy(template, data_dir))


def flip(path: Path, position: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def transactions(path: Path) -> list[int]:
    content = path.read_bytes()
    return [struct.unpack_from("=Q", content, page * PAGE + TRANSACTION)[0] for page in (0, 1)]


@pytest.mark.parametrize("bit", range(1, 64))
def test_a_meta_page_that_lost_its_turn_is_noticed(filled: Path, bit: int):
    """LMDB would go back to the commit before, and every page would be in order."""
    before = transactions(filled)
    newest = before.index(max(before))
    for page in (0, 1):
        flip(filled, page * PAGE + TRANSACTION + bit // 8, bit % 8)
        after = transactions(filled)
        if after.index(max(after)) == newest:
            EmbeddedLog(filled.parent).close()
            # Opening wrote nothing: this is still the very file.
            assert transactions(filled) == after
        else:
            with pytest.raises(
                DataLoss, match=r"leads to commit 79, the other one to the later 80"
            ):
                EmbeddedLog(filled.parent)
        flip(filled, page * PAGE + TRANSACTION + bit // 8, bit % 8)


def test_what_a_rollback_hid_is_salvaged(filled: Path, tmp_path: Path):
    log = EmbeddedLog(filled.parent)
    Author(log).publish(ONE, b"the last")
    sequence = log.last_sequence
    log.close()
    newest = transactions(filled).index(max(transactions(filled)))
    flip(filled, newest * PAGE + TRANSACTION, 5)
    flip(filled, newest * PAGE + TRANSACTION, 6)
    if transactions(filled).index(max(transactions(filled))) == newest:
        pytest.fail("the test did not lower the number")
    report = salvage(filled.parent, tmp_path / "out")
    assert report.is_healthy
    assert report.last_sequence == sequence


@pytest.mark.parametrize("position", [16 + 24 + 4, 16 + 24 + 48 + 4])
@pytest.mark.parametrize("bit", range(16))
def test_flags_that_no_tree_of_ours_has_are_noticed(filled: Path, position: int, bit: int):
    """With some of them LMDB aborts the process, with others it finds nothing any more."""
    newest = transactions(filled).index(max(transactions(filled)))
    flip(filled, newest * PAGE + position + bit // 8, bit % 8)
    with pytest.raises(DataLoss, match="flags"):
        EmbeddedLog(filled.parent)


@pytest.mark.parametrize("bit", range(16))
def test_flags_of_a_database_are_noticed(filled: Path, tmp_path: Path, bit: int):
    content = filled.read_bytes()
    newest = transactions(filled).index(max(transactions(filled)))
    [root] = struct.unpack_from("=Q", content, newest * PAGE + 16 + 24 + 48 + 40)
    node = content.index(b"partitions", root * PAGE, (root + 1) * PAGE)
    flip(filled, node + len(b"partitions") + 4 + bit // 8, bit % 8)
    with pytest.raises(DataLoss, match="flag"):
        EmbeddedLog(filled.parent)
    assert salvage(filled.parent, tmp_path / "out").is_healthy


def test_a_last_page_beyond_all_memory_is_damage(filled: Path):
    newest = transactions(filled).index(max(transactions(filled)))
    flip(filled, newest * PAGE + TRANSACTION - 8 + 5, 7)
    with pytest.raises(DataLoss, match="far beyond"):
        EmbeddedLog(filled.parent)


def test_a_damaged_tree_stops_the_broker(filled: Path):
    content = filled.read_bytes()
    leaf = next(
        page
        for page in range(2, len(content) // PAGE)
        if struct.unpack_from("=QHH", content, page * PAGE)[::2] == (page, 2)
    )
    flip(filled, leaf * PAGE + 12, 3)
    if not folder.page_problems(filled.parent):
        flip(filled, leaf * PAGE, 0)
    before = filled.read_bytes()
    with pytest.raises(DataLoss, match="doctor --salvage"):
        EmbeddedLog(filled.parent)
    assert filled.read_bytes() == before


def test_a_very_large_file_is_not_verified_when_it_is_opened(
    filled: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def never(_: Path) -> list[str]:
        raise AssertionError

    monkeypatch.setattr(folder, "page_problems", never)
    monkeypatch.setattr(limits, "VERIFY_BYTES_MAX", filled.stat().st_size - 1)
    EmbeddedLog(filled.parent).close()
    assert "action=pages_not_verified" in caplog.text


def test_pages_that_only_leaked_do_no_harm(filled: Path, monkeypatch: pytest.MonkeyPatch):
    leak = "3 page(s) are neither reachable nor in the freeDB -- a leak (first: page 7)"
    monkeypatch.setattr(folder, "page_problems", lambda _: [leak])
    EmbeddedLog(filled.parent).close()
    monkeypatch.setattr(folder, "page_problems", lambda _: [leak, "another"])
    with pytest.raises(DataLoss, match="another"):
        EmbeddedLog(filled.parent)


def test_an_empty_file_is_a_new_log(data_dir: Path):
    data_dir.mkdir()
    os.close(os.open(data_dir / folder.DATA_NAME, os.O_CREAT | os.O_WRONLY))
    EmbeddedLog(data_dir).close()


@pytest.mark.parametrize("kept", [1, 200, 512, PAGE, PAGE + 512, 2 * PAGE])
@pytest.mark.parametrize("torn", [0, 1])
def test_power_that_went_while_the_file_was_made(data_dir: Path, kept: int, torn: int):
    data_dir.mkdir()
    lmdb.open(str(data_dir)).close()
    path = data_dir / folder.DATA_NAME
    content = bytearray(path.read_bytes())
    assert len(content) == 2 * PAGE
    content[torn * PAGE : torn * PAGE + 512] = bytes(512)
    path.write_bytes(content[:kept])
    EmbeddedLog(data_dir).close()


def test_a_used_file_cut_down_to_its_meta_pages_is_not_taken_for_a_new_one(filled: Path):
    os.truncate(filled, 2 * PAGE)
    with pytest.raises(DataLoss, match="is damaged: "):
        EmbeddedLog(filled.parent)
    os.truncate(filled, PAGE)
    with pytest.raises(DataLoss):
        EmbeddedLog(filled.parent)


def test_a_used_file_without_meta_pages_is_left_for_salvage(data_dir: Path, tmp_path: Path):
    log = EmbeddedLog(data_dir)
    Author(log).publish(ONE, b"kept")
    log.close()
    path = data_dir / folder.DATA_NAME
    path.write_bytes(bytes(2 * PAGE) + path.read_bytes()[2 * PAGE :])
    before = path.read_bytes()
    with pytest.raises(DataLoss):
        EmbeddedLog(data_dir)
    assert path.read_bytes() == before
    assert salvage(data_dir, tmp_path / "out").message_count == 1
