"""`fanlog doctor`, `backup`, `restore`, `compact`, `auth init`: on a folder of a stopped broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import invoke
from fanlog.core.hard_state import HardState
from fanlog.log.embedded import EmbeddedLog
from fanlog.model.identity import token_digest
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import Author
from fanlog.testing.damage import damage_batch

PARTITION = PartitionId(1)


def run(*args: object, exit_code: int = 0) -> str:
    result = invoke([str(arg) for arg in args])
    assert result.exit_code == exit_code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def report(*args: object, exit_code: int = 0) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*args, "--json", exit_code=exit_code))
    return read


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Three messages in two batches."""
    log = EmbeddedLog(tmp_path / "data")
    author = Author(log)
    author.publish(PARTITION, b"one", b"two")
    author.publish(PARTITION, b"three")
    log.close()
    return tmp_path / "data"


def test_doctor_finds_nothing_wrong(data_dir):
    assert "no damage found" in run("doctor", "--data-dir", data_dir)
    found = report("doctor", "--data-dir", data_dir)
    assert found["is_healthy"]
    assert (found["message_count"], found["batch_count"]) == (3, 2)
    assert found["findings"] == []


def test_doctor_names_the_damage_and_fails(data_dir):
    damage_batch(data_dir, PARTITION, 0)
    output = run("doctor", "--data-dir", data_dir, exit_code=1)
    assert "partition 1 offsets 0 to 1" in output
    assert "2 messages are damaged or missing" in output
    found = report("doctor", "--data-dir", data_dir, exit_code=1)
    assert not found["is_healthy"]
    assert found["findings"][0]["severity"] == "error"


def test_doctor_reads_the_state_as_a_broker_would(data_dir):
    log = EmbeddedLog(data_dir)
    Author(log).commit(state={b"nonsense": b"nonsense"})
    log.close()
    assert "state record" in run("doctor", "--data-dir", data_dir, exit_code=1)


def test_salvage_leaves_the_old_folder_alone(data_dir, tmp_path):
    damage_batch(data_dir, PARTITION, 0)
    run("doctor", "--data-dir", data_dir, "--salvage", tmp_path / "saved")
    assert report("doctor", "--data-dir", tmp_path / "saved")["message_count"] == 1
    run("doctor", "--data-dir", data_dir, exit_code=1)


def test_backup_and_restore(data_dir, tmp_path):
    assert "3 messages" in run("backup", tmp_path / "copy", "--data-dir", data_dir)
    run("restore", tmp_path / "copy", "--data-dir", tmp_path / "back")
    assert report("doctor", "--data-dir", tmp_path / "back")["message_count"] == 3


def test_compact_says_how_much(data_dir):
    sizes = report("compact", "--data-dir", data_dir)
    assert sizes["after_bytes"] <= sizes["before_bytes"]
    assert "bytes before" in run("compact", "--data-dir", data_dir)


@pytest.mark.parametrize("command", [["doctor"], ["backup", "copy"], ["compact"]])
def test_no_folder_is_one_sentence(tmp_path, command):
    output = run(*command, "--data-dir", tmp_path / "none", exit_code=1)
    assert output.startswith("fanlog: ")
    assert output.count("\n") == 1
    assert "none" in output


def test_a_folder_in_use_is_not_overwritten(data_dir, tmp_path):
    run("backup", tmp_path / "copy", "--data-dir", data_dir)
    assert "not empty" in run("restore", tmp_path / "copy", "--data-dir", data_dir, exit_code=1)
    assert "not empty" in run("backup", tmp_path / "copy", "--data-dir", data_dir, exit_code=1)


def test_compact_refuses_a_folder_in_use(data_dir):
    log = EmbeddedLog(data_dir)
    try:
        assert "in use" in run("compact", "--data-dir", data_dir, exit_code=1)
    finally:
        log.close()


def known_tokens(data_dir: Path) -> set[str]:
    """The tokens that the log of a folder knows, by their hash, of owners of the server."""
    log = EmbeddedLog(data_dir)
    try:
        identities = HardState.load(log.state()).identities
    finally:
        log.close()
    [binding] = identities.policy("server").bindings
    assert binding.role == "roles/owner"
    account = identities.account("admin")
    assert binding.members == (account.member,)
    return {token.digest for token in account.tokens}


def test_an_administrator_is_made_and_its_token_is_not_shown(data_dir, tmp_path):
    default = data_dir / "auth" / "admin.token"
    outputs = [
        run("auth", "init", "--data-dir", data_dir),
        run("auth", "init", "--data-dir", data_dir, "--token-file", tmp_path / "mine"),
        # The token of a file that is there stays the one.
        run("auth", "init", "--data-dir", data_dir, "--json"),
    ]
    tokens = [path.read_text().strip() for path in (default, tmp_path / "mine")]
    assert known_tokens(data_dir) == {token_digest(token) for token in tokens}
    for token in tokens:
        assert token.startswith("flt_")
        assert len(token) >= 4 + 43
        assert token not in "".join(outputs)
    assert default.stat().st_mode & 0o777 == 0o600
    assert outputs[0] == f"admin administers this server with the token in {default}\n"
    assert json.loads(outputs[2]) == {"account": "admin", "token_file": str(default)}


def test_no_administrator_is_made_beside_a_broker(data_dir):
    log = EmbeddedLog(data_dir)
    try:
        assert "in use" in run("auth", "init", "--data-dir", data_dir, exit_code=1)
    finally:
        log.close()
    assert not (data_dir / "auth").exists()
