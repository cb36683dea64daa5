"""A race of nodes for one partition of a real Kafka, with faults by chance; and what must hold.

1. Every commit that was answered is in the partition, and counts.
2. The commits that count are one chain, without a fork: the story can be read to its end.
3. No commit of a term was answered that began after a later term was known to its owner.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.kafka import Kafka, KafkaNode

from fanlog.log import envelope
from fanlog.log.encoded import EncodedCommit
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.partition import PartitionUnavailable
from fanlog.log.replicated.story import Story, new_facts
from kafka.changes import PATIENCE_S, are_all_in_sync, leader_of

Fault = Literal["rival", "kill", "pause", "kafka-kill", "kafka-pause"]

TESTS = Path(__file__).resolve().parents[1]
MEMBERS = 3
#: Longest pause of a node, and of a Kafka node.
PAUSE_S = 3.0
#: Commits that must be answered when the faults are over.
ENOUGH = 20
#: Longer than a race should take, it may not.
RACE_S = 120


@dataclass(slots=True)
class Findings:
    """The outcome of a race."""

    answered: int = 0
    counted: int = 0
    void: int = 0
    terms: int = 0
    #: Answered, and not there.
    lost: list[dict[str, Any]] = field(default_factory=list)
    #: Answered by an owner that was none any more.
    late: list[dict[str, Any]] = field(default_factory=list)
    #: Nodes that could not go on, with their sentences.
    failed: list[dict[str, Any]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


class Race:
    """Nodes as processes; `run` hurts them for a while, `check` reads what they left."""

    def __init__(
        self, kafka: Kafka, folder: Path, cluster: str, *, seed: int, trusting: bool = False
    ):
        self._kafka = kafka
        self._folder = folder
        self._options = KafkaOptions(servers=kafka.servers, cluster=cluster)
        self._chance = random.Random(seed)
        self._is_trusting = trusting
        self._events = folder / "events.jsonl"
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        #: What goes on again, and when.
        self._paused: list[tuple[float, Callable[[], None]]] = []
        self._faults: Counter[str] = Counter()
        self._topic_id = prepare_topic(self._options, wait_s=PATIENCE_S).topic_id

    def run(self, seconds: float, faults: tuple[Fault, ...], *, terms: int = 1) -> None:
        """Hurt the nodes for so long, and on a slow machine until there were so many terms."""
        try:
            for number in range(MEMBERS):
                self._spawn(f"node-{number}")
            self._await_commits(1)
            began_s = time.monotonic()
            while time.monotonic() < began_s + seconds or self._terms() < terms:
                assert time.monotonic() < began_s + seconds + RACE_S, self._faults
                time.sleep(self._chance.uniform(0.2, 1.2))
                self._resume(time.monotonic())
                self._hurt(self._chance.choice(faults))
            self._resume(float("inf"))
            self._kafka.heal()
            # Nodes that were paused find out; and without faults, commits are answered again.
            self._await_commits(ENOUGH)
        finally:
            for node in self._nodes.values():
                node.kill()
                node.wait(PATIENCE_S)

    def check(self) -> Findings:
        """Read the partition from its begin.

        Raises:
            StoryBroken: There is a fork.
        """
        events = self._told()
        committed = [each for each in events if each["event"] == "committed"]
        begins = {each["term"]: each["at_s"] for each in events if each["event"] == "owns"}
        found = Findings(
            answered=len(committed),
            terms=len(begins),
            failed=[each for each in events if each["event"] == "failed"],
            faults=self._faults,
        )
        counted = self._read(found)
        found.counted = len(counted)
        for each in committed:
            if counted.get(each["sequence"]) != (each["term"], each["name"]):
                found.lost.append(each)
            if any(term > each["term"] and at_s < each["began_s"] for term, at_s in begins.items()):
                found.late.append(each)
        return found

    def _read(self, found: Findings) -> dict[int, tuple[int, str]]:
        """The commits that count, by sequence: in which term, and by which node."""
        partition = KafkaPartition(self._options, self._topic_id)
        story = Story(self._options.cluster, new_facts(0))
        counted: dict[int, tuple[int, str]] = {}
        try:
            end = _patiently(lambda: partition.bounds(wait_s=PATIENCE_S)).end
            while (offset := story.facts.next_offset) < end:
                for record in _patiently(
                    lambda at=offset: partition.fetch(at, max_bytes=1 << 24, wait_s=PATIENCE_S)
                ):
                    told = story.read(record)
                    if isinstance(told.body, EncodedCommit):
                        assert told.entry is not None
                        counted[told.body.sequence] = (told.entry.head.term, _author(told.body))
        finally:
            partition.close()
        found.void = story.void_count
        return counted

    def _spawn(self, name: str) -> None:
        command = [sys.executable, "-m", "kafka.member", "--servers", self._options.servers]
        command += ["--cluster", self._options.cluster, "--name", name]
        command += ["--cache", str(self._folder / name), "--events", str(self._events)]
        command += ["--seed", str(self._chance.randrange(1 << 30)), "--delivery-s", "8"]
        command += ["--trusting"] if self._is_trusting else []
        with (self._folder / "log").open("ab") as log:
            self._nodes[name] = subprocess.Popen(
                command,
                cwd=TESTS,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _hurt(self, fault: Fault) -> None:
        if fault.startswith("kafka") and not self._is_kafka_well():
            return  # One of its nodes at a time, or there is no quorum.
        self._faults[fault] += 1
        owner = self._owner()
        if fault == "rival":
            rivals = [name for name in self._nodes if name != owner]
            self._nodes[self._chance.choice(rivals)].send_signal(signal.SIGUSR1)
        elif fault == "kill":
            self._nodes[owner].kill()
            self._nodes[owner].wait(PATIENCE_S)
            self._spawn(owner)
        elif fault == "pause":
            node = self._nodes[owner]
            node.send_signal(signal.SIGSTOP)
            self._later(lambda: node.send_signal(signal.SIGCONT))
        else:
            self._hurt_kafka(self._kafka.node(leader_of(self._kafka, self._options)), fault)

    def _is_kafka_well(self) -> bool:
        """A node that was started again is no help before it has the whole partition."""
        return all(
            node.is_up and not node.is_paused for node in self._kafka.nodes
        ) and are_all_in_sync(self._kafka, self._options)

    def _hurt_kafka(self, node: KafkaNode, fault: Fault) -> None:
        if fault == "kafka-kill":
            node.kill()
            self._later(node.launch)
        else:
            node.pause()
            self._later(node.resume)

    def _later(self, deed: Callable[[], None]) -> None:
        self._paused.append((time.monotonic() + self._chance.uniform(0.3, PAUSE_S), deed))

    def _resume(self, now_s: float) -> None:
        for due in [each for each in self._paused if each[0] <= now_s]:
            self._paused.remove(due)
            due[1]()

    def _await_commits(self, count: int) -> None:
        """Return when so many more commits were answered."""
        wanted, end_s = self._committed() + count, time.monotonic() + 2 * PATIENCE_S
        while self._committed() < wanted:
            assert time.monotonic() < end_s, (self._folder / "log").read_text()[-2_000:]
            time.sleep(0.05)

    def _committed(self) -> int:
        return sum(each["event"] == "committed" for each in self._told())

    def _terms(self) -> int:
        return sum(each["event"] == "owns" for each in self._told())

    def _owner(self) -> str:
        owners = [each["name"] for each in self._told() if each["event"] in ("owns", "committed")]
        return owners[-1] if owners else ""

    def _told(self) -> list[dict[str, Any]]:
        if not self._events.exists():
            return []
        # The last line of a node that was killed may be cut.
        lines = self._events.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]


def _author(commit: EncodedCommit) -> str:
    ((_, value),) = commit.state
    assert value is not None
    return envelope.decode(value).payload.split(b" ", 1)[0].decode()


def _patiently(ask: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + 2 * PATIENCE_S
    while True:
        try:
            return ask()
        except PartitionUnavailable:
            if time.monotonic() > end_s:
                raise
