"""`fanlog up` up to the point where its two processes are started."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands import invoke
from fanlog.cli import up


@pytest.fixture
def pairs(monkeypatch):
    """The command lines of each pair that was started, and the file that the worker waits for."""
    found: list[tuple[list[str], list[str], Path | None]] = []

    class Pair:
        def __init__(self, *given: object) -> None:
            found.append(given)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(up, "_Pair", Pair)
    for name in ("FANLOG_HOST", "FANLOG_AUTH", "FANLOG_AUTH_DIR", "FANLOG_TLS_CERT"):
        monkeypatch.delenv(name, raising=False)
    return found


def endpoint(working: Sequence[str]) -> str:
    return working[working.index("--endpoint") + 1]


def test_without_authentication(pairs):
    assert invoke(["up"]).exit_code == 0
    [(serving, working, token_file)] = pairs
    assert "--auth" not in serving
    assert (endpoint(working), token_file) == ("127.0.0.1:8085", None)


@pytest.mark.parametrize(
    ("args", "environ", "address"),
    [
        ((), {}, "127.0.0.1:8085"),
        ((), {"FANLOG_HOST": "0.0.0.0"}, "127.0.0.1:8085"),
        ((), {"FANLOG_HOST": "::"}, "[::1]:8085"),
        (
            ("--tls-cert", "c", "--tls-key", "k"),
            {"FANLOG_HOST": "b.example"},
            "https://b.example:8085",
        ),
    ],
)
def test_the_worker_has_a_token_of_its_own(pairs, tmp_path, args, environ, address):
    command = ["up", "--auth", "required", "--data-dir", str(tmp_path), *args]
    environ = environ | {"FANLOG_TOKEN": "flt_of-an-administrator"}
    assert invoke(command, env=environ).exit_code == 0
    [(serving, working, token_file)] = pairs
    assert serving[serving.index("--auth") + 1] == "required"
    assert token_file == tmp_path / "auth" / "pipeline.token"
    assert endpoint(working) == f"{address}?token_file={token_file}"
    assert "flt_of-an-administrator" not in " ".join([*serving, *working])


def test_another_folder_of_tokens(pairs, tmp_path):
    environ = {"FANLOG_AUTH": "required", "FANLOG_AUTH_DIR": str(tmp_path)}
    assert invoke(["up"], env=environ).exit_code == 0
    [(_, working, token_file)] = pairs
    assert token_file == tmp_path / "pipeline.token"
    assert endpoint(working) == f"127.0.0.1:8085?token_file={token_file}"


def test_the_seal_key_is_for_the_broker_alone(monkeypatch):
    started: list[tuple[str, bool]] = []

    def start(command: Sequence[str], *, env: dict[str, str], **_: object) -> None:
        started.append((command[3], "FANLOG_SEAL_KEY" in env))

    monkeypatch.setenv("FANLOG_SEAL_KEY", "flsk_" + "A" * 43)
    monkeypatch.setattr(up.subprocess, "Popen", start)
    up._started(["serve"])
    up._started(["pipeline"])
    assert started == [("serve", True), ("pipeline", False)]


def test_the_worker_waits_for_its_token(monkeypatch, tmp_path):
    started = threading.Event()
    path = tmp_path / "pipeline.token"
    pair = up._Pair(["serve"], ["pipeline"], path)

    class Worker:
        def wait(self) -> int:
            pair._stopping.set()
            return 0

    def start(_: Sequence[str]) -> Worker:
        assert path.exists()
        started.set()
        return Worker()

    monkeypatch.setattr(up, "_started", start)
    monkeypatch.setattr(up, "_end", lambda _: None)
    keeper = threading.Thread(target=pair._keep_worker)
    keeper.start()
    assert not started.wait(0.3)
    path.touch()
    assert started.wait(10)
    keeper.join(10)
    assert not keeper.is_alive()
