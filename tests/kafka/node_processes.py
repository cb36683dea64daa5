"""Nodes of a cluster as processes of `fanlog serve`; each keeps its port when it comes again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.kafka import Kafka, free_ports

from acceptance.served import FANLOG, PATIENCE_S, clean_environ

NAMES = ("a", "b", "c")


class NodeProcess:
    """One node, by `fanlog serve`; started when it is made."""

    def __init__(
        self, name: str, kafka: Kafka, cluster: str, folder: Path, *, session_s: float
    ) -> None:
        self.name = name
        self.data_dir = folder / name
        (port,) = free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        self._command = [*FANLOG, "serve", "--port", str(port), "--http-port", "off"]
        self._command += ["--data-dir", str(self.data_dir), "--link-port", "0"]
        self._command += ["--kafka", kafka.servers, "--cluster", cluster, "--node", name]
        self._command += ["--session", str(session_s)]
        self._log = (folder / f"{name}.log").open("ab")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=clean_environ(),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("fanlog ready: gRPC on "), (line, Path(self._log.name).read_text())

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `fanlog` against this node."""
        return subprocess.run(
            [*FANLOG, *words],
            env=clean_environ() | {"PUBSUB_EMULATOR_HOST": self.endpoint},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.resume()
            self.end(signal.SIGKILL)
        self._log.close()


class Nodes:
    """The nodes of one cluster, by name."""

    def __init__(self, nodes: Sequence[NodeProcess]) -> None:
        self.by_name = {node.name: node for node in nodes}

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self.by_name.values())

    def owner(self, but: str = "") -> str:
        """The name of the node that owns, as a node says; another one than `but`."""
        return str(self._described("owner", but)["owner"])

    def await_standbys(self) -> None:
        """Return when all nodes are there, and each but the owner may take over."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            found = self._described("nodes")["nodes"]
            ready = [one for one in found if one["role"] in ("OWNER", "STANDBY")]
            if len(ready) == len(self.by_name):
                return
            assert time.monotonic() < end_s, found
            time.sleep(0.2)

    def target(self, first: int) -> str:
        """The addresses of all nodes, from one of them on: gRPC takes the first that answers."""
        endpoints = [node.endpoint for node in self]
        return "ipv4:" + ",".join(endpoints[first:] + endpoints[:first])

    def _described(self, wanted: str, but: str = "") -> dict[str, Any]:
        end_s = time.monotonic() + PATIENCE_S
        said = ""
        while time.monotonic() < end_s:
            for node in self:
                if node.name == but or node.process.poll() is not None:
                    continue
                told = node.run("cluster", "describe", "--json")
                said = told.stdout or told.stderr
                found: dict[str, Any] = {} if told.returncode else json.loads(told.stdout)
                if found.get(wanted) and found[wanted] != but:
                    return found
            time.sleep(0.1)
        raise AssertionError(f"no node says its {wanted}: {said}")


@contextmanager
def running_nodes(kafka: Kafka, cluster: str, folder: Path, *, session_s: float) -> Iterator[Nodes]:
    """Three nodes that are there, and gone in the end."""
    with ExitStack() as closing:
        nodes = []
        for name in NAMES:
            nodes.append(NodeProcess(name, kafka, cluster, folder, session_s=session_s))
            closing.callback(nodes[-1].close)
        yield Nodes(nodes)
