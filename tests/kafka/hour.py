"""A scripted hour of a cluster on a real Kafka of three nodes, with Google's clients all the time.

Every node and every Kafka node is killed once and started again, in turn, the owner and the leader
first; then an owner is told to end, one to hand the log over, and one is paused. Each act has an
equal part of the time. The publishers have no retries but the client's own. Afterwards the history
is held to the promises and to the partition, and `fanlog doctor` compares every cache with Kafka.

`python -m kafka.hour --minutes 60`, in `tests`; two minutes are a test.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.kafka import QUICK, Kafka, free_ports

from acceptance.served import FANLOG, PATIENCE_S, clean_environ
from chaos.official import LEASE_S, Load
from crash.world import Clients, subscription_name, topic_name
from fanlog.log.kafka.client import KafkaOptions
from fanlog.testing.history import History
from kafka.changes import are_all_in_sync, leader_of
from kafka.serving import NodeProcess, NodeProcesses, until
from kafka.steady import Attempts, SteadyPublisher
from kafka.tally import check_partition

CLUSTER = "hour"
NAMES = ("a", "b", "c")
#: The default of `fanlog serve`.
SESSION_S = 3.0
#: Who was killed is away for so long at most, and for a third of an act.
AWAY_S_MAX = 30.0
#: Messages a second of each publisher.
PER_S = 20.0
SEED = 18
KEYS = [f"key-{number}" for number in range(8)]
#: Of publishes, within the client's own retries.
SUCCESS_MIN = 0.9995

SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain-stream": {"topic": "plain"},
    "plain-once": {"topic": "plain", "enable_exactly_once_delivery": True},
    "ordered-once": {
        "topic": "ordered",
        "enable_message_ordering": True,
        "enable_exactly_once_delivery": True,
    },
    "deduped-once": {"topic": "deduped", "enable_exactly_once_delivery": True},
}


@dataclass(slots=True)
class Outcome:
    """What a run came to; `wrong` is empty when all promises were kept."""

    attempts: Attempts = field(default_factory=Attempts)
    #: The longest time without an answer to any publisher, by act.
    silences_s: dict[str, float] = field(default_factory=dict)
    #: The longest wait of one publish, by act.
    waits_s: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Hour:
    def __init__(
        self, kafka: Kafka, nodes: NodeProcesses, cluster: str, say: Callable[[str], object]
    ) -> None:
        self._kafka = kafka
        self._options = KafkaOptions(servers=kafka.servers, cluster=cluster)
        self._endpoints = [node.endpoint for node in nodes.by_name.values()]
        self._nodes = nodes
        self._say = say
        self._history = History()
        self._loads: list[Load] = []
        self._publishers: list[SteadyPublisher] = []
        #: Not killed yet.
        self._names = set(nodes.by_name)
        self._numbers = {node.number for node in kafka.nodes}
        self.outcome = Outcome()

    def run(self, seconds: float) -> Outcome:
        self._create()
        self._begin()
        acts = [self._kill_node, self._kill_kafka_node] * 3
        acts += [self._tell_owner, self._move, self._pause_owner]
        began_s, each_s = time.monotonic(), seconds / len(acts)
        for number, act in enumerate(acts):
            self._play(act, away_s=min(AWAY_S_MAX, each_s / 3))
            self._rest(began_s + (number + 1) * each_s)
        for publisher in self._publishers:
            publisher.stop()
        self._drain()
        self._end()
        return self.outcome

    # The load.

    def _create(self) -> None:
        clients = Clients(self._endpoints[0])
        for topic in ("plain", "ordered", "deduped"):
            clients.publisher.create_topic(name=topic_name(topic))
        for name, fields in SUBSCRIPTIONS.items():
            request = fields | {
                "name": subscription_name(name),
                "topic": topic_name(fields["topic"]),
            }
            clients.subscriber.create_subscription(request=request)
        clients.channel.close()

    def _begin(self) -> None:
        for number, name in enumerate(SUBSCRIPTIONS):
            load = Load(self._target(number % 3), SEED)
            load.history = self._history
            load.subscribe(name, exactly_once=name.endswith("-once"))
            self._loads.append(load)
        self._publish("plain", 0)
        self._publish("ordered", 1, keys=KEYS)
        self._publish("deduped", 2, attributes=lambda number: {"fanlog-dedup-id": str(number)})

    def _publish(self, topic: str, first: int, **how: Any) -> None:
        target, attempts = self._target(first), self.outcome.attempts
        self._publishers.append(
            SteadyPublisher(target, topic, self._history, attempts, per_s=PER_S, **how)
        )

    def _target(self, first: int) -> str:
        """The addresses of all nodes, from one of them on: gRPC takes the first that answers."""
        return "ipv4:" + ",".join(self._endpoints[first:] + self._endpoints[:first])

    # The acts: each gives its name, and all is well again when it returns.

    def _play(self, act: Callable[[float], str], *, away_s: float) -> None:
        attempts = self.outcome.attempts
        attempts.begin_act()
        what = f"{len(self.outcome.waits_s) + 1}. {act(away_s)}"
        self._nodes.await_standbys(len(self._endpoints) - 1)
        until(lambda: are_all_in_sync(self._kafka, self._options), "Kafka is not whole again")
        self._await_answers()
        self.outcome.silences_s[what] = attempts.silence_s
        self.outcome.waits_s[what] = attempts.longest_s
        self._say(
            f"{what}: longest silence {attempts.silence_s:.1f} s, longest wait of a publish "
            f"{attempts.longest_s:.1f} s; {attempts.answered} of {attempts.begun} answered, "
            f"{attempts.failures.total()} failed"
        )

    def _kill_node(self, away_s: float) -> str:
        owner = self._nodes.owner()
        name = owner if owner in self._names else min(self._names)
        self._names.remove(name)
        node = self._nodes[name]
        node.end(signal.SIGKILL)
        time.sleep(away_s)
        node.start()
        return f"node {name} killed{', the owner' if name == owner else ''}"

    def _kill_kafka_node(self, away_s: float) -> str:
        leader = leader_of(self._kafka, self._options)
        number = leader if leader in self._numbers else min(self._numbers)
        self._numbers.remove(number)
        self._kafka.node(number).kill()
        time.sleep(away_s)
        self._kafka.heal()
        return f"Kafka node {number} killed{', the leader' if number == leader else ''}"

    def _tell_owner(self, away_s: float) -> str:
        node = self._owning()
        status = node.end(signal.SIGTERM)
        if status != 0:
            self.outcome.wrong.append(f"node {node.name} ended with status {status}")
        time.sleep(away_s)
        node.start()
        return f"node {node.name} told to end, the owner"

    def _move(self, _: float) -> str:
        owner = self._nodes.owner()
        to = next(name for name in self._nodes.by_name if name != owner)
        self._nodes.make_owner(to)
        return f"the log moved from node {owner} to node {to}"

    def _pause_owner(self, away_s: float) -> str:
        node = self._owning()
        node.pause()
        try:
            time.sleep(max(away_s, 2 * SESSION_S))
            self._nodes.owner(but=node.name)
        finally:
            node.resume()
        return f"node {node.name} paused, the owner"

    def _owning(self) -> NodeProcess:
        return self._nodes[self._nodes.owner()]

    def _await_answers(self) -> None:
        """Return when publishes that begin from here on were answered."""
        attempts = self.outcome.attempts
        enough = attempts.begun + 3
        until(
            lambda: attempts.answered + attempts.failures.total() > enough, "no publish is answered"
        )

    def _rest(self, until_s: float) -> None:
        time.sleep(max(0.0, until_s - time.monotonic()))

    # The end.

    def _drain(self) -> None:
        """Return when all has come that was answered, or nothing more comes."""
        count, progressed_s = -1, time.monotonic()
        while time.monotonic() - progressed_s < PATIENCE_S and any(
            self._history.lost(fields["topic"], name) for name, fields in SUBSCRIPTIONS.items()
        ):
            if (came := self._delivered_count()) > count:
                count, progressed_s = came, time.monotonic()
            time.sleep(1)
        # What is judged below says what is missing. A lease that was lost comes back after this.
        time.sleep(LEASE_S + 2)

    def _delivered_count(self) -> int:
        return sum(self._history.delivered_count(name) for name in SUBSCRIPTIONS)

    def _end(self) -> None:
        outcome, attempts = self.outcome, self.outcome.attempts
        for load in self._loads:
            load.close()
        outcome.wrong += judge_history(self._history)
        if attempts.success < SUCCESS_MIN:
            outcome.wrong.append(
                f"{attempts.success:.3%} of publishes succeeded: {attempts.failures}"
            )
        check_partition(
            self._options,
            self._history,
            sorted({fields["topic"] for fields in SUBSCRIPTIONS.values()}),
            self._nodes.told_owners,
        )
        for node in self._nodes.by_name.values():
            if (status := node.end(signal.SIGTERM)) != 0:
                outcome.wrong.append(f"node {node.name} ended with status {status}")
            outcome.wrong += self._doctor(node)
        self._say(
            f"{attempts.answered} of {attempts.begun} publishes answered ({attempts.success:.4%}), "
            f"failures {dict(attempts.failures)}; longest wait {max(outcome.waits_s.values()):.1f} "
            f"s, longest silence {max(outcome.silences_s.values()):.1f} s; "
            f"{self._delivered_count()} deliveries"
        )

    def _doctor(self, node: NodeProcess) -> list[str]:
        """What `fanlog doctor` finds when it compares the node's cache with Kafka."""
        where = ["--data-dir", str(node.data_dir), "--cluster", self._options.cluster]
        told = subprocess.run(
            [*FANLOG, "doctor", *where, "--kafka", self._options.servers],
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE_S,
            check=False,
        )
        return [f"doctor of {node.name}: {told.stdout}{told.stderr}"] if told.returncode else []


def judge_history(history: History) -> list[str]:
    wrong = []
    for name, fields in SUBSCRIPTIONS.items():
        wrong += history.lost(fields["topic"], name)
        wrong += history.altered(fields["topic"], name)
        if name.endswith("-once"):
            wrong += history.came_back(name)
    wrong += history.unordered_ids("ordered")
    # Callbacks of a lease that was lost run in any order: see `sent_out_of_order`.
    wrong += history.sent_out_of_order("ordered", "ordered-once")
    wrong += history.acked_out_of_order("ordered", "ordered-once")
    wrong += history.came_as_two("deduped-once")
    return wrong


def play(
    kafka: Kafka, cluster: str, place: Path, seconds: float, say: Callable[[str], object]
) -> Outcome:
    """Play the script for about so long, with nodes of its own."""
    with ExitStack() as closing:
        nodes = NodeProcesses(kafka, cluster, place, closing)
        # Clients must find a node again that comes back.
        for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True):
            nodes.start(name, flags=["--port", str(port), "--session", str(SESSION_S)])
        nodes.await_standbys(len(NAMES) - 1)
        return Hour(kafka, nodes, cluster, say).run(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    logging.getLogger("google.cloud.pubsub_v1").setLevel(logging.CRITICAL)

    def say(text: str) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stdout.flush()

    place = Path(tempfile.mkdtemp(prefix="fanlog-hour-"))
    kafka = Kafka(place / "kafka", nodes=3, settings=QUICK)
    try:
        kafka.start()
        outcome = play(kafka, CLUSTER, place, options.minutes * 60, say)
    finally:
        kafka.stop()
    for sentence in outcome.wrong:
        say(f"WRONG: {sentence}")
    if outcome.wrong:
        say(f"left for you to look at: {place}")
        return 1
    shutil.rmtree(place)
    say("all promises kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
