"""The promises, and the story that they are judged by: the rules of validity, said another way.

`Truth` reads all that was ever appended. The rest is held against it: answers while the world is
lived (J1 to J3), and the caches of all nodes in the end (J4 to J6).

- J1: an acknowledged commit is there once; one that was fenced is not there.
- J2: commits that count form one chain, of owners of whose terms they are; publish time never runs
  backwards.
- J3: nobody answers from an older state than was answered or acknowledged before.
- J4: a node that the rules make take over has read to the end all the time: silence of Kafka
  deposes nobody, and a clock that is off serves nobody.
- J5: every cache, and that of a new node that begins where the partition does, is the story.
- J6: when all faults have ended, some node owns, answers and commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanlog.cluster.ownership import CLOCK_S_MAX, Seen
from fanlog.log import folder
from fanlog.log.encoded import EncodedCommit
from fanlog.log.envelope import Kind
from fanlog.log.replicated import entries
from fanlog.log.replicated.bodies import HandOver, TakeOver
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.resources import PartitionId
from fanlog.testing.author import ALL_BYTES
from simulator.cluster.writers import LAST, PARTITIONS, Attempt

if TYPE_CHECKING:
    from simulator.cluster.nodes import SimNode
    from simulator.cluster.topic import SimTopic
    from simulator.cluster.world import World

#: What the partition's clock and the way to it may add.
_CLOCK_SLACK_S = 1.0


@dataclass(slots=True)
class Model:
    """What a log has."""

    state: dict[bytes, bytes] = field(default_factory=dict)
    messages: dict[PartitionId, dict[int, bytes]] = field(default_factory=dict)
    starts: dict[PartitionId, int] = field(default_factory=dict)
    ends: dict[PartitionId, int] = field(default_factory=dict)

    def take(self, attempt: Attempt) -> None:
        for append in attempt.commit.appends:
            end = self.ends.get(append.partition, 0)
            assert append.base_offset == end, "it was made on another state"
            messages = attempt.appended[append.partition]
            self.ends[append.partition] = end + len(messages)
            self.messages.setdefault(append.partition, {}).update(enumerate(messages, end))
        for key, value in attempt.commit.state.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        for trim in attempt.commit.trims:
            start = max(self.starts.get(trim.partition, 0), trim.before)
            self.starts[trim.partition] = start
            kept = self.messages.get(trim.partition, {})
            self.messages[trim.partition] = {at: m for at, m in kept.items() if at >= start}


class Truth:
    """All that counts of what was appended so far."""

    def __init__(self, topic: SimTopic, attempts: dict[bytes, Attempt]) -> None:
        self._topic = topic
        self._tag = entries.cluster_tag(topic.cluster)
        self._attempts = attempts
        self._next = 0
        self.term = -1
        self.owner = b""
        self.is_open = False
        self.terms = 0
        self._chain = entries.NO_CHAIN
        self._time_ns = 0
        #: Names of the commits that count, by sequence.
        self.names: list[bytes] = [b""]
        self.model = Model()
        self.mistakes: list[str] = []
        #: When the last entry that counts was appended.
        self.last_s = 0.0

    def catch_up(self) -> None:
        while self._next < len(self._topic.history):
            record = self._topic.history[self._next]
            self._read(record.offset, entries.decode(self._tag, record.value))
            self._next += 1

    def _read(self, offset: int, entry: entries.LogEntry) -> None:
        head, body = entry.head, entry.body
        if head.term != self.term:
            return
        if isinstance(body, TakeOver):
            self.term, self.owner, self.is_open = offset, body.card, True
            self.terms += 1
        elif head.expected != offset or not self.is_open:
            return
        elif head.chain != self._chain:
            self.mistakes.append(f"J2: the chain forks at {offset}")
        self.last_s = self._topic.appended_s[offset]
        if isinstance(body, HandOver):
            self.is_open = False
        elif isinstance(body, EncodedCommit):
            self._commit(offset, body)
        self._chain = entries.chain_after(self._chain, offset, entry.head_bytes)

    def _commit(self, offset: int, body: EncodedCommit) -> None:
        name = next(
            folder.open_envelope(Kind.STATE, key, value)
            for key, value in body.state
            if key == LAST and value is not None
        )
        attempt = self._attempts[name]
        if f'"{attempt.node}"'.encode() not in self.owner:
            self.mistakes.append(f"J2: {attempt.node} commits at {offset}, in a term of another")
        if body.sequence != len(self.names):
            self.mistakes.append(f"J2: commit {body.sequence} at {offset} is {len(self.names)}")
        if body.publish_time_ns < self._time_ns:
            self.mistakes.append(f"J2: publish time runs backwards at {offset}")
        self._time_ns = body.publish_time_ns
        self.names.append(name)
        try:
            self.model.take(attempt)
        except AssertionError as error:
            self.mistakes.append(f"J2: the commit at {offset}: {error}")


class Judge:
    """Holds the world against its truth."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.truth = Truth(world.topic, world.said.attempts)
        #: The last commit that anybody was told of.
        self._known = 0
        #: How far each node's clock was off when it decided to take over.
        self._ahead_s: dict[str, float] = {}
        self.answers = 0
        self.last_answer_s = self.last_commit_s = 0.0

    def note_commit(self, sequence: int) -> None:
        self._known = max(self._known, sequence)
        self.last_commit_s = self._world.turns.now

    def note_answer(self, node: SimNode) -> None:
        """A node answers a read now."""
        self.answers += 1
        self.last_answer_s = self._world.turns.now
        sequence = node.engine.last_sequence
        if sequence < self._known:
            self._accuse(f"J3: {node.name} answers as of {sequence}, and {self._known} is known")
        self._known = max(self._known, sequence)
        self.truth.catch_up()
        names = self.truth.names
        said = dict(node.engine.state()).get(LAST, b"")
        if sequence >= len(names) or names[sequence] != said:
            self._accuse(f"J3: {node.name} answers {said!r} as of {sequence}, which never was")

    def note_decision(self, node: SimNode, seen: Seen, *, is_rival: bool) -> None:
        """A node decides to take over."""
        self._ahead_s[node.name] = node.clock.ahead_s
        self.truth.catch_up()
        if is_rival or not self.truth.is_open or seen.term != self.truth.term:
            return
        now, session_s = self._world.turns.now, node.session.length_s
        # By the slowest clock that reads least; a look is a while before the decision.
        within_s = session_s / (1 + self._world.temper.drift) - node.session.disturbed_s - 0.1
        if now - self.truth.last_s < within_s:
            self._accuse(f"J4: {node.name} deposes an owner that was heard just now")
        if self._world.was_silent(node, now - session_s * 0.8, now, node.session.disturbed_s * 1.3):
            self._accuse(f"J4: {node.name} takes silence of Kafka for that of the owner")

    def note_term(self, node: SimNode) -> None:
        # One that is set meanwhile was off at one moment alone.
        off_s = min(abs(self._ahead_s[node.name]), abs(node.clock.ahead_s))
        if off_s > CLOCK_S_MAX + _CLOCK_SLACK_S:
            self._accuse(f"J4: {node.name} serves, {node.clock.ahead_s:+.0f} s off")

    def at_the_end(self) -> Iterator[str]:
        """What is broken, once all has come."""
        self.truth.catch_up()
        yield from self.truth.mistakes
        places: dict[bytes, int] = {}
        for name in self.truth.names[1:]:
            places[name] = places.get(name, 0) + 1
        for name, attempt in self._world.said.attempts.items():
            count = places.get(name, 0)
            wanted = {"acknowledged": (1,), "fenced": (0,)}.get(attempt.outcome, (0, 1))
            if count not in wanted:
                yield f"J1: {name.decode()} was {attempt.outcome}, and is there {count} times"

    def judge_cache(self, whose: str, log: ReplicatedLog) -> Iterator[str]:
        """What a log that has read all there is has otherwise than the story."""
        model = self.truth.model
        standing = log.standing
        if not standing.is_whole or standing.sequence != len(self.truth.names) - 1:
            yield f"J5: {whose} is as of {standing.sequence}, whole: {standing.is_whole}"
            return
        if dict(log.state()) != model.state:
            yield f"J5: {whose} has another state"
        for partition in PARTITIONS:
            if (found := _messages(log, partition)) != (
                wanted := model.messages.get(partition, {})
            ):
                lacks = sorted(wanted.keys() - found.keys())[:5]
                yield f"J5: {whose} lacks {lacks} of partition {partition}, or has others"
        for name, stage in self._world.said.stages.items():
            path = log.stages_dir / f"{name}.stage"
            if (
                stage.is_finished
                and not stage.is_removed
                and (not path.exists() or path.read_bytes() != stage.content)
            ):
                yield f"J5: {whose} lacks {name}"

    def _accuse(self, sentence: str) -> None:
        self._world.accuse(sentence)


def _messages(log: ReplicatedLog, partition: PartitionId) -> dict[int, bytes]:
    bounds = log.bounds(partition)
    found: dict[int, bytes] = {}
    for batch in _now(log.read(partition, bounds.start, max_bytes=ALL_BYTES)):
        starts = getattr(batch, "starts", ())
        for index, begin in enumerate(starts[:-1]):
            if batch.base_offset + index >= bounds.start:
                found[batch.base_offset + index] = batch.content[begin : starts[index + 1]]
    return found


def _now(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")
