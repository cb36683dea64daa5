"""Nodes of a cluster on a Kafka of this machine, and that Kafka."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.kafka import Kafka
from bench.servers import Fanlog
from bench.session import Stalled

BUILD = Path(__file__).resolve().parent.parent / "build"
#: The default of `fanlog serve`.
SESSION_S = 3.0
#: Longest that anything is waited for.
PATIENCE_S = 120.0
_HTTP = re.compile(r"^fanlog ready: .*?HTTP on ([^\s,]+)", re.MULTILINE)
#: A row of the metrics page without labels.
_ROW = r"^{} (\S+)$"


class Member(Fanlog):
    """A node of the cluster, in a folder of its own that it makes."""

    is_durable = False

    def __init__(
        self, folder: Path, kafka: Kafka, name: str, *, session_s: float = SESSION_S
    ) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.label = name
        self.kafka = kafka
        self._session_s = session_s

    def _command(self) -> list[str]:
        cluster = ["--kafka", self.kafka.servers, "--cluster", "bench", "--node", self.label]
        cluster += ["--kafka-replicas", str(len(self.kafka.nodes))]
        cluster += ["--session", str(self._session_s), "--link-port", "0"]
        return [*super()._command(), *cluster]

    def kill(self) -> None:
        for process in self.processes():
            process.kill()

    def leave(self) -> None:
        """Tell it to end; it has ended when this returns."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def pause(self) -> None:
        for process in self.processes():
            process.suspend()

    def resume(self) -> None:
        for process in self.processes():
            process.resume()

    def number(self, metric: str) -> float:
        """The value of a metric without labels."""
        return self._value(re.escape(metric))

    def plays(self, part: str) -> bool:
        return self._value(rf'fanlog_cluster_role\{{role="{part}"\}}') == 1

    def await_part(self, part: str) -> None:
        """Return when it is `owner`, or a `standby` that has all of the log."""
        end_s = time.monotonic() + PATIENCE_S
        while not self.plays(part):
            if time.monotonic() > end_s:
                raise Stalled(f"{self.label} is no {part} after {PATIENCE_S:.0f} s")
            time.sleep(0.02)

    def _value(self, row: str) -> float:
        ready = _HTTP.search(self._log_text())
        assert ready, "started"
        with urllib.request.urlopen(f"http://{ready[1]}/metrics", timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
        found = re.search(_ROW.format(row), page, re.MULTILINE)
        assert found, row
        return float(found[1])


class Members:
    """The nodes of one cluster, and its Kafka, in one folder."""

    def __init__(self, folder: Path, kafka: Kafka, closing: ExitStack, session_s: float) -> None:
        self.kafka = kafka
        self._folder = folder
        self._closing = closing
        self._session_s = session_s

    def made(self, name: str) -> Member:
        """A node that is not started; it is stopped in the end."""
        member = Member(self._folder / name, self.kafka, name, session_s=self._session_s)
        self._closing.callback(member.stop)
        return member

    def started(self, name: str) -> Member:
        member = self.made(name)
        member.start()
        return member


@contextmanager
def clustered(nodes: int, *, session_s: float = SESSION_S) -> Iterator[Members]:
    """A Kafka of so many nodes, and what one needs to start nodes of Fanlog on it.

    Raises:
        KafkaMissing: This machine cannot run one.
    """
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-cluster-", dir=BUILD))
    kafka = Kafka(folder / "kafka", nodes=nodes)
    with ExitStack() as closing:
        closing.callback(shutil.rmtree, folder, ignore_errors=True)
        closing.callback(kafka.stop)
        kafka.start()
        yield Members(folder, kafka, closing, session_s)
