"""A real Kafka on this machine, of one node or several: made of Maven Central's jars, in a folder.

Benchmarks and tests use it. Each node is a broker and a controller (KRaft) with a small heap, on
ports of 127.0.0.1 that were free. Nodes are killed, paused and started again by their process ids.
A node has two listeners: one for clients that come directly, and one for those that come through a
proxy. Kafka tells these the proxy's port, on which nothing listens until a test makes it. A third,
with TLS and SASL, is for those who ask for it.
"""

from __future__ import annotations

import base64
import fcntl
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

VERSION = "4.3.1"
BUILT = Path(__file__).resolve().parent.parent / "build" / "kafka" / VERSION

#: Of Maven, which fetches some forty jars of 44 MB in all.
FETCH_S = 300
#: Of a node that starts, on a busy machine.
START_S = 90
STOP_S = 30
_HEAP_MIB = 256

_POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>fanlog</groupId><artifactId>kafka</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

#: Kafka's defaults are for machines that have nothing else to do.
_SMALL = {
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
#: Fail-over in four seconds, where the defaults take a dozen.
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "3000",
}
#: Below the ports that the system gives to clients, which would take those of a node that is down.
_PORTS = range(20_000, 32_000)


class KafkaMissing(Exception):
    """This machine has no Java, or no Maven to fetch Kafka with; or it cannot be fetched."""


class KafkaStuck(Exception):
    """A node did not start; the message has the end of its log."""


def jars() -> Path:
    """The folder of Kafka's jars, fetched once.

    Raises:
        KafkaMissing: They are not here and cannot be had.
    """
    if shutil.which("java") is None:
        raise KafkaMissing("Java is not installed, which Kafka needs")
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    # Workers of one run, or two runs: one of them fetches, the others wait for it.
    with _locked(BUILT.parent / "lock"):
        if not BUILT.exists():
            _fetch()
    return BUILT


def _fetch() -> None:
    if shutil.which("mvn") is None:
        raise KafkaMissing("mvn is not installed, which fetches Kafka")
    with tempfile.TemporaryDirectory(dir=BUILT.parent) as folder:
        pom = Path(folder) / "pom.xml"
        pom.write_text(_POM)
        found = Path(folder) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(pom), "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={found}", "dependency:copy-dependencies"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_S, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise KafkaMissing(f"mvn could not fetch Kafka {VERSION}")
        found.rename(BUILT)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class KafkaNode:
    """One node: a process, its folder and its ports."""

    def __init__(
        self,
        folder: Path,
        number: int,
        java_options: Sequence[str],
        *,
        host: str,
        launcher: Sequence[str],
    ) -> None:
        self.number = number
        self._java_options = java_options
        self._host = host
        self._launcher = launcher
        self.folder = folder.resolve()
        self._port, self.controller_port, self._behind_port, self.proxy_port, self._secure_port = (
            free_ports(5)
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.is_paused = False

    @property
    def endpoint(self) -> str:
        return f"{self._host}:{self._port}"

    @property
    def endpoint_behind(self) -> str:
        """The second listener, for the proxy on `proxy_port` to connect to."""
        return f"127.0.0.1:{self._behind_port}"

    @property
    def secure_endpoint(self) -> str:
        """The third listener, of a Kafka that has it."""
        return f"127.0.0.1:{self._secure_port}"

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def configure(self, settings: Mapping[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        self._properties.write_text("".join(lines))

    def format(self, cluster_id: str) -> subprocess.Popen[bytes]:
        """Begin to make the folder of the node's data; wait for the process that is returned."""
        return self._java(
            "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties)
        )

    def launch(self) -> None:
        """Begin to start; ready when its port answers (`Kafka.wait`)."""
        assert not self.is_up
        self._process = self._java("kafka.Kafka", str(self._properties))
        self.is_paused = False

    def kill(self) -> None:
        """End without a word, as by a power cut of this process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)

    def begin_to_stop(self) -> None:
        """Ask it to end in order: leadership moves first."""
        self.resume()
        if self.is_up:
            assert self._process is not None
            self._process.terminate()

    def end(self) -> None:
        """Wait for the end; a node that does not come to it is killed."""
        if self._process is None:
            return
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def pause(self) -> None:
        """Stand still, with all connections open."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            self._signal(signal.SIGCONT)
            self.is_paused = False

    def log_tail(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2_000:]

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _signal(self, number: int) -> None:
        if self.is_up:
            assert self._process is not None
            self._process.send_signal(number)

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = [f"-Xmx{_HEAP_MIB}m", "-Xms64m", "-XX:+UseSerialGC"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *self._java_options]
        with (self.folder / "log").open("ab") as log:
            # In a session of its own: Ctrl-C is for whoever started it, who then stops it.
            return subprocess.Popen(
                [*self._launcher, "java", *options, "-cp", f"{jars()}/*", *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class Kafka:
    """A cluster of Kafka nodes; `stop` ends them, and leaves the folder to its owner.

    Args:
        folder: For all that they write.
        nodes: How many there are.
        settings: Of every node, beside those that it needs.
        secure: Settings of a third listener, with TLS and SASL; there is none if they are empty.
        java_options: For every node.
        host: Address that clients come to directly.
        launcher: A command that runs another one, such as in a network namespace.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        settings: Mapping[str, str] | None = None,
        secure: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        host: str = "127.0.0.1",
        launcher: Sequence[str] = (),
    ) -> None:
        numbers = range(1, nodes + 1)
        self.nodes = [
            KafkaNode(folder / str(each), each, java_options, host=host, launcher=launcher)
            for each in numbers
        ]
        self._settings = dict(settings or {})
        self._secure = dict(secure or {})

    @property
    def servers(self) -> str:
        return ",".join(node.endpoint for node in self.nodes)

    @property
    def secure_servers(self) -> str:
        return ",".join(node.secure_endpoint for node in self.nodes)

    @property
    def proxied_servers(self) -> str:
        """For clients that go through proxies."""
        return ",".join(f"127.0.0.1:{node.proxy_port}" for node in self.nodes)

    def start(self) -> None:
        """Start all nodes in fresh folders; ready when this returns.

        Raises:
            KafkaMissing: See there.
            KafkaStuck: A node does not start.
        """
        jars()
        # The tool takes one that begins with a hyphen for an option; this one begins with an A.
        cluster_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode()[:22]
        try:
            for node in self.nodes:
                node.configure(self._properties(node))
            for formatting in [node.format(cluster_id) for node in self.nodes]:
                if formatting.wait(START_S):
                    raise KafkaStuck(self.nodes[0].log_tail())
            for node in self.nodes:
                node.launch()
            self.wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for node in self.nodes:
            # In order it would move leadership, and wait for others that are ending too.
            node.kill() if len(self.nodes) > 1 else node.begin_to_stop()
        for node in self.nodes:
            node.end()

    def heal(self) -> None:
        """Let all nodes run that were killed or paused; all is well when this returns."""
        for node in self.nodes:
            node.resume()
            if not node.is_up:
                node.launch()
        self.wait()

    def wait(self) -> None:
        """Return when all nodes that run have joined the cluster.

        Raises:
            KafkaStuck: One does not.
        """
        end = time.monotonic() + START_S
        wanted = {node.number for node in self.nodes if node.is_up}
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        while not self._joined(admin) >= wanted:
            for node in self.nodes:
                if node.number in wanted and not node.is_up:
                    raise KafkaStuck(f"Kafka node {node.number} ended: {node.log_tail()}")
            if time.monotonic() > end:
                raise KafkaStuck(f"Kafka is not up after {START_S} s: {self.nodes[0].log_tail()}")
            time.sleep(0.05)

    def node(self, number: int) -> KafkaNode:
        return self.nodes[number - 1]

    def _joined(self, admin: AdminClient) -> set[int]:
        try:
            return set(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return set()

    def _properties(self, node: KafkaNode) -> dict[str, str]:
        count = len(self.nodes)
        voters = [f"{each.number}@127.0.0.1:{each.controller_port}" for each in self.nodes]
        listeners = {"PLAINTEXT": node.endpoint, "PROXIED": node.endpoint_behind}
        protocols = {"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self._secure:
            listeners["SECURE"], protocols["SECURE"] = node.secure_endpoint, "SASL_SSL"
        advertised = listeners | {"PROXIED": f"127.0.0.1:{node.proxy_port}"}
        listeners["CONTROLLER"] = f"127.0.0.1:{node.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": _listed(listeners),
            "advertised.listeners": _listed(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(node.folder / "data"),
            "offsets.topic.replication.factor": str(count),
            "transaction.state.log.replication.factor": str(count),
            "transaction.state.log.min.isr": str(min(2, count)),
            **_SMALL,
            **self._settings,
            **{f"listener.name.secure.{name}": value for name, value in self._secure.items()},
        }


def _listed(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{endpoint}" for name, endpoint in listeners.items())


def free_ports(count: int) -> Sequence[int]:
    """Ports of 127.0.0.1 that nothing listens on, and that the system gives to no client."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")
