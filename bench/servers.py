"""The servers that are measured: Fanlog, Google's emulator, or one that already runs.

`before.py` has an earlier Fanlog.

A launched server lives in a folder of its own, with its log beside its data, and is stopped by its
process id together with whatever it started itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import grpc
import psutil

from bench.api import Api

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
_POLL_S = 0.005

#: Where the Google Cloud SDK is usually installed, besides wherever `gcloud` is found.
SDK_FOLDERS = (
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/usr/local/share/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/opt/homebrew/share/google-cloud-sdk",
    "/snap/google-cloud-cli/current",
    "~/google-cloud-sdk",
)
_EMULATOR = "cloud-pubsub-emulator"
_READY = re.compile(r"^fanlog ready: gRPC on ([^\s,]+), HTTP on ([^\s,]+)", re.MULTILINE)


class ServerFailed(Exception):
    """A server did not start, or ended by itself; the message has the end of its log."""


class Server(Protocol):
    """What a workload needs of a server."""

    #: How tables and results call it.
    label: str
    #: `host:port` of gRPC, once it runs.
    endpoint: str
    #: The certificate of its authority, when it speaks TLS.
    authority: Path | None
    #: What callers show it, when it asks who calls.
    token: str
    #: Whether others may use it: then what was made on it is deleted again.
    is_shared: bool
    #: Whether messages are still there after a restart.
    is_durable: bool

    def start(self) -> float:
        """Start it; the seconds from there to the first call that was answered."""

    def stop(self) -> None:
        """Stop it; does nothing when it is not running."""

    def processes(self) -> list[psutil.Process]:
        """The server and all that it started; empty when its process is not known."""


#: Makes a server that is not started yet, with a folder of its own.
Launch = Callable[[Path], Server]


class Launched:
    """A server that is a child of ours. Each kind says how it is called and where it listens."""

    label = ""
    authority: Path | None = None
    token = ""
    is_shared = False
    is_durable = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = ""
        self._log_path = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        command = self._command()
        self._log_path.unlink(missing_ok=True)
        with self._log_path.open("wb") as log:
            began = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environ(),
                # Ctrl-C is for us; we then stop the server.
                start_new_session=True,
            )
        while not self._answers():
            if self._process.poll() is not None:
                raise ServerFailed(f"{self.label} ended while starting: {self._log_end()}")
            if time.perf_counter() - began > START_TIMEOUT_S:
                raise ServerFailed(f"{self.label} did not answer within {START_TIMEOUT_S} s")
            time.sleep(_POLL_S)
        return time.perf_counter() - began

    def stop(self) -> None:
        if self._process is None:
            return
        tree = self.processes()
        for process in tree:
            _unless_gone(process.terminate)
        _, alive = psutil.wait_procs(tree, timeout=STOP_TIMEOUT_S)
        for process in alive:
            _unless_gone(process.kill)
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def processes(self) -> list[psutil.Process]:
        return _tree(self._process.pid) if self._process else []

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _environ(self) -> dict[str, str]:
        return _clean_environ()

    def _answers(self) -> bool:
        return bool(self.endpoint) and _first_call(self.endpoint, self.authority, self.token)

    def _log_text(self) -> str:
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    def _log_end(self) -> str:
        lines = self._log_text().strip().splitlines()
        return " | ".join(lines[-3:]) or "it said nothing"


class Fanlog(Launched):
    """This checkout's `fanlog serve`, every publish synced to the folder's disk."""

    label = "Fanlog"
    is_durable = True
    #: `host:port` of HTTP, once it runs.
    http = ""

    def _command(self) -> list[str]:
        self.endpoint = ""
        fanlog = Path(sys.executable).with_name("fanlog")
        ports = ["--port", "0", "--http-port", "0"]
        push = ["--push-allow", "127.0.0.0/8"]
        return [str(fanlog), "serve", *ports, *push, "--data-dir", str(self.folder / "data")]

    def _answers(self) -> bool:
        if not self.endpoint:
            ready = _READY.search(self._log_text())
            self.endpoint, self.http = (ready[1], ready[2]) if ready else ("", "")
        return super()._answers()


class Emulator(Launched):
    """Google's Pub/Sub emulator; it keeps everything in memory."""

    label = "emulator"

    def _command(self) -> list[str]:
        program = find_emulator()
        if program is None:
            raise ServerFailed(f"{_EMULATOR} is not on this machine")
        port = _free_port()
        self.endpoint = f"127.0.0.1:{port}"
        return [str(program), "--host=127.0.0.1", f"--port={port}"]


class Running:
    """A server that somebody else started: driven, never started or stopped."""

    label = "server"
    authority: Path | None = None
    token = ""
    is_shared = True
    is_durable = False

    def __init__(self, endpoint: str, pid: int | None) -> None:
        self.endpoint = endpoint
        self._pid = pid

    def start(self) -> float:
        began = time.perf_counter()
        if not _first_call(self.endpoint, self.authority, self.token):
            raise ServerFailed(f"nothing answers on {self.endpoint}")
        return time.perf_counter() - began

    def stop(self) -> None:
        pass

    def processes(self) -> list[psutil.Process]:
        return _tree(self._pid) if self._pid else []


def find_emulator() -> Path | None:
    """The emulator's start script, if the machine has it and a Java to run it."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return None
    if on_path := shutil.which(_EMULATOR):
        return Path(on_path)
    folders = [Path(folder).expanduser() for folder in SDK_FOLDERS]
    if gcloud := shutil.which("gcloud"):
        folders.insert(0, Path(gcloud).resolve().parent.parent)
    places = (folder / "platform/pubsub-emulator/bin" / _EMULATOR for folder in folders)
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _clean_environ() -> dict[str, str]:
    """Settings of the person who runs this must not change what is measured.

    Python's own are among them: without its compiled files a start takes a second longer.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FANLOG_", "PYTHON")) and name != "PUBSUB_EMULATOR_HOST"
    }


def _first_call(endpoint: str, authority: Path | None, token: str) -> bool:
    with Api(endpoint, authority, token) as api:
        try:
            api.list_topics(timeout_s=5)
        except grpc.RpcError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _unless_gone(do: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        do()
