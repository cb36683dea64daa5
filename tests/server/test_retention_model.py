"""Random lives of subscriptions, held to a naive model: what should be readable is, always.

The model keeps, for every subscription and snapshot, the plain set of what is unacknowledged. After
every step what the server hands out must be exactly that, and nothing that anybody needs may lie
below the start of the log.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from server.conftest import PROJECT, RunningServer, StartServer
from server.unique import unique

#: Topics that say nothing keep nothing here: what the default adds is in `test_default_retention`.
SETTINGS = {"topic_retention": 0.0}


STEPS = 150
MINUTE_S = 60
RETENTIONS_S = (10 * MINUTE_S, 30 * MINUTE_S, 120 * MINUTE_S)
#: Published in one life: all of it fits into one answer.
MESSAGES_MAX = 900


@dataclass
class Reader:
    """A subscription as the model sees it."""

    retention_s: int
    retain_acked: bool
    unacked: set[int]

    def floor(self, end: int) -> int:
        return min(self.unacked, default=end)


@dataclass
class Remembered:
    """A snapshot: what was unacknowledged, and where the log ended."""

    unacked: set[int]
    end: int

    def floor(self) -> int:
        return min(self.unacked, default=self.end)


@dataclass
class Model:
    topic_retention_s: int | None
    #: Publish time of each message.
    times: list[int] = field(default_factory=list)
    #: First message that is still in the log.
    start: int = 0
    readers: dict[str, Reader] = field(default_factory=dict)
    snapshots: dict[str, Remembered] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.times)

    def first_at(self, time: int) -> int:
        """First message in the log that was published at or after a time."""
        return next((n for n in range(self.start, self.end) if self.times[n] >= time), self.end)

    def retained_from(self, reader: Reader, now: int) -> int:
        found = [self.end]
        if reader.retain_acked:
            found.append(self.first_at(now - reader.retention_s))
        if self.topic_retention_s is not None:
            found.append(self.first_at(now - self.topic_retention_s))
        return min(found)

    def sweep(self, now: int) -> None:
        for reader in self.readers.values():
            longest_s = max(reader.retention_s, self.topic_retention_s or 0)
            horizon = self.first_at(now - longest_s)
            reader.unacked = {n for n in reader.unacked if n >= horizon}
        needed = [self.end]
        if self.topic_retention_s is not None:
            needed.append(self.first_at(now - self.topic_retention_s))
        for reader in self.readers.values():
            needed.append(reader.floor(self.end))
            if reader.retain_acked:
                needed.append(self.first_at(now - reader.retention_s))
        needed += [snapshot.floor() for snapshot in self.snapshots.values()]
        self.start = max(self.start, min(needed))

    def seek_to_time(self, reader: Reader, time: int, now: int) -> None:
        target, retained = self.first_at(time), self.retained_from(reader, now)
        reader.unacked = {
            n for n in range(target, self.end) if n >= retained or n in reader.unacked
        }

    def seek_to_snapshot(self, reader: Reader, snapshot: Remembered) -> None:
        reader.unacked = snapshot.unacked | set(range(snapshot.end, self.end))


class Life:
    """One random life: the same steps on the server and on the model."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        self.server = server
        self.chance = random.Random(seed)
        retention_s = self.chance.choice((None, None, 20 * MINUTE_S, 60 * MINUTE_S))
        fields = {"message_retention_duration": Duration(seconds=retention_s or 0)}
        self.topic = server.topic(**(fields if retention_s else {}))
        self.model = Model(retention_s)

    def step(self) -> str:
        verbs = [
            self.publish, self.publish, self.publish, self.acknowledge, self.acknowledge,
            self.acknowledge, self.subscribe, self.unsubscribe, self.snapshot, self.forget,
            self.seek_to_time, self.seek_to_snapshot, self.configure, self.wait, self.wait,
        ]  # fmt: skip
        verb = self.chance.choice(verbs)
        verb()
        return verb.__name__

    def check(self, after: str) -> None:
        """What each subscription hands out is what the model says."""
        for name, reader in self.model.readers.items():
            received = self.server.pull(name)
            found = sorted(int(one.message.data) for one in received)
            assert found == sorted(reader.unacked), (after, name)
            if received:
                self.server.nack(name, received)
        [partition] = self.server.broker.hard.catalog.topic(self.topic).partitions
        assert self.server.store.bounds(partition).start <= self.model.start

    # Steps.

    def publish(self) -> None:
        model = self.model
        count = min(self.chance.randrange(1, 12), MESSAGES_MAX - model.end)
        if count:
            self.server.publish(self.topic, *[b"%d" % (model.end + n) for n in range(count)])
            for reader in model.readers.values():
                reader.unacked |= set(range(model.end, model.end + count))
            model.times += [self._now()] * count

    def acknowledge(self) -> None:
        for name, reader in self._some_reader():
            received = self.server.pull(name, max_messages=self.chance.randrange(1, 60))
            acked = [one for one in received if self.chance.random() < 0.7]
            if acked:
                self.server.ack(name, acked)
            self.server.nack(name, received) if received else None
            reader.unacked -= {int(one.message.data) for one in acked}

    def subscribe(self) -> None:
        if len(self.model.readers) == 4:
            return
        is_earliest = self.chance.random() < 0.5
        reader = Reader(
            self.chance.choice(RETENTIONS_S),
            self.chance.random() < 0.4,
            set(range(self.model.start, self.model.end)) if is_earliest else set(),
        )
        name = self.server.subscription(
            self.topic,
            message_retention_duration=Duration(seconds=reader.retention_s),
            retain_acked_messages=reader.retain_acked,
            labels={"fanlog-start": "earliest"} if is_earliest else {},
        )
        self.model.readers[name] = reader

    def unsubscribe(self) -> None:
        if len(self.model.readers) > 2:
            [(name, _)] = self._some_reader()
            self.server.subscriber.delete_subscription(subscription=name)
            del self.model.readers[name]

    def snapshot(self) -> None:
        for subscription, reader in self._some_reader():
            name = f"projects/{PROJECT}/snapshots/{unique('model')}"
            self.server.subscriber.create_snapshot(name=name, subscription=subscription)
            self.model.snapshots[name] = Remembered(set(reader.unacked), self.model.end)

    def forget(self) -> None:
        if len(self.model.snapshots) > 2:
            name = self.chance.choice(sorted(self.model.snapshots))
            self.server.subscriber.delete_snapshot(snapshot=name)
            del self.model.snapshots[name]

    def seek_to_time(self) -> None:
        for name, reader in self._some_reader():
            time = self._now() - self.chance.randrange(-100, 150 * MINUTE_S)
            self._seek(name, time=Timestamp(seconds=time))
            self.model.seek_to_time(reader, time, self._now())

    def seek_to_snapshot(self) -> None:
        for name, reader in self._some_reader():
            if self.model.snapshots:
                snapshot = self.chance.choice(sorted(self.model.snapshots))
                self._seek(name, snapshot=snapshot)
                self.model.seek_to_snapshot(reader, self.model.snapshots[snapshot])

    def configure(self) -> None:
        for name, reader in self._some_reader():
            reader.retention_s = self.chance.choice(RETENTIONS_S)
            reader.retain_acked = self.chance.random() < 0.5
            self.server.subscriber.update_subscription(
                request={
                    "subscription": {
                        "name": name,
                        "message_retention_duration": Duration(seconds=reader.retention_s),
                        "retain_acked_messages": reader.retain_acked,
                    },
                    "update_mask": {
                        "paths": ["message_retention_duration", "retain_acked_messages"]
                    },
                }
            )

    def wait(self) -> None:
        self.server.advance(self.chance.choice((1, 5 * MINUTE_S, 15 * MINUTE_S)))
        self.server.sweep()
        self.model.sweep(self._now())

    def _now(self) -> int:
        assert self.server.clock is not None
        return int(self.server.clock.now())

    def _some_reader(self) -> list[tuple[str, Reader]]:
        readers = sorted(self.model.readers.items())
        return [self.chance.choice(readers)] if readers else []

    def _seek(self, subscription: str, **target: Any) -> None:
        self.server.subscriber.seek(request={"subscription": subscription} | target, retry=None)


@pytest.mark.parametrize("seed", range(4))
def test_what_should_be_readable_is(still_server, seed):
    life = Life(still_server, seed)
    for _ in range(STEPS):
        life.check(life.step())


def test_over_restarts(start_server: StartServer):
    server = start_server(clock=ManualClock())
    life = Life(server, 100)
    for number in range(STEPS):
        after = life.step()
        if number % 15 == 14:
            server.restart()
            after += " and a restart"
        life.check(after)
