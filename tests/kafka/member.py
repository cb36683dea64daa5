"""A node of a race: a log of its own on the partition, which it takes over whenever it can.

A program: it follows, takes over when nothing came for a moment or when it is told to (SIGUSR1),
and then commits as fast as it can until the log says that its term is over. Each event is a line
of JSON in a file, written before the next thing is done.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from fanlog import limits
from fanlog.errors import CommitFailed
from fanlog.log.api import Commit
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated import entries
from fanlog.log.replicated.partition import Produced, Uncertain
from fanlog.log.replicated.replicated import ReplicatedLog

#: Silence after which a node takes over, if it was not just unlucky.
SILENCE_S = (0.4, 1.2)
_TICK_S = 0.02


class TrustingPartition(KafkaPartition):
    """Planted bug: the acknowledged offset is taken for the expected one."""

    def produce(self, value: bytes) -> Produced | Uncertain:
        outcome = super().produce(value)
        if isinstance(outcome, Uncertain):
            return outcome
        expected = entries.decode(entries.cluster_tag(self.cluster), value).head.expected
        return outcome if expected < 0 else outcome._replace(offset=expected)


class Member:
    """The node, and the file of its events."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._name = str(given.name)
        self._chance = random.Random(given.seed)
        self._events = os.open(given.events, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._is_told = False
        kind = TrustingPartition if given.trusting else KafkaPartition
        options = KafkaOptions(
            servers=given.servers, cluster=given.cluster, delivery_s=given.delivery_s
        )
        topic_id = prepare_topic(options, wait_s=60).topic_id
        self._log = ReplicatedLog(
            given.cache,
            lambda: kind(options, topic_id),
            self._name.encode(),
            on_change=lambda: None,
        )

    def run(self) -> None:
        signal.signal(signal.SIGUSR1, self._tell)
        self._say("begins")
        while True:
            self._log.start_following()
            self._follow()
            self._is_told = False
            if self._log.take_over():
                self._own()

    def _follow(self) -> None:
        silence_s, since_s = self._chance.uniform(*SILENCE_S), time.monotonic()
        applied_offset = -1
        while not self._is_told and time.monotonic() - since_s < silence_s:
            standing = self._log.standing
            if standing.role == "failed":
                self._say("failed", sentence=standing.sentence)
                raise SystemExit(1)
            if standing.applied_offset != applied_offset:
                applied_offset, since_s = standing.applied_offset, time.monotonic()
            time.sleep(_TICK_S)

    def _own(self) -> None:
        term = self._log.standing.term
        self._say("owns", term=term)
        while True:
            sequence, began_s = self._log.last_sequence + 1, time.monotonic()
            size = self._chance.choice([10, 1_000, 50_000])
            commit = Commit(
                sequence=sequence,
                publish_time_ns=max(time.time_ns(), self._log.last_publish_time_ns),
                state={b"last": f"{self._name} ".encode() + os.urandom(size)},
            )
            try:
                self._log.commit(commit)
            except CommitFailed as error:
                self._say("steps down", term=term, sequence=sequence, sentence=str(error))
                return
            self._say("committed", term=term, sequence=sequence, began_s=began_s)

    def _tell(self, *_: object) -> None:
        self._is_told = True

    def _say(self, event: str, **facts: Any) -> None:
        line = {"event": event, "name": self._name, "at_s": time.monotonic(), **facts}
        os.write(self._events, json.dumps(line).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "cluster", "name", "events"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--delivery-s", type=float, default=limits.KAFKA_DELIVERY_S)
    parser.add_argument("--trusting", action="store_true")
    Member(parser.parse_args()).run()


if __name__ == "__main__":
    main()
