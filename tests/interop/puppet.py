"""A client program that runs, and does what a test tells it; see programs/README.md."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from acceptance.served import clean_environ
from interop.builds import built

#: Longer than a program's own patience: then it says itself what did not come.
ANSWER_S = 150

#: What names the authorities that programs trust: of Node, of Python over REST, of gRPC, of Go.
_TRUSTED = (
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "SSL_CERT_FILE",
)
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


class Puppet:
    """One program of one language against one server."""

    def __init__(
        self,
        language: str,
        endpoint: str,
        ca: Path | None,
        log_path: Path,
        *extra: str,
        key_file: Path | None = None,
    ) -> None:
        folder, command = built(language)
        environ = clean_environ() | {
            # Node looks for a metadata server in the network unless told not to.
            "METADATA_SERVER_DETECTION": "none",
            **({} if ca is None else dict.fromkeys(_TRUSTED, str(ca))),
        }
        environ.pop(_KEY_FILE, None)
        if key_file is not None:
            environ[_KEY_FILE] = str(key_file)
        self._log = log_path.open("ab")
        self._log_path = log_path
        self._process = subprocess.Popen(
            [*command, endpoint, str(ca or ""), *extra],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **fields}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            line = ""
        assert line, f"{command} was not answered: {self._log_path.read_text()[-4000:]}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def await_received(self, count: int, patience_s: float = ANSWER_S) -> None:
        """Wait until the flow that was begun has received so many messages."""
        deadline = time.monotonic() + patience_s
        while (found := self.do("count"))["received"] < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
