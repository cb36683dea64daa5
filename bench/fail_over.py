"""How long publishers wait when the owner of a cluster's log is killed, or leaves.

Two nodes and a Kafka of one node run on this machine. A publisher of one message at a time goes
through the node that does not own, and tries again at once, as official clients do.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import google.pubsub_v1 as gapic
import grpc

from bench.kafka import KafkaMissing
from bench.members import Member, clustered
from bench.servers import Server
from bench.session import Sample, Stalled

TOPICS = 100
BATCH = 1_000
#: Calls under way while the log is filled.
AHEAD = 32
#: Longest that a publisher is let wait.
PAUSE_S_MAX = 60.0
#: The publisher publishes so long before the owner goes, and after another one is there.
STEADY_S = 2.0
_CALL_S = 60.0


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


def measure(_: Server, messages: int, *, session_s: float, subscriptions: int) -> Sample:
    """Longest pauses in seconds: the owner is told to end, and the next one is killed."""
    try:
        with clustered(1, session_s=session_s) as members:
            first, second = members.started("first"), members.started("second")
            fill(first.endpoint, messages, min(subscriptions, messages))
            second.await_part("standby")
            told_s, told_errors = longest_pause(second, first.leave)
            first.stop()
            first.start()
            # It is caught up before the next owner goes.
            time.sleep(2 * session_s + STEADY_S)
            killed_s, killed_errors = longest_pause(first, second.kill)
    except KafkaMissing as reason:
        return Sample(figures={}, notes=(f"left out: {reason}",))
    notes = (
        f"the publisher saw {told_errors} and {killed_errors} errors, and tried again at once",
    )
    return Sample(figures={"told": told_s, "killed": killed_s}, notes=notes)
