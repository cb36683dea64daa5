"""`fanlog up` as people run it: a broker and a pipeline worker, and what they leave behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import grpc
import psutil
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

from acceptance.served import FANLOG, clean_environ

#: Longest that Spark may take for anything on a slow and busy machine.
PATIENCE_S = 240.0
BROKER_READY = "fanlog ready:"
PIPELINE_READY = "fanlog pipeline ready in"
#: What lives for seconds is not worth compiling well: that would take half of the time.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Up:
    """A `fanlog up` process."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.data_dir = folder / "data"
        self.log_path = folder / "up.log"
        self.port, self.http_port = free_ports(2)
        self._environ = clean_environ() | QUICK_JAVA | dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        #: Where this start's own lines begin in the log.
        self._from = 0
        self._known: dict[int, psutil.Process] = {}

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.log_path.touch()
        self._from = self.log_path.stat().st_size
        flags = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        flags += ["--http-port", str(self.http_port), "--master", "local[2]"]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*FANLOG, "up", *flags], stdout=log, stderr=log, env=self._environ
            )

    def said(self) -> str:
        """What was said since the start."""
        return self.log_path.read_bytes()[self._from :].decode()

    def await_said(self, sentence: str, times: int = 1) -> None:
        def is_said() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.said()
            return self.said().count(sentence) >= times

        self.await_that(is_said, sentence)

    def await_that(self, is_so: Callable[[], bool], what: str) -> None:
        late_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < late_s, f"not {what}: {self.said()}"
            time.sleep(0.05)

    # Processes.

    def children(self) -> list[psutil.Process]:
        """All processes below it, those of Spark's too; also those that it left behind."""
        assert self._process is not None
        for one in psutil.Process(self._process.pid).children(recursive=True):
            self._known[one.pid] = one
        return list(self._known.values())

    def runs(self, program: str) -> bool:
        """Whether a process below it runs a program of Java's."""
        for one in self.children():
            with suppress(psutil.NoSuchProcess):
                if program in one.cmdline():
                    return True
        return False

    def pipeline(self) -> psutil.Process:
        """The worker, as it is now."""
        assert self._process is not None
        [found] = [
            one
            for one in psutil.Process(self._process.pid).children()
            if "pipeline" in one.cmdline()
        ]
        return found

    def java(self) -> psutil.Process:
        """Spark's driver, as it is now."""
        [found] = [one for one in self.pipeline().children() if one.name() == "java"]
        return found

    def stop(self) -> int:
        """SIGTERM; gives the exit code. Nothing that it started is left."""
        assert self._process is not None
        children = self.children()
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        _, left = psutil.wait_procs(children, timeout=30)
        assert not left, f"left behind: {left}; {self.said()}"
        return code

    def close(self) -> None:
        """End everything, whatever has happened."""
        if self._process is None:
            return
        left = self.children()
        self._process.kill()
        self._process.wait()
        for one in left:
            if one.is_running():
                one.kill()
        psutil.wait_procs(left, timeout=30)

    # Messages.

    @contextmanager
    def publisher(self) -> Iterator[gapic.PublisherClient]:
        with grpc.insecure_channel(self.endpoint) as channel:
            yield gapic.PublisherClient(transport=PublisherGrpcTransport(channel=channel))

    def archived(self, topic: str) -> Counter[bytes]:
        """What the lake has of a topic, read as anybody would, without Fanlog."""
        try:
            table = DeltaTable(str(self.data_dir / "lake" / "messages"))
        except TableNotFoundError:
            return Counter()
        rows = table.to_pyarrow_table(columns=["topic", "data"], filters=[("topic", "=", topic)])
        return Counter(rows["data"].to_pylist())

    def await_archived(self, topic: str, count: int) -> Counter[bytes]:
        """Wait until the lake has so many different messages of a topic."""
        self.await_that(lambda: len(self.archived(topic)) >= count, f"{count} archived")
        return self.archived(topic)

    def _credentials(self) -> dict[str, str]:
        """Those of the administrator, where there is one."""
        path = self.data_dir / "auth" / "admin.token"
        return {"FANLOG_TOKEN_FILE": str(path)} if path.exists() else {}

    def run(self, *args: str) -> Any:
        """Run a command against the broker; gives what it says as JSON."""
        result = subprocess.run(
            [*FANLOG, *args, "--json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=clean_environ() | {"PUBSUB_EMULATOR_HOST": self.endpoint} | self._credentials(),
        )
        assert result.returncode == 0, (result.stdout, result.stderr, self.said())
        return json.loads(result.stdout.splitlines()[-1])


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on: `fanlog up` wants to be told."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
