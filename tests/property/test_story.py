"""Nodes that race for a partition, step by step, with faults: there is one chain, and no lie.

Whatever order their operations come in, and whatever becomes of their records: all readers tell the
same story, a commit that happened is in it once, and one that was fenced never is.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fanlog.log.batch import decode
from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated.partition import PartitionUnavailable
from fanlog.log.replicated.steps import AppendOutcome
from fanlog.testing.kafka_partition import KafkaTopic, ProduceFault
from partition_nodes import StepsNode, reader_of

NODES = 3

#: A node goes on by so many operations; or takes over first, if it is in the middle of nothing.
moves = st.one_of(
    st.tuples(st.integers(0, NODES - 1), st.booleans(), st.integers(1, 8)),
    st.sampled_from(["arrive", "refuse"]),
)


class Race:
    def __init__(self, faults: list[ProduceFault]) -> None:
        self.topic = KafkaTopic()
        self.topic.script(*faults)
        self.nodes = [StepsNode(self.topic, f"n{number}") for number in range(NODES)]
        self.happened: set[bytes] = set()
        self.fenced: set[bytes] = set()
        self._messages: dict[str, bytes] = {}
        self._count = 0

    def move(self, node: StepsNode, takes_over: bool, count: int) -> None:
        for _ in range(count):
            if not node.is_busy:
                self._begin(node, takes_over)
            try:
                result = node.step()
            except PartitionUnavailable:
                node.is_owner = False
                continue
            if result is not None:
                self._end(node, result[0])

    def _begin(self, node: StepsNode, takes_over: bool) -> None:
        self._messages.pop(node.name, None)
        if takes_over or not node.is_owner:
            node.is_owner = False
            node.start(node.take_over_steps())
        else:
            self._count += 1
            message = b"m%d" % self._count
            self._messages[node.name] = message
            node.start(node.commit_steps(message))

    def _end(self, node: StepsNode, result: object) -> None:
        message = self._messages.pop(node.name, None)
        if message is None:
            node.is_owner = result is not None
        elif result is AppendOutcome.HAPPENED:
            self.happened.add(message)
            node.is_owner = node.story.facts.card == node.name.encode()
        else:
            node.is_owner = False
            if result is AppendOutcome.FENCED:
                self.fenced.add(message)


@settings(max_examples=1_000)
@given(
    faults=st.lists(st.sampled_from(ProduceFault), max_size=12),
    script=st.lists(moves, max_size=40),
)
@example(
    faults=[],
    script=[(0, True, 8), (1, True, 2), (0, False, 1), (1, False, 8), (0, False, 8), (1, False, 8)],
)
def test_rivals_write_one_story(faults: list[ProduceFault], script: list[object]):
    race = Race(faults)
    for move in script:
        if isinstance(move, tuple):
            number, takes_over, count = move
            race.move(race.nodes[number], takes_over, count)
        elif move == "arrive":
            race.topic.arrive()
        else:
            race.topic.refuse(2)
    race.topic.refuse(0)
    race.topic.arrive()
    reader = reader_of(race.topic)
    bodies = [told.body for told in reader.applied]
    commits = [body for body in bodies if isinstance(body, EncodedCommit)]
    assert [commit.sequence for commit in commits] == list(range(1, len(commits) + 1))
    counts = Counter(decode(batch.value).content for commit in commits for batch in commit.batches)
    assert all(counts[message] == 1 for message in race.happened)
    assert all(counts[message] == 0 for message in race.fenced)
    # What each node applied is the begin of the same story, and each one can go on from there.
    for node in race.nodes:
        assert node.applied == reader.applied[: len(node.applied)]
        if not node.is_busy:
            node.follow()
            assert node.story.facts == reader.story.facts
