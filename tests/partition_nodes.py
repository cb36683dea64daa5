"""Nodes without threads on a partition in memory: their steps, one operation at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from entry_samples import make_commit
from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated import steps
from fanlog.log.replicated.partition import Fetched, PartitionUnavailable
from fanlog.log.replicated.steps import AppendOutcome
from fanlog.log.replicated.story import Story, ToldEntry, new_facts
from fanlog.testing.kafka_partition import KafkaTopic, MemoryPartition

FETCH_BYTES = 1_000


class StepsNode:
    """One node: a story, and the steps it is in the middle of."""

    def __init__(self, topic: KafkaTopic, name: str) -> None:
        self.name = name
        self.partition = MemoryPartition(topic)
        self.story = Story(topic.cluster, new_facts(0))
        self.applied: list[ToldEntry] = []
        self.is_owner = False
        self._nonces = 0
        self._running: Generator[steps.Operation, Any, Any] | None = None
        self._pending: steps.Operation | None = None

    @property
    def is_busy(self) -> bool:
        return self._running is not None

    def start(self, running: Generator[steps.Operation, Any, Any]) -> None:
        assert self._running is None
        self._running = running
        self._pending = next(running)

    def take_over_steps(self) -> steps.Steps[int | None]:
        self._nonces += 1
        name = self.name.encode()
        nonce = b"%s-%d" % (name, self._nonces)
        return steps.take_over(
            self.story,
            card=name,
            identity=name.ljust(16, b"."),
            nonce=nonce.ljust(16, b"."),
        )

    def commit_steps(self, *messages: bytes) -> steps.Steps[AppendOutcome]:
        return steps.append(self.story, self.next_commit(*messages))

    def next_commit(self, *messages: bytes) -> EncodedCommit:
        facts = self.story.facts
        time_ns = max(facts.publish_time_ns, 1)
        return make_commit(facts.sequence + 1, *messages, publish_time_ns=time_ns)

    def step(self) -> tuple[Any] | None:
        """Carry out one operation; the result of the steps in a tuple, once they are over."""
        assert self._running is not None
        assert self._pending is not None
        try:
            try:
                result = self._carry_out(self._pending)
            except PartitionUnavailable as error:
                self._pending = self._running.throw(error)
            else:
                self._pending = self._running.send(result)
        except StopIteration as end:
            self._running = None
            return (end.value,)
        except BaseException:
            self._running = None
            raise
        return None

    def run(self, running: Generator[steps.Operation, Any, Any]) -> Any:
        self.start(running)
        while (result := self.step()) is None:
            pass
        return result[0]

    def take_over(self) -> bool:
        self.is_owner = self.run(self.take_over_steps()) is not None
        return self.is_owner

    def commit(self, *messages: bytes) -> AppendOutcome:
        outcome: AppendOutcome = self.run(self.commit_steps(*messages))
        return outcome

    def follow(self) -> None:
        """Read to the end."""
        end = self.partition.bounds(wait_s=0).end
        if self.story.facts.next_offset < end:
            self.run(steps.read_to(self.story, end))

    def _carry_out(self, operation: steps.Operation) -> Any:
        match operation:
            case steps.Produce():
                return self.partition.produce(operation.value)
            case steps.ResetProducer():
                return self.partition.reset_producer()
            case steps.ReadEnd():
                return self.partition.bounds(wait_s=0).end
            case steps.Fetch():
                return self.partition.fetch(operation.offset, max_bytes=FETCH_BYTES, wait_s=0)
            case steps.Apply():
                self.applied += operation.told
        return None


def reader_of(topic: KafkaTopic) -> StepsNode:
    """A node that has read all there is; raises if the story is broken."""
    node = StepsNode(topic, "reader")
    node.follow()
    return node


def fetched(*values: bytes, first: int = 0) -> list[Fetched]:
    return [Fetched(first + index, 1_000, value) for index, value in enumerate(values)]
