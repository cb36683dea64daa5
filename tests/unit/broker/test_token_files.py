"""Files of the first tokens: who may have written what is in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.broker.bootstrap import keep_token
from fanlog.errors import ConfigError


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path):
    path = tmp_path / "auth" / "admin.token"
    assert keep_token(path, "flt_new") == "flt_new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert keep_token(path, "flt_other") == "flt_new"


def test_a_crash_left_an_empty_one(tmp_path: Path):
    path = tmp_path / "admin.token"
    path.touch(0o600)
    assert keep_token(path, "flt_new") == "flt_new"
    assert path.read_text() == "flt_new\n"


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_one_that_others_reach_is_not_believed(tmp_path: Path, mode: int):
    """Whoever wrote it would be the administrator."""
    path = tmp_path / "admin.token"
    path.write_text("flt_planted\n")
    path.chmod(mode)
    with pytest.raises(ConfigError, match="may be read or changed by others"):
        keep_token(path, "flt_new")
    assert path.read_text() == "flt_planted\n"


def test_one_with_something_else_in_it(tmp_path: Path):
    path = tmp_path / "admin.token"
    path.write_text("notes\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="has no token in it"):
        keep_token(path, "flt_new")


def test_one_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "auth").write_text("")
    with pytest.raises(ConfigError, match="cannot be kept"):
        keep_token(tmp_path / "auth" / "admin.token", "flt_new")
