"""Three `fanlog serve` processes on a real Kafka, an official publisher and subscriber, and owners
that are killed, stopped and paused: every publish answered OK is delivered, and all goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from bench.kafka import Kafka
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from acceptance.served import FANLOG, PATIENCE_S, PORTS, clean_environ

TOPIC = "projects/drill/topics/flow"
SUBSCRIPTION = "projects/drill/subscriptions/flow"
SESSION_S = 1.5


class NodeProcess:
    """One node, by `fanlog serve`."""

    def __init__(self, name: str, kafka: Kafka, cluster: str, folder: Path) -> None:
        self.name = name
        self._command = [*FANLOG, "serve", *PORTS, "--data-dir", str(folder / name)]
        self._command += ["--kafka", kafka.servers, "--cluster", cluster, "--node", name]
        self._command += ["--link-port", "0", "--session", str(SESSION_S)]
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
        self.endpoint = line.removeprefix("fanlog ready: gRPC on ").split(",")[0]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.end(signal.SIGKILL)
        self._log.close()


class Nodes:
    def __init__(self, kafka: Kafka, cluster: str, folder: Path, closing: ExitStack) -> None:
        self.by_name: dict[str, NodeProcess] = {}
        for name in ("a", "b", "c"):
            node = NodeProcess(name, kafka, cluster, folder)
            closing.callback(node.close)
            self.by_name[name] = node

    def owner(self, but: str = "") -> str:
        """The name of the node that owns, as a node says; another one than `but`."""
        end_s = time.monotonic() + PATIENCE_S
        said = ""
        while time.monotonic() < end_s:
            for node in self.by_name.values():
                if node.name == but:
                    continue
                told = subprocess.run(
                    [*FANLOG, "cluster", "describe", "--json"],
                    env=clean_environ() | {"PUBSUB_EMULATOR_HOST": node.endpoint},
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    check=False,
                )
                said = told.stdout or told.stderr
                found = json.loads(told.stdout).get("owner", "") if not told.returncode else ""
                if found and found != but:
                    return str(found)
            time.sleep(0.1)
        raise AssertionError(f"no other owner: {said}")


@pytest.fixture
def nodes(three: Kafka, cluster: str, tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as closing:
        yield Nodes(three, cluster, tmp_path, closing)


class Flow:
    """Publishes all the time through one node, receives and acknowledges through another."""

    def __init__(self, publish_at: str, receive_at: str, closing: ExitStack) -> None:
        self.answered: set[str] = set()
        self.received: set[str] = set()
        self.failures: list[Exception] = []
        self._is_ending = threading.Event()
        channel = closing.enter_context(grpc.insecure_channel(publish_at))
        self._publisher = pubsub_v1.PublisherClient(
            transport=PublisherGrpcTransport(channel=channel)
        )
        channel = closing.enter_context(grpc.insecure_channel(receive_at))
        subscriber = pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        self._publisher.create_topic(name=TOPIC)
        subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)
        self._stream = subscriber.subscribe(SUBSCRIPTION, callback=self._take)
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()

    def _take(self, message: pubsub_v1.subscriber.message.Message) -> None:
        self.received.add(message.message_id)
        message.ack()

    def _publish(self) -> None:
        while not self._is_ending.is_set():
            try:
                self.answered.add(self._publisher.publish(TOPIC, b"x").result(timeout=PATIENCE_S))
            except Exception as error:
                self.failures.append(error)

    def goes_on(self) -> None:
        """Return when publishes that began after this call were answered."""
        before = len(self.answered)
        _until(lambda: len(self.answered) > before + 3, "no publish is answered")

    def end(self) -> None:
        """Stop publishing; return when all that was answered is delivered."""
        self._is_ending.set()
        self._thread.join(PATIENCE_S)
        _until(lambda: self.answered <= self.received, "what was answered is not delivered")
        self._stream.cancel()
        self._stream.result(timeout=PATIENCE_S)


def _until(is_so: Callable[[], bool], why_not: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, why_not
        time.sleep(0.02)


@pytest.mark.slow
def test_owners_come_and_go_under_a_flow(nodes: Nodes):
    """Killed, stopped, paused: the official client's own retries absorb all of it."""
    with ExitStack() as closing:
        first = nodes.owner()
        standbys = [node for name, node in nodes.by_name.items() if name != first]
        flow = Flow(standbys[0].endpoint, standbys[1].endpoint, closing)
        flow.goes_on()

        nodes.by_name[first].end(signal.SIGKILL)
        second = nodes.owner(but=first)
        flow.goes_on()
        nodes.by_name[first].start()

        # The owner may be the node that the flow goes through: others move it away first.
        told = subprocess.run(
            [*FANLOG, "cluster", "move", first],
            env=clean_environ() | {"PUBSUB_EMULATOR_HOST": nodes.by_name[first].endpoint},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        assert nodes.owner(but=second) == first
        flow.goes_on()

        os.kill(nodes.by_name[first].process.pid, signal.SIGSTOP)
        assert nodes.owner(but=first) != first
        flow.goes_on()
        os.kill(nodes.by_name[first].process.pid, signal.SIGCONT)

        assert nodes.by_name[first].end(signal.SIGTERM) == 0
        flow.goes_on()
        flow.end()
    assert flow.failures == []
