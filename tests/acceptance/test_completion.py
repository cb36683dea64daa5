"""Completion in shells: commands, and names of topics and subscriptions of the running server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acceptance.served import PATIENCE_S, Served
from commands import lines_of

FANLOG = Path(sys.executable).with_name("fanlog")
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def named(shared: Served) -> Served:
    for topic in ("orders", "orders-eu", "returns"):
        lines_of(["topic", "create", topic], env=shared.environ)
    lines_of(["sub", "create", "billing", "--topic", "orders"], env=shared.environ)
    return shared


def script(server: Served, shell: str) -> str:
    """What `fanlog --install-completion` puts into the shell's start."""
    environ = server.environ | {"_FANLOG_COMPLETE": f"source_{shell}"}
    return subprocess.run(
        [FANLOG], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


def complete(server: Served, shell: str, *words: str) -> set[str]:
    """What is offered for the last of some words, as the shell's script asks for it."""
    line = " ".join(words)
    asked = {
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environ = server.environ | asked | {"_FANLOG_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([FANLOG], env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    text = done.stdout.replace('"', " ").replace("'", " ").replace("(", " ").replace(")", " ")
    return {word for line in text.splitlines() for word in line.split()}


def offered(server: Served, shell: str, *words: str) -> set[str]:
    """The same where there is something to offer: a busy server may be too late for a shell."""
    late_s = time.monotonic() + PATIENCE_S
    while not (found := complete(server, shell, *words)):
        assert time.monotonic() < late_s, words
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_names_of_the_server(named, shell):
    found = offered(named, shell, "fanlog", "topic", "describe", "ord")
    assert {"orders", "orders-eu"} <= found
    assert "returns" not in found
    assert "billing" in offered(named, shell, "fanlog", "sub", "tail", "b")


def test_names_of_options_and_full_names(named):
    create = ("fanlog", "sub", "create", "new", "--topic")
    assert "returns" in offered(named, "bash", *create, "r")
    dead_letter = ("fanlog", "sub", "create", "new", "--dead-letter")
    assert "returns" in offered(named, "bash", *dead_letter, "r")
    assert "billing" in offered(named, "bash", "fanlog", "job", "replay", "b")
    full = f"projects/{named.project}/topics/"
    assert f"{full}returns" in offered(named, "bash", "fanlog", "publish", f"{full}r")
    assert complete(named, "bash", "fanlog", "publish", f"{full[:-2]}/r") == set()
    # Of another project, by the option.
    other = ("fanlog", "topic", "describe", "--project", "nobodys", "o")
    assert complete(named, "bash", *other) == set()


def test_commands_without_a_server(served):
    served.stop(signal.SIGKILL)
    assert "tail" in complete(served, "bash", "fanlog", "sub", "ta")
    # Silent, and soon.
    assert complete(served, "bash", "fanlog", "topic", "describe", "o") == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell(named, shell):
    text = script(named, shell)
    assert "_FANLOG_COMPLETE" in text
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=text, text=True, timeout=PATIENCE_S, check=True)


def test_in_bash_itself(named):
    lines = [
        script(named, "bash"),
        "COMP_WORDS=(fanlog topic describe ord); COMP_CWORD=3; COMPREPLY=()",
        # A busy server may be too late for a shell.
        'until [ "${#COMPREPLY[@]}" -gt 0 ]; do _fanlog_completion fanlog; done',
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    environ = named.environ | {"PATH": f"{FANLOG.parent}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert sorted(done.stdout.split()) == ["orders", "orders-eu"]
