"""A mixed load for hours, with restarts: `make soak`, two hours unless SOAK_MINUTES says otherwise.

The time is divided into rounds. In each, publishers publish while official clients receive, pull,
nack and dead-letter, and resources come and go; then everything is drained and the round's history
is held to the promises. In the first rounds the server is stopped and killed again and again. In
the others it lives on, and at the end of each, when it holds nothing, its memory, descriptors and
file are measured: they must not grow.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptance.served import Served
from chaos.measure import MIB, await_drained, descriptor_count, memory_bytes, thread_count
from chaos.official import Load
from chaos.proxy import Proxy
from crash.world import Clients, subscription_name, topic_name
from fanlog.log.folder import DATA_NAME
from fanlog.testing.history import History

ROUND_S_MAX = 300.0
ROUNDS_MIN = 3
#: Of all rounds, those in which the server is stopped and killed.
RESTARTING = 1 / 3
#: Between two ends of the server.
LIFE_S = (2.0, 20.0)
#: What may come on top of a tenth: caches fill up, and the allocator keeps some of what was freed.
MEMORY_SLACK_BYTES = 24 * MIB
FILE_SLACK_BYTES = 32 * MIB
DESCRIPTOR_SLACK = 16
KEYS = [f"key-{number}" for number in range(8)]

SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain-stream": {"topic": "plain"},
    "plain-once": {"topic": "plain", "enable_exactly_once_delivery": True},
    "plain-pull": {"topic": "plain"},
    "plain-doomed": {
        "topic": "plain",
        "dead_letter_policy": {
            "dead_letter_topic": topic_name("letters"),
            "max_delivery_attempts": 2,
        },
    },
    "letters": {"topic": "letters"},
    "ordered-stream": {"topic": "ordered", "enable_message_ordering": True},
}


@dataclass(slots=True)
class Outcome:
    """What a run came to; `wrong` is empty when all was well."""

    rounds: int = 0
    published: int = 0
    delivered: int = 0
    restarts: int = 0
    #: Memory, descriptors and file size at the ends of rounds without restarts.
    memory_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    file_bytes: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Soak:
    def __init__(self, place: Path, seed: int, say: Callable[[str], object]) -> None:
        self._random = random.Random(seed)
        self._say = say
        self._served = Served(place / "data", place / "server.log")
        self._served.start()
        self._proxy = Proxy(self._served.endpoint)
        self._load = Load(self._proxy.endpoint, seed)
        self.outcome = Outcome()

    def run(self, seconds: float) -> Outcome:
        self._create()
        self._begin()
        count = max(ROUNDS_MIN, round(seconds / ROUND_S_MAX))
        restarting = max(1, int(count * RESTARTING))
        for number in range(count):
            self._round(seconds / count, restarts=number < restarting)
            if self.outcome.wrong:
                return self.outcome
        self._load.close()
        self.outcome.wrong += judge_growth(self.outcome)
        status, _ = self._served.stop()
        if status != 0:
            self.outcome.wrong.append(f"the server ended with status {status}")
        return self.outcome

    def close(self) -> None:
        self._proxy.close()
        self._served.close()

    def _create(self) -> None:
        clients = Clients(self._served.endpoint)
        for topic in ("plain", "ordered", "letters"):
            clients.publisher.create_topic(name=topic_name(topic))
        for name, fields in SUBSCRIPTIONS.items():
            request = fields | {
                "name": subscription_name(name),
                "topic": topic_name(fields["topic"]),
            }
            clients.subscriber.create_subscription(request=request)
        clients.channel.close()

    def _begin(self) -> None:
        load = self._load
        load.subscribe("plain-stream")
        load.subscribe("plain-once", exactly_once=True)
        load.subscribe("ordered-stream")
        load.pull("plain-pull", nacks=0.05)
        load.pull("plain-doomed", nacks=0.0, is_doomed=is_doomed)
        load.pull("letters", nacks=0.0)
        load.churn()

    def _round(self, seconds: float, *, restarts: bool) -> None:
        load = self._load
        load.history = History()
        load.publish("plain", pause_s=0.1)
        load.publish("ordered", KEYS, pause_s=0.1)
        end_s = time.monotonic() + seconds
        pause = threading.Event()
        while (left_s := end_s - time.monotonic()) > 0:
            if not restarts:
                pause.wait(left_s)
                break
            pause.wait(min(left_s, self._random.uniform(*LIFE_S)))
            self._restart()
        load.stop_publishing()
        await_drained(self._served, lambda name: "churn" not in name)
        self._note(load.history, restarts=restarts)

    def _restart(self) -> None:
        number = self._random.choice([signal.SIGKILL, signal.SIGTERM])
        self._served.stop(number)
        self._served.start()
        self._proxy.target = self._served.endpoint
        # A connection to a server that is gone may not notice; a network would not tell either.
        self._proxy.cut(reset=True)
        self.outcome.restarts += 1

    def _note(self, history: History, *, restarts: bool) -> None:
        outcome = self.outcome
        outcome.rounds += 1
        outcome.published += history.published_count("plain") + history.published_count("ordered")
        outcome.delivered += sum(history.delivered_count(name) for name in SUBSCRIPTIONS)
        outcome.wrong += judge_history(history)
        served = self._served
        memory, descriptors = memory_bytes(served), descriptor_count(served)
        file_bytes = (served.data_dir / DATA_NAME).stat().st_size
        if not restarts:
            outcome.memory_bytes.append(memory)
            outcome.descriptors.append(descriptors)
            outcome.file_bytes.append(file_bytes)
        self._say(
            f"round {outcome.rounds}: {outcome.published} published, {outcome.delivered} "
            f"delivered, {outcome.restarts} restarts; memory {memory / MIB:.1f} MiB, "
            f"{descriptors} descriptors, {thread_count(served)} threads, "
            f"file {file_bytes / MIB:.1f} MiB"
        )


def is_doomed(message: Any) -> bool:
    return zlib.crc32(message.data) % 8 == 0


def judge_history(history: History) -> list[str]:
    wrong = []
    for name, fields in SUBSCRIPTIONS.items():
        if name != "letters":
            wrong += history.lost(fields["topic"], name)
            wrong += history.altered(fields["topic"], name)
    wrong += history.came_back("plain-once")
    wrong += history.unordered_ids("ordered")
    wrong += history.out_of_order("ordered", "ordered-stream")
    wrong += history.dead_letters_lost("plain", "plain-doomed", "letters")
    wrong += history.dead_letters_doubled("plain-doomed", "letters")
    return wrong


def judge_growth(outcome: Outcome) -> list[str]:
    """Compare the first third of what was measured with the last."""
    slacks = {
        "memory": (outcome.memory_bytes, MEMORY_SLACK_BYTES),
        "descriptors": (outcome.descriptors, DESCRIPTOR_SLACK),
        "file": (outcome.file_bytes, FILE_SLACK_BYTES),
    }
    wrong = []
    for name, (values, slack) in slacks.items():
        third = max(1, len(values) // 3)
        before, after = statistics.median(values[:third]), statistics.median(values[-third:])
        if after > before * 1.1 + slack:
            wrong.append(f"{name} grew from {before:.0f} to {after:.0f}")
    return wrong


def soak(minutes: float, seed: int, say: Callable[[str], object]) -> Outcome:
    """Run, and leave nothing behind if all was well."""
    place = Path(tempfile.mkdtemp(prefix="fanlog-soak-"))
    soak = Soak(place, seed, say)
    try:
        outcome = soak.run(minutes * 60)
    finally:
        soak.close()
    if outcome.wrong:
        say(f"left for you to look at: {place}")
    else:
        shutil.rmtree(place)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    logging.getLogger("google.cloud.pubsub_v1").setLevel(logging.CRITICAL)

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    say(f"soak for {options.minutes:g} minutes, seed {options.seed}")
    outcome = soak(options.minutes, options.seed, say)
    for sentence in outcome.wrong:
        say(f"WRONG: {sentence}")
    if outcome.wrong:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
        say(
            f"commit {commit.stdout.strip()}; again with: make soak "
            f"SOAK_MINUTES={options.minutes:g} SOAK_ARGS='--seed {options.seed}'"
        )
    else:
        say("all promises kept; memory, descriptors and file did not grow")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
