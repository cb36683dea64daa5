"""`fanlog serve` processes that are the nodes of a cluster, and what they say of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
from bench.kafka import Kafka

from acceptance.served import FANLOG, PATIENCE_S, PORTS, clean_environ
from fanlog.v1 import cluster_pb2 as pb
from kafka.networks import Network

#: The default of `fanlog serve`: nodes on a machine that is busy with other things keep it.
SESSION_S = 3.0
#: Of one question to a node, which may stand still.
ASK_S = 5.0
#: Longest that anything may take on a machine with much else to do.
LONG_S = 3 * PATIENCE_S


class NodeProcess:
    """One node, by `fanlog serve`; launched when it is made: `wait` for it.

    Args:
        launcher: A command that runs it, such as one that enters a network namespace.
        environ: Variables beside those of the test.
        data_dir: Of the cache; in `folder` by the node's name if not given.
        flags: More of them, such as the addresses to listen on.
    """

    def __init__(
        self,
        name: str,
        kafka: Kafka,
        cluster: str,
        folder: Path,
        *,
        launcher: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        flags: Sequence[str] = (),
        session_s: float = SESSION_S,
    ) -> None:
        self.name = name
        self.data_dir = data_dir or folder / name
        self._command = [*launcher, *FANLOG, "serve", *PORTS, "--data-dir", str(self.data_dir)]
        self._command += ["--kafka", kafka.servers, "--cluster", cluster, "--node", name]
        self._command += ["--kafka-replicas", str(len(kafka.nodes))]
        self._command += ["--link-port", "0", "--session", str(session_s), *flags]
        self._environ = clean_environ() | dict(environ or {})
        self._log = (folder / f"{name}.log").open("ab")
        self.endpoint = self.http = ""
        self.launch()

    def launch(self) -> None:
        """Begin to start; `wait` for it."""
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=self._environ,
        )

    def wait(self) -> None:
        """Return when it is ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("fanlog ready: gRPC on "), (line, self.log_tail())
        grpc_part, http_part = line.split(", ")[:2]
        self.endpoint = grpc_part.removeprefix("fanlog ready: gRPC on ")
        self.http = http_part.removeprefix("HTTP on ")

    def start(self) -> None:
        self.launch()
        self.wait()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=LONG_S)
        return self.process.returncode

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def describe(self) -> pb.ClusterState:
        """The cluster as this node tells of it.

        Raises:
            grpc.RpcError: It does not.
        """
        return pb.ClusterState.FromString(self._ask("DescribeCluster", pb.DescribeClusterRequest()))

    def move(self, name: str) -> None:
        """Have the owner hand the log over to the node of that name."""
        self._ask("MoveCluster", pb.MoveClusterRequest(node=name))

    def readiness(self) -> str:
        """What the node says to whoever asks whether it is ready, be it or not."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/readyz", timeout=ASK_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return str(refusal.read().decode())

    def log_text(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def log_tail(self) -> str:
        return self.log_text()[-3_000:]

    def close(self) -> None:
        if self.process.poll() is None:
            self.resume()
            self.end(signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def _ask(self, verb: str, request: pb.DescribeClusterRequest | pb.MoveClusterRequest) -> bytes:
        # A pool of its own: a channel to a node that was killed waits before it tries again.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.endpoint, options=options) as channel:
            call = channel.unary_unary(f"/fanlog.v1.Cluster/{verb}")
            answer: bytes = call(request.SerializeToString(), timeout=ASK_S)
            return answer


class NodeProcesses:
    """The nodes of one cluster, by name, and the owners that they told of."""

    def __init__(self, kafka: Kafka, cluster: str, folder: Path, closing: ExitStack) -> None:
        self.kafka = kafka
        self.cluster = cluster
        self._folder = folder
        self._closing = closing
        self.by_name: dict[str, NodeProcess] = {}
        #: Term and name, of all owners that a node told of.
        self.told_owners: set[tuple[int, str]] = set()

    def start(
        self,
        name: str,
        *,
        launcher: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        flags: Sequence[str] = (),
    ) -> NodeProcess:
        node = NodeProcess(
            *(name, self.kafka, self.cluster, self._folder),
            launcher=launcher,
            environ=environ,
            data_dir=data_dir,
            flags=flags,
        )
        self._closing.callback(node.close)
        node.wait()
        self.by_name[name] = node
        return node

    @contextmanager
    def guest(
        self,
        name: str,
        *,
        launcher: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        flags: Sequence[str] = (),
    ) -> Iterator[NodeProcess]:
        """One more node, for a while."""
        node = self.start(name, launcher=launcher, environ=environ, data_dir=data_dir, flags=flags)
        try:
            yield node
        finally:
            del self.by_name[name]
            node.close()

    def start_all(self, names: Sequence[str], network: Network | None = None) -> None:
        """Start nodes side by side; all of them follow or own when this returns.

        With a network each is a machine of it.
        """
        for name in names:
            how: dict[str, Sequence[str]] = {}
            if network is not None:
                host = network.add(name)
                how["launcher"] = network.launcher(name)
                how["flags"] = ["--host", host, "--link-host", host, "--insecure"]
            node = NodeProcess(name, self.kafka, self.cluster, self._folder, **how)  # type: ignore[arg-type]
            self._closing.callback(node.close)
            self.by_name[name] = node
        for name in names:
            self[name].wait()
        self.await_standbys(len(names) - 1)

    def __getitem__(self, name: str) -> NodeProcess:
        return self.by_name[name]

    def owner(self, *, but: str = "") -> str:
        """The name of the node that owns, as it says itself; another one than `but`."""
        found = ""

        def is_told() -> bool:
            nonlocal found
            for node in self.by_name.values():
                if node.name != but and self._owns(node):
                    found = node.name
                    return True
            return False

        until(is_told, "no node owns", self.log_tails)
        return found

    def make_owner(self, name: str) -> None:
        """Have this node own."""

        def owns() -> bool:
            if (owner := self.owner()) == name:
                return True
            # It may not be known to the owner yet.
            with suppress(grpc.RpcError):
                self[owner].move(name)
            return False

        until(owns, f"{name} does not own", self.log_tails)

    def await_standbys(self, count: int) -> None:
        """Return when the owner knows so many nodes that follow and have all of the log."""

        def are_there() -> bool:
            roles = [one.role for one in self._told(self[self.owner()])]
            return roles.count(pb.ClusterNode.STANDBY) >= count

        until(are_there, f"there are no {count} standbys", self.log_tails)

    def log_tails(self) -> str:
        return "\n".join(f"{node.name}: {node.log_tail()}" for node in self.by_name.values())

    def _owns(self, node: NodeProcess) -> bool:
        with suppress(grpc.RpcError):
            said = node.describe()
            if said.owner == node.name == said.told_by:
                self.told_owners.add((said.term, said.owner))
                return True
        return False

    def _told(self, node: NodeProcess) -> Sequence[pb.ClusterNode]:
        with suppress(grpc.RpcError):
            return list(node.describe().nodes)
        return []


def until(is_so: Callable[[], bool], why_not: str, more: Callable[[], str] = lambda: "") -> None:
    """Return when something is so."""
    end_s = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < end_s, f"{why_not} {more()}"
        time.sleep(0.05)
