"""The `fanlog` command as people run it: processes, signals and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Longest a start or a stop may take on a slow and busy machine.
PATIENCE_S = 60
FANLOG = [sys.executable, "-m", "fanlog"]
#: Free ones: tests run side by side.
PORTS = ["--port", "0", "--http-port", "0"]
READY = re.compile(
    r"fanlog ready: gRPC on (\S+), HTTP on (\S+), data in (.+?); (TLS; )?"
    r"IAM: (?:stored, not enforced|enforced)(?:; secrets: sealed)?\n"
)


def clean_environ() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FANLOG_") and name != "PUBSUB_EMULATOR_HOST"
    }


class Served:
    """A `fanlog serve` process, and commands run against it."""

    def __init__(
        self,
        data_dir: Path,
        log_path: Path,
        *,
        launcher: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        #: A command that runs the server, such as a tracer, and variables for it.
        self._launcher = launcher
        self._environ = clean_environ() | dict(environ or {})
        self._log = log_path.open("ab")
        self.log_path = log_path
        self._process: subprocess.Popen[str] | None = None
        self.endpoint = ""
        self.http = ""
        self.is_tls = False
        #: Of short names in commands; the default one if empty.
        self.project = ""
        #: What commands need to call a server with TLS, and one that asks who calls.
        self.ca: Path | None = None
        self.token_file: Path | None = None

    def start(self, *flags: str) -> str:
        """Start the server, wait until it says it is ready, and give that line."""
        self._process = subprocess.Popen(
            [*self._launcher, *FANLOG, "serve", *PORTS, "--data-dir", str(self.data_dir), *flags],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=self._environ,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready, (line, self.log_path.read_text())
        self.endpoint, self.http, self.is_tls = ready[1], ready[2], ready[4] is not None
        return line

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; give the exit status and what else was said on standard output."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, rest

    def close(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGKILL)
        self._log.close()

    @property
    def address(self) -> str:
        """The endpoint as commands take it."""
        if not self.is_tls:
            return self.endpoint
        return f"https://{self.endpoint}" + (f"?ca={self.ca}" if self.ca else "")

    @property
    def environ(self) -> dict[str, str]:
        """For commands that speak to this server."""
        named = {"FANLOG_PROJECT": self.project} if self.project else {}
        if self.token_file is not None:
            named["FANLOG_TOKEN_FILE"] = str(self.token_file)
        return clean_environ() | {"PUBSUB_EMULATOR_HOST": self.address} | named

    def run(
        self, *args: object, stdin: str = "", exit_code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against this server."""
        result = subprocess.run(
            [*FANLOG, *map(str, args)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=self.environ,
        )
        assert result.returncode == exit_code, (result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        return result

    def lines(self, *args: object, stdin: str = "") -> list[Any]:
        """Run a command with --json and read its lines."""
        output = self.run(*args, "--json", stdin=stdin).stdout
        return [json.loads(line) for line in output.splitlines()]
