"""`fanlog auth seal-key`: on a folder of a stopped broker."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from commands import invoke
from fanlog.broker.seal_key_file import read_seal_keys
from fanlog.core import records as codec
from fanlog.core.records import Secret, SecretRecord
from fanlog.log.api import Commit
from fanlog.log.embedded import EmbeddedLog

RECORD = SecretRecord("ack-ids", Secret(name="ack-ids", text="ab" * 32, boot=3))


def run(*args: object, exit_code: int = 0) -> str:
    result = invoke(["auth", "seal-key", *map(str, args)])
    assert result.exit_code == exit_code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def report(*args: object) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*args, "--json"))
    return read


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    log = EmbeddedLog(tmp_path / "data")
    log.commit(Commit(sequence=1, publish_time_ns=1, state={RECORD.key(): RECORD.value()}))
    log.close()
    return tmp_path / "data"


def stored(data_dir: Path) -> str:
    """The text of the secret, as it is stored; empty when it is gone."""
    log = EmbeddedLog(data_dir)
    state = dict(log.state())
    log.close()
    if RECORD.key() not in state:
        return ""
    record = codec.decode(RECORD.key(), state[RECORD.key()])
    assert isinstance(record, SecretRecord)
    assert record.secret is not None
    return record.secret.text


def test_a_key_is_made_for_its_owner_alone_and_shown_nowhere(tmp_path: Path):
    path = tmp_path / "seal.key"
    said = run("create", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [key] = read_seal_keys(path)
    assert key.id.hex() in said
    assert key.text()[5:] not in said
    content = path.read_bytes()
    assert "is not overwritten" in run("create", path, exit_code=1)
    assert path.read_bytes() == content
    run("create", tmp_path / "none" / "seal.key", exit_code=1)


def test_seal_rotate_and_remove(tmp_path: Path, data_dir: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    first, second = report("create", one), report("create", two)
    # A folder that is plain needs no old key.
    found = report("rotate", "--data-dir", data_dir, "--new", one)
    assert (found["records"], found["seal_key"]) == (1, first["seal_key"])
    assert stored(data_dir).startswith("sealed:")
    said = run("rotate", "--data-dir", data_dir, "--new", two, exit_code=1)
    assert first["seal_key"] in said
    assert stored(data_dir).startswith("sealed:")
    found = report("rotate", "--data-dir", data_dir, "--old", one, "--new", two)
    assert (found["records"], found["seal_key"]) == (1, second["seal_key"])
    assert report("rotate", "--data-dir", data_dir, "--old", two, "--new", two)["records"] == 0
    assert second["seal_key"] in run("remove", "--data-dir", data_dir, "--old", one, exit_code=1)
    assert report("remove", "--data-dir", data_dir, "--old", two)["records"] == 1
    assert stored(data_dir) == "ab" * 32


def test_what_is_no_new_key(tmp_path: Path, data_dir: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    run("create", one)
    run("create", two)
    one.write_text(one.read_text() + two.read_text())
    said = run("rotate", "--data-dir", data_dir, "--new", one, exit_code=1)
    assert "has 2 keys" in said
    assert "flsk_" not in said
    two.write_text("flsk_nothing")
    said = run("rotate", "--data-dir", data_dir, "--new", two, exit_code=1)
    assert "a seal key is" in said
    assert "nothing" not in said
    assert stored(data_dir) == "ab" * 32


def test_no_folder_is_made(tmp_path: Path):
    run("create", tmp_path / "key")
    said = run("rotate", "--data-dir", tmp_path / "no", "--new", tmp_path / "key", exit_code=1)
    assert "there is no log" in said
    assert not (tmp_path / "no").exists()


def test_a_folder_in_use_is_left_alone(tmp_path: Path, data_dir: Path):
    run("create", tmp_path / "key")
    log = EmbeddedLog(data_dir)
    said = run("rotate", "--data-dir", data_dir, "--new", tmp_path / "key", exit_code=1)
    log.close()
    assert "is in use" in said
    assert stored(data_dir) == "ab" * 32


def test_an_administrator_is_recovered_without_the_key(tmp_path: Path, data_dir: Path):
    run("create", tmp_path / "key")
    run("rotate", "--data-dir", data_dir, "--new", tmp_path / "key")
    sealed = stored(data_dir)
    done = invoke(["auth", "init", "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    assert stored(data_dir) == sealed


def test_giving_up_needs_a_word(tmp_path: Path, data_dir: Path):
    run("create", tmp_path / "key")
    run("rotate", "--data-dir", data_dir, "--new", tmp_path / "key")
    assert "--yes" in run("give-up", "--data-dir", data_dir, exit_code=1)
    assert stored(data_dir).startswith("sealed:")
    assert report("give-up", "--data-dir", data_dir, "--yes")["subscriptions"] == []
    assert stored(data_dir) == ""
