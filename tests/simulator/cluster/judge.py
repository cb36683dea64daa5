"""The promises, held against the truth while the world is lived and in its end.

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanlog.cluster.ownership import CLOCK_S_MAX, Seen
from fanlog.log import folder
from fanlog.log.encoded import EncodedCommit
from fanlog.log.envelope import Kind
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.resources import PartitionId
from fanlog.testing.author import ALL_BYTES
from simulator.cluster.truth import Truth
from simulator.cluster.writers import LAST, PARTITIONS, Attempt

if TYPE_CHECKING:
    from simulator.cluster.machines import Machine
    from simulator.cluster.topic import SimTopic
    from simulator.cluster.world import World
    from simulator.cluster.writing import WritingWorld

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


class WriterTruth(Truth):
    """Of writers, whose commits have names."""

    def __init__(self, topic: SimTopic, attempts: dict[bytes, Attempt]) -> None:
        super().__init__(topic)
        self._attempts = attempts
        #: Names of the commits that count, by sequence.
        self.names: list[bytes] = [b""]
        self.model = Model()

    def _commit(self, offset: int, body: EncodedCommit) -> None:
        name = next(
            folder.open_envelope(Kind.STATE, key, value)
            for key, value in body.state
            if key == LAST and value is not None
        )
        attempt = self._attempts[name]
        if f'"{attempt.node}"'.encode() not in self.owner:
            self.mistakes.append(f"J2: {attempt.node} commits at {offset}, in a term of another")
        self.names.append(name)
        try:
            self.model.take(attempt)
        except AssertionError as error:
            self.mistakes.append(f"J2: the commit at {offset}: {error}")


class Judge:
    """Holds the world against its truth, as far as all nodes are the same."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self.truth = truth
        #: How far each node's clock was off when it decided to take over.
        self._ahead_s: dict[str, float] = {}

    def note_decision(self, node: Machine, seen: Seen, *, is_rival: bool) -> None:
        """A node decides to take over."""
        self._ahead_s[node.name] = node.clock.ahead_s
        self.truth.catch_up()
        if is_rival or not self.truth.is_open or seen.term != self.truth.term:
            return
        now, session_s = self._world.turns.now, node.session.length_s
        # By the slowest clock that reads least; a look is a while before the decision.
        within_s = session_s / (1 + self._world.temper.drift) - node.session.disturbed_s - 0.1
        # What was appended since its last read, or during it, the node cannot have heard.
        unread_s = (node.clock.boottime_s() - seen.fetched_s) * (1 + self._world.temper.drift)
        read_s = now - unread_s - 4 * self._world.temper.trip_s
        if read_s - self.truth.last_s(read_s) < within_s:
            self._accuse(f"J4: {node.name} deposes an owner that was heard just now")
        if self._world.was_silent(node, now - session_s * 0.8, now, node.session.disturbed_s * 1.3):
            self._accuse(f"J4: {node.name} takes silence of Kafka for that of the owner")

    def note_term(self, node: Machine) -> None:
        # One that is set meanwhile was off at one moment alone.
        off_s = min(abs(self._ahead_s[node.name]), abs(node.clock.ahead_s))
        if off_s > CLOCK_S_MAX + _CLOCK_SLACK_S:
            self._accuse(f"J4: {node.name} serves, {node.clock.ahead_s:+.0f} s off")

    def judge_cache(self, whose: str, log: ReplicatedLog) -> Iterable[str]:
        """What a log that has read all there is has otherwise than the story."""
        raise NotImplementedError

    def _accuse(self, sentence: str) -> None:
        self._world.accuse(sentence)


class WriterJudge(Judge):
    """Of a world of writers."""

    def __init__(self, world: WritingWorld) -> None:
        self._said = world.said
        self.story = WriterTruth(world.topic, world.said.attempts)
        super().__init__(world, self.story)
        #: The last commit that anybody was told of.
        self._known = 0
        self.answers = 0
        self.last_answer_s = self.last_commit_s = 0.0

    def note_commit(self, sequence: int) -> None:
        self._known = max(self._known, sequence)
        self.last_commit_s = self._world.turns.now

    def note_answer(self, node: Machine) -> None:
        """A node answers a read now."""
        self.answers += 1
        self.last_answer_s = self._world.turns.now
        sequence = node.engine.last_sequence
        if sequence < self._known:
            self._accuse(f"J3: {node.name} answers as of {sequence}, and {self._known} is known")
        self._known = max(self._known, sequence)
        self.truth.catch_up()
        names = self.story.names
        said = dict(node.engine.state()).get(LAST, b"")
        if sequence >= len(names) or names[sequence] != said:
            self._accuse(f"J3: {node.name} answers {said!r} as of {sequence}, which never was")

    def at_the_end(self) -> Iterator[str]:
        """What is broken, once all has come."""
        self.truth.catch_up()
        yield from self.truth.mistakes
        places: dict[bytes, int] = {}
        for name in self.story.names[1:]:
            places[name] = places.get(name, 0) + 1
        for name, attempt in self._said.attempts.items():
            count = places.get(name, 0)
            wanted = {"acknowledged": (1,), "fenced": (0,)}.get(attempt.outcome, (0, 1))
            if count not in wanted:
                yield f"J1: {name.decode()} was {attempt.outcome}, and is there {count} times"

    def judge_cache(self, whose: str, log: ReplicatedLog) -> Iterator[str]:
        """What a log that has read all there is has otherwise than the story."""
        model = self.story.model
        standing = log.standing
        if not standing.is_whole or standing.sequence != len(self.story.names) - 1:
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
        for name, stage in self._said.stages.items():
            path = log.stages_dir / f"{name}.stage"
            if (
                stage.is_finished
                and not stage.is_removed
                and (not path.exists() or path.read_bytes() != stage.content)
            ):
                yield f"J5: {whose} lacks {name}"


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
