"""What the command line makes is its owner's alone, from the moment it is made."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fanlog.log.backup import backup
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import warn_if_shared


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def shared(folder: Path) -> list[str]:
    """Everything from a folder down that others could read."""
    paths = [folder, *folder.rglob("*")]
    return [str(path) for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_data_folder_and_its_backup(tmp_path):
    EmbeddedLog(tmp_path / "data").close()
    assert shared(tmp_path / "data") == []
    backup(tmp_path / "data", tmp_path / "copy")
    # The folder keeps others out, whatever its files are made with by a program of one's own.
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


def test_the_command_line_makes_nothing_that_others_can_read(tmp_path):
    EmbeddedLog(tmp_path / "data").close()
    command = [sys.executable, "-m", "fanlog", "backup"]
    subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data"), str(tmp_path / "copy")], check=True
    )
    assert shared(tmp_path / "copy") == []


def test_a_stricter_umask_stays(tmp_path):
    code = "import os, fanlog.cli.main as m; m.app = lambda: None; m.main(); print(os.umask(0))"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.umask(0o177); {code}"],
        check=True,
        capture_output=True,
    )
    assert int(done.stdout) == 0o177


def test_a_shared_folder_is_said(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    for name in ("open", "closed", "missing"):
        warn_if_shared(tmp_path / name)
    [said] = caplog.messages
    assert f"{tmp_path}/open mode=755" in said
