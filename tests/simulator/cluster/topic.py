"""The partition on virtual time, with what Kafka does to it.

`SimTopic` keeps all that was ever appended, for the judge; `SimPartition` is one node's access, and
takes time. The promises that hold are those of `fanlog.testing.kafka_partition`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from fanlog.log.replicated.partition import (
    Fetched,
    PartitionBounds,
    PartitionUnavailable,
    Produced,
    Uncertain,
)
from fanlog.testing.kafka_partition import KafkaTopic, ProduceFault
from simulator.cluster.temper import Temper
from simulator.cluster.turns import Turn, Turns

#: Between two attempts of the client.
_RETRY_S = 0.1

_IN_DOUBT = (
    ProduceFault.LOST,
    ProduceFault.ACK_LOST,
    ProduceFault.NO_OFFSET,
    ProduceFault.LATE,
    ProduceFault.COPY_LATE,
    ProduceFault.DOUBLED,
    ProduceFault.DOUBLED_SECOND,
    ProduceFault.DOUBLED_ACK_LOST,
)


class SimTopic(KafkaTopic):
    def __init__(
        self, turns: Turns, rng: random.Random, temper: Temper, *, wall_ns: Callable[[], int]
    ) -> None:
        super().__init__("simulated", wall_ns=wall_ns)
        self.turns, self.rng, self.temper = turns, rng, temper
        #: All records ever, those that were trimmed included, and when each was appended.
        self.history: list[Fetched] = []
        self.appended_s: list[float] = []
        #: There is no leader until then.
        self.down_until = 0.0
        #: Until then a new leader does not know that records from there on are committed.
        self.hidden_until = 0.0
        self.hidden_from = 0
        self.readers: list[Turn] = []
        #: Called after each record.
        self.on_append: Callable[[], None] = _nothing
        self.faults: Counter[str] = Counter()

    def change_leader(self, seconds: float) -> None:
        self.down_until = max(self.down_until, self.turns.now + seconds)
        self.hidden_until = self.down_until + self.rng.uniform(0.0, 1.0)
        self.hidden_from = max(0, len(self.history) - self.rng.randint(0, 3))

    @property
    def is_reachable(self) -> bool:
        return self.turns.now >= self.down_until

    @property
    def end(self) -> int:
        """As readers see it."""
        end = len(self.history)
        return min(end, self.hidden_from) if self.turns.now < self.hidden_until else end

    def come_late(self, value: bytes) -> None:
        """Append a record, some time from now."""
        self.turns.after(self.rng.expovariate(1 / self.temper.late_s), lambda: self._come(value))

    def _come(self, value: bytes) -> None:
        if self.is_reachable:
            self.put(value)
        else:
            self.turns.after(self.rng.uniform(0, 2), lambda: self._come(value))

    def _append(self, value: bytes) -> Fetched:
        record = super()._append(value)
        self.history.append(record)
        self.appended_s.append(self.turns.now)
        self.turns.wake_all(self.readers)
        self.on_append()
        return record


class SimPartition:
    """A `Partition` of one process."""

    def __init__(self, topic: SimTopic, is_cut: Callable[[], bool]) -> None:
        """`is_cut` says whether the node cannot reach Kafka just now."""
        self.cluster = topic.cluster
        self._topic = topic
        self._is_cut = is_cut

    def produce(self, value: bytes) -> Produced | Uncertain:
        topic, rng = self._topic, self._topic.rng
        deadline_s = topic.turns.now + topic.temper.delivery_s
        self._travel()
        while not self._reaches():
            if topic.turns.now >= deadline_s:
                if rng.random() < topic.temper.doubt:
                    topic.faults["late"] += 1
                    topic.come_late(value)
                return Uncertain("no answer in time")
            topic.turns.sleep(_RETRY_S)
        answer = self._append(value)
        if isinstance(answer, Produced):
            # The leader knows by now what is committed, or it would not acknowledge.
            self._topic.hidden_until = 0.0
        self._travel()
        while isinstance(answer, Produced) and not self._reaches():
            # The producer asks again, and is told that its record is there.
            if topic.turns.now >= deadline_s:
                return Uncertain("the acknowledgement did not come")
            topic.turns.sleep(_RETRY_S)
        return answer

    def reset_producer(self) -> None:
        pass

    def fetch(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        topic = self._topic
        deadline_s = topic.turns.now + wait_s
        self._travel()
        while True:
            self._reach(deadline_s)
            if offset < topic.end or offset > len(topic.history) or offset < topic.bounds().start:
                found = topic.fetch(offset, min(max_bytes, topic.temper.fetch_bytes), 0.0)
                found = [record for record in found if record.offset < topic.end]
                self._travel()
                return found
            left_s = deadline_s - topic.turns.now
            if left_s <= 0:
                return []
            topic.turns.park(topic.readers, min(left_s, 0.5))

    def bounds(self, *, wait_s: float) -> PartitionBounds:
        self._travel()
        self._reach(self._topic.turns.now + wait_s)
        bounds = PartitionBounds(self._topic.bounds().start, self._topic.end)
        self._travel()
        return bounds

    def delete_before(self, offset: int) -> None:
        topic = self._topic
        self._travel()
        self._reach(topic.turns.now + 1.0)
        topic.delete_before(min(offset, topic.end))
        self._travel()
        if topic.rng.random() < topic.temper.doubt:
            raise PartitionUnavailable("the answer did not come")

    def close(self) -> None:
        pass

    def _reaches(self) -> bool:
        return self._topic.is_reachable and not self._is_cut()

    def _travel(self) -> None:
        topic = self._topic
        topic.turns.sleep(topic.rng.uniform(0.2, 2.0) * topic.temper.trip_s)

    def _reach(self, deadline_s: float) -> None:
        topic = self._topic
        while not self._reaches():
            if topic.turns.now >= deadline_s:
                raise PartitionUnavailable("there is no leader, or no way to it")
            topic.turns.sleep(min(_RETRY_S, max(0.01, deadline_s - topic.turns.now)))

    def _append(self, value: bytes) -> Produced | Uncertain:
        topic = self._topic
        if topic.rng.random() >= topic.temper.doubt:
            return topic.produce(value)
        fault = topic.rng.choice(_IN_DOUBT)
        topic.faults[fault.name.lower()] += 1
        if fault is ProduceFault.LATE:
            topic.come_late(value)
            answer: Produced | Uncertain = Uncertain("the acknowledgement did not come")
        elif fault is ProduceFault.COPY_LATE:
            topic.script(ProduceFault.ACK_LOST)
            answer = topic.produce(value)
            topic.come_late(value)
        else:
            topic.script(fault)
            answer = topic.produce(value)
        if isinstance(answer, Uncertain):
            topic.turns.sleep(topic.rng.uniform(0.05, 1.0) * topic.temper.delivery_s)
        return answer


def _nothing() -> None:
    pass
