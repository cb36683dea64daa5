"""One measurement's dealings with a server: its resources, its patience, and the check after it.

A figure counts only when the run behind it was right: each message that was published came, once,
and none was left over.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

import grpc

from bench.api import BATCH_MESSAGES, PROJECT, Api, message_ids, publish_request, pull_request
from bench.meter import Cost
from bench.servers import Server

#: Longest that one measured step may take, and longest that it may stand still.
STEP_S = 600
STALL_S = 20


class Stalled(Exception):
    """A step took too long; the message says how far it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one measurement gave."""

    #: By the key of a figure; None for one that this server has not.
    figures: dict[str, float | None]
    #: Messages that `cost` was spent on; 0 when it is not spent on messages.
    messages: int = 0
    cost: Cost | None = None
    #: What was wrong with the run; a sample with any of these proves nothing.
    problems: tuple[str, ...] = ()
    #: What a reader of the figures should know.
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Patience:
    """Bounds a loop in time: `check` raises when it takes too long, or does not get on."""

    wanted: int
    done: int = 0
    _began: float = field(default_factory=time.monotonic)
    _progressed: float = field(default_factory=time.monotonic)

    def check(self, done: int) -> None:
        now = time.monotonic()
        if done > self.done:
            self.done, self._progressed = done, now
        if now - self._began > STEP_S or now - self._progressed > STALL_S:
            raise Stalled(f"{done:,} of {self.wanted:,} after {now - self._began:.0f} s")


class Session:
    """A connection and what was made over it, which a shared server gets rid of on exit."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = Api(server.endpoint, server.authority, server.token)
        self._topics: list[str] = []
        self._subscriptions: list[str] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.api.close()
        if self.server.is_shared:
            self._delete_all()

    def topic(self) -> str:
        name = f"{PROJECT}/topics/bench-{uuid.uuid4().hex[:12]}"
        self.api.create_topic(name)
        self._topics.append(name)
        return name

    def subscription(
        self, topic: str, *, wanted: str = "", push: str = "", is_once: bool = False
    ) -> str:
        """Make a subscription, with a filter `wanted` and an endpoint if there are; its name."""
        name = self.subscription_name()
        self.api.create_subscription(name, topic, wanted, push, is_once=is_once)
        return name

    def subscription_name(self) -> str:
        """A name for a subscription that is deleted with the session's own."""
        name = f"{PROJECT}/subscriptions/bench-{uuid.uuid4().hex[:12]}"
        self._subscriptions.append(name)
        return name

    def delete_subscriptions(self, names: Sequence[str]) -> None:
        self.api.in_parallel(8, self.api.delete_subscription, names)
        gone = set(names)
        self._subscriptions = [name for name in self._subscriptions if name not in gone]

    def fill(self, topic: str, count: int, size_bytes: int, in_flight: int = 4) -> list[str]:
        """Publish a backlog; the ids of its messages."""
        batch = min(BATCH_MESSAGES, count)
        request = publish_request(topic, count=batch, size_bytes=size_bytes)
        return message_ids(
            self.api.in_parallel(in_flight, self.api.publish, [request] * (count // batch))
        )

    def pull_all(self, subscription: str, count: int) -> list[str]:
        """Pull and acknowledge one answer after the other; the ids of the messages that came."""
        request = pull_request(subscription)
        received: list[str] = []
        patience = Patience(count)
        while len(received) < count:
            patience.check(len(received))
            messages = self.api.pull(request)
            if not messages:
                time.sleep(0.005)
                continue
            self.api.acknowledge(subscription, [message.ack_id for message in messages])
            received.extend([message.message.message_id for message in messages])
        return received

    def problems(
        self, subscription: str, published: Sequence[str], received: Sequence[str]
    ) -> tuple[str, ...]:
        """What is wrong when these came of those, and the subscription should be empty."""
        sent, came = set(published), set(received)
        left = len(self.api.pull(pull_request(subscription, max_messages=10)))
        counts = {
            "message ids given twice": len(published) - len(sent),
            "published messages that did not come": len(sent - came),
            "messages that nobody published": len(came - sent),
            "messages that came again": len(received) - len(came),
            "or more messages left over": left,
        }
        return tuple(f"{count:,} {what}" for what, count in counts.items() if count)

    def _delete_all(self) -> None:
        with Api(self.server.endpoint, self.server.authority, self.server.token) as api:
            try:
                api.in_parallel(8, api.delete_subscription, self._subscriptions)
                api.in_parallel(8, api.delete_topic, self._topics)
            except grpc.RpcError as error:
                print(f"not everything was deleted on {self.server.endpoint}: {error.code().name}")
