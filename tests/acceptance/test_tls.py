"""A server with TLS and the command line, as people run them; and the mistakes they make."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.served import FANLOG, PATIENCE_S, Served, clean_environ
from transport.certificates import Authority


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of an authority, of a server and of a client."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.make("the authority")
    authority.write(folder / "ca.pem")
    for name in ("server", "client"):
        authority.issue(name, folder)
    Authority.make("another").write(folder / "other.pem")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """Lets in clients with a certificate alone."""
    served = Served(folder / "data", folder / "server.log")
    files = ("--tls-cert", folder / "server.pem", "--tls-key", folder / "server.key")
    served.start(*map(str, files), "--tls-client-ca", str(folder / "ca.pem"))
    yield served
    served.close()


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FANLOG, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=folder,
        env=clean_environ() | environ,
    )


def test_files_as_options(server: Served, folder: Path) -> None:
    files = ("--ca", "ca.pem", "--cert", "client.pem", "--key", "client.key")
    made = run(folder, *files, "topic", "create", "orders", "--endpoint", server.endpoint)
    assert made.stdout == "created topic projects/fanlog/topics/orders\n"


def test_files_as_variables(server: Served, folder: Path) -> None:
    found = run(
        folder,
        *("topic", "list"),
        PUBSUB_EMULATOR_HOST=server.endpoint,
        FANLOG_CA="ca.pem",
        FANLOG_CERT="client.pem",
        FANLOG_KEY="client.key",
    )
    assert found.returncode == 0, found.stderr


def test_files_in_the_address(server: Served, folder: Path) -> None:
    address = f"https://{server.endpoint}?ca=ca.pem&cert=client.pem&key=client.key"
    assert run(folder, "topic", "list", "--endpoint", address).returncode == 0


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ((), "hangs up on plain text; if it speaks TLS, name the authority"),
        (("--ca", "ca.pem"), "does not speak TLS, or wants to see a certificate of ours"),
        (
            ("--ca", "other.pem", "--cert", "client.pem", "--key", "client.key"),
            "shows a certificate that is for another name, or by an authority that is not known",
        ),
        (("--ca", "missing.pem"), "ca: 'missing.pem': No such file or directory"),
        (("--ca", "ca.pem", "--cert", "client.pem"), "cert and key go together"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    server: Served, folder: Path, files: tuple[str, ...], sentence: str
) -> None:
    found = run(folder, *files, "topic", "list", "--endpoint", server.endpoint)
    assert found.returncode == 1
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr
