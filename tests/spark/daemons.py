"""Spark's own processes, from the wheel, and pipelines that use them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyspark
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from acceptance.paired import PATIENCE_S, PIPELINE_READY
from acceptance.served import FANLOG, clean_environ

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Daemons:
    """Processes with a log each, on the loopback address."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._started: list[psutil.Popen] = []

    def start(
        self, name: str, command: list[str], environ: Mapping[str, str] | None = None
    ) -> Path:
        """Start one; gives its log."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            self._started.append(
                psutil.Popen(
                    command, stdout=file, stderr=file, env=clean_environ() | dict(environ or {})
                )
            )
        return log

    def start_spark(self, name: str, program: str, *arguments: str, memory: str = "256m") -> Path:
        """Start one of Spark's own; gives its log."""
        environ = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": memory,
            # The one that has Fanlog; a Connect server looks for formats with it.
            "PYSPARK_PYTHON": sys.executable,
        }
        return self.start(name, [str(SPARK_CLASS), program, *arguments], environ)

    def start_pipeline(
        self, endpoint: str, master: str, *settings: str
    ) -> tuple[psutil.Popen, Path]:
        """Start a pipeline, and wait until it is ready."""
        flags = ["--endpoint", endpoint, "--master", master]
        flags += ["--state-dir", str(self.folder / "state")]
        for setting in settings:
            flags += ["--spark-conf", setting]
        log = self.start("pipeline", [*FANLOG, "pipeline", *flags])
        self.await_said(log, PIPELINE_READY)
        return self._started[-1], log

    def await_said(self, log: Path, sentence: str) -> None:
        self.await_that(lambda: sentence in log.read_text(), sentence)

    def await_that(self, is_so: Callable[[], bool], what: str) -> None:
        late_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert all(one.poll() is None for one in self._started), self.said()
            assert time.monotonic() < late_s, f"not {what}: {self.said()}"
            # Nobody tells us: it is what other processes have written.
            time.sleep(0.05)

    def said(self) -> str:
        logs = [*self.folder.glob("*.log"), *self.folder.glob("work-*/*/*/std*")]
        return "\n".join(f"{path}:\n{path.read_text()[-4000:]}" for path in sorted(logs))

    def stop(self) -> None:
        """End them, the last first; those that they started go with them."""
        running = [each for each in self._started if each.poll() is None]
        below = [one for each in running for one in each.children(recursive=True)]
        for each in reversed(running):
            each.terminate()
        _, left = psutil.wait_procs([*below, *running], timeout=30)
        for one in left:
            one.kill()
        assert not left


def run_job(endpoint: str, *asked: str) -> Any:
    """Ask for a job, and wait for it."""
    done = subprocess.run(
        [*FANLOG, "job", *asked, "--json"],
        env=clean_environ() | {"PUBSUB_EMULATOR_HOST": endpoint},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    job = json.loads(done.stdout.splitlines()[-1])
    assert job["state"] == "DONE"
    return job["result"]


def archived(lake: Path, topic: str) -> Counter[bytes]:
    """What the lake has of a topic, read as anybody would, without Fanlog."""
    return Counter(
        row["data"] for row in rows_of(lake / "messages", "topic", "data") if row["topic"] == topic
    )


def rows_of(table: Path, *columns: str) -> list[dict[str, Any]]:
    """Rows of a table that may not be there yet."""
    try:
        return list(DeltaTable(str(table)).to_pyarrow_table(columns=list(columns)).to_pylist())
    except TableNotFoundError:
        return []
