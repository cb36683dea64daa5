"""How long publishers wait when the owner of a cluster's log is killed, or leaves.

Two nodes and a Kafka of one node run on this machine. A publisher of one message at a time goes
through the node that does not own, and tries again at once, as official clients do.
`python -m bench.fail_over 3 1000000 10000` prints what it found.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import grpc

from bench.kafka import Kafka
from bench.servers import Fanlog
from bench.session import Stalled

BUILD = Path(__file__).resolve().parent.parent / "build"
TOPICS = 100
BATCH = 1_000
#: Calls under way while the log is filled.
AHEAD = 32
#: Longest that a publisher is let wait.
PAUSE_S_MAX = 60.0
#: The publisher publishes so long before the owner goes, and after another one is there.
STEADY_S = 2.0
_CALL_S = 60.0


class Member(Fanlog):
    """A node of the cluster, in a folder of its own."""

    is_durable = False

    def __init__(self, folder: Path, kafka: Kafka, name: str, session_s: float) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.label = name
        self._kafka = kafka
        self._session_s = session_s

    def _command(self) -> list[str]:
        cluster = ["--kafka", self._kafka.servers, "--cluster", "bench", "--node", self.label]
        cluster += ["--kafka-replicas", "1", "--session", str(self._session_s), "--link-port", "0"]
        return [*super()._command(), *cluster]

    def kill(self) -> None:
        for process in self.processes():
            process.kill()

    def leave(self) -> None:
        """Tell it to end; it has ended when this returns."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PAUSE_S_MAX)


class Publisher:
    """Publishes one message at a time on a thread; remembers its longest wait for one."""

    def __init__(self, endpoint: str) -> None:
        self.longest_s = 0.0
        self.count = 0
        self.errors = 0
        self._channel = grpc.insecure_channel(endpoint)
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_ending.set()
        self._thread.join(PAUSE_S_MAX)
        self._channel.close()

    def await_progress(self, since: int) -> None:
        """Return when more is published than `since`, the message under way then included."""
        end_s = time.monotonic() + PAUSE_S_MAX
        while self.count <= since + 1:
            if time.monotonic() > end_s:
                raise Stalled(f"nothing was published for {PAUSE_S_MAX:.0f} s")
            time.sleep(0.01)

    def _run(self) -> None:
        call = verb(self._channel, "Publisher/Publish")
        request = publish_request("topic0", 1)
        before = time.monotonic()
        while not self._is_ending.is_set():
            try:
                call(request, timeout=_CALL_S)
            except grpc.RpcError:
                self.errors += 1
                time.sleep(0.02)
                continue
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before)
            self.count += 1
            before = now


def verb(channel: grpc.Channel, name: str) -> Any:
    return channel.unary_unary(f"/google.pubsub.v1.{name}")


def publish_request(topic: str, count: int) -> bytes:
    messages = [gapic.PubsubMessage(data=b"x" * 64)] * count
    wanted = gapic.PublishRequest(topic=f"projects/bench/topics/{topic}", messages=messages)
    found: bytes = gapic.PublishRequest.serialize(wanted)
    return found


def fill(endpoint: str, messages: int, subscriptions: int) -> None:
    """Make topics, subscriptions and messages."""
    with grpc.insecure_channel(endpoint) as channel:
        _call_all(
            verb(channel, "Publisher/CreateTopic"),
            [gapic.Topic.serialize(gapic.Topic(name=topic_name(i))) for i in range(TOPICS)],
        )
        _call_all(
            verb(channel, "Subscriber/CreateSubscription"),
            [
                gapic.Subscription.serialize(
                    gapic.Subscription(
                        name=f"projects/bench/subscriptions/sub{i}", topic=topic_name(i % TOPICS)
                    )
                )
                for i in range(subscriptions)
            ],
        )
        requests = [publish_request(f"topic{i}", BATCH) for i in range(TOPICS)]
        _call_all(
            verb(channel, "Publisher/Publish"),
            [requests[i % TOPICS] for i in range(messages // BATCH)],
        )


def topic_name(number: int) -> str:
    return f"projects/bench/topics/topic{number}"


def _call_all(call: Any, requests: Sequence[bytes]) -> None:
    under_way: deque[Any] = deque()
    for request in requests:
        if len(under_way) == AHEAD:
            under_way.popleft().result()
        under_way.append(call.future(request, timeout=_CALL_S))
    for one in under_way:
        one.result()


def longest_pause(other: Member, end: Callable[[], None]) -> tuple[float, int]:
    """The longest wait of a publisher through `other` while the owner ends; errors it saw."""
    publisher = Publisher(other.endpoint)
    try:
        publisher.await_progress(0)
        time.sleep(STEADY_S)
        publisher.longest_s = 0.0
        end()
        # The owner is gone: what is answered from here on comes from the node that is left, but for
        # the call that is under way.
        publisher.await_progress(publisher.count)
        time.sleep(STEADY_S)
    finally:
        publisher.stop()
    return publisher.longest_s, publisher.errors


def measure(session_s: float, messages: int, subscriptions: int) -> dict[str, float]:
    """Longest pauses in seconds: the owner is told to end, and the next one is killed."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-fail-over-", dir=BUILD) as place:
        folder = Path(place)
        kafka = Kafka(folder / "kafka")
        members: list[Member] = []
        try:
            kafka.start()
            for name in ("first", "second"):
                members.append(Member(folder / name, kafka, name, session_s))
                members[-1].start()
            first, second = members
            fill(first.endpoint, messages, subscriptions)
            told_s, told_errors = longest_pause(second, first.leave)
            first.stop()
            first.start()
            # It is caught up before the next owner goes.
            time.sleep(2 * session_s + STEADY_S)
            killed_s, killed_errors = longest_pause(first, second.kill)
        finally:
            for member in members:
                member.stop()
            kafka.stop()
    return {
        "told_s": told_s,
        "told_errors": told_errors,
        "killed_s": killed_s,
        "killed_errors": killed_errors,
    }


if __name__ == "__main__":
    print(measure(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
