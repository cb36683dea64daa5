"""The partition of a cluster, read whole: the checker of what faults must leave.

1. Every publish that was answered is there, once, with its data.
2. At any offset one node owns at most; the owners are those that nodes told of, and all that counts
   in a term follows its take-over.
3. What counts is decided twice: by `Story`, as nodes do, and by the rules said another way, here.
4. Of each partition of messages offsets follow one another: no commit counts twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import google.pubsub_v1 as gapic

from fanlog.cluster.cards import NodeCard
from fanlog.log import batch
from fanlog.log.encoded import EncodedBatch, EncodedCommit
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated import entries
from fanlog.log.replicated.bodies import Checkpoint, HandOver, TakeOver
from fanlog.log.replicated.entries import LogEntry
from fanlog.log.replicated.partition import Fetched, Partition, PartitionUnavailable
from fanlog.log.replicated.story import Story, new_facts
from fanlog.model.ids import message_id
from fanlog.testing.history import History
from kafka.changes import PATIENCE_S

Found = TypeVar("Found")

FETCH_BYTES = 1 << 24
#: A run of the fields `messages`, as a batch has them.
_MESSAGES = gapic.PublishRequest


@dataclass(slots=True)
class Tally:
    """What the partition has."""

    #: Name of the owner, by term.
    owners: dict[int, str] = field(default_factory=dict)
    #: Offsets of the records that count.
    counting: list[int] = field(default_factory=list)
    #: Records that do not count, those of other clusters included.
    void: int = 0
    #: Data of each message that a commit appended, by its id.
    messages: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0
    #: Names of the owners that committed something.
    committers: set[str] = field(default_factory=set)
    #: Sentences of what must not be.
    mistakes: list[str] = field(default_factory=list)


def read_tally(options: KafkaOptions) -> Tally:
    """Read the partition from its begin to its end.

    Raises:
        StoryBroken: The commits that count are no chain.
    """
    topic_id = prepare_topic(options, wait_s=PATIENCE_S).topic_id
    with closing(KafkaPartition(options, topic_id)) as partition:
        return tally_of(options.cluster, read_records(partition))


def read_records(partition: Partition) -> Iterator[Fetched]:
    """All records that there are; asked for again while Kafka does not answer."""
    offset, end = patiently(lambda: partition.bounds(wait_s=PATIENCE_S))
    while offset < end:
        ask = partial(partition.fetch, offset, max_bytes=FETCH_BYTES, wait_s=PATIENCE_S)
        found = patiently(ask)
        yield from found
        offset += len(found)


def patiently(ask: Callable[[], Found]) -> Found:
    end_s = time.monotonic() + 2 * PATIENCE_S
    while True:
        try:
            return ask()
        except PartitionUnavailable:
            if time.monotonic() > end_s:
                raise


def tally_of(cluster: str, records: Iterable[Fetched]) -> Tally:
    """Count records that begin where their partition does."""
    reading, told = _Reading(cluster), list[int]()
    story: Story | None = None
    for record in records:
        story = story or Story(cluster, new_facts(record.offset))
        if not story.read(record).void:
            told.append(record.offset)
        reading.read(record)
    tally = reading.tally
    if told != tally.counting:
        differing = set(told) ^ set(tally.counting)
        tally.mistakes.append(f"nodes and these rules differ on offsets {sorted(differing)[:10]}")
    return tally


class _Reading:
    """The rules of validity, said once more, of records in their order."""

    def __init__(self, cluster: str) -> None:
        self._tag = entries.cluster_tag(cluster)
        self.tally = Tally()
        #: Offset of the take-over of the term that is open; None while none is.
        self._term: int | None = None
        #: The last one that began, open or not.
        self._last_term = -1
        self._ends: dict[int, int] = {}
        self._is_begun = False

    def read(self, record: Fetched) -> None:
        if self._is_of_others(record.value):
            self.tally.void += 1
            return
        entry = entries.decode(self._tag, record.value)
        if not self._is_begun and isinstance(entry.body, Checkpoint):
            self._begin_term(entry.head.term, entry.body.card)
        self._is_begun = True
        if not self._counts(record.offset, entry):
            self.tally.void += 1
            return
        self.tally.counting.append(record.offset)
        if isinstance(entry.body, TakeOver):
            self._begin_term(record.offset, entry.body.card)
        elif isinstance(entry.body, HandOver):
            self._term = None
        elif isinstance(entry.body, EncodedCommit):
            self.tally.commits += 1
            self.tally.committers.add(self.tally.owners[entry.head.term])
            for one in entry.body.batches:
                self._take(record.offset, one)

    def _is_of_others(self, value: bytes) -> bool:
        """An entry has the magic at its begin, and the tag of its cluster at byte 8."""
        return not value.startswith(entries.MAGIC) or value[8:12] != self._tag

    def _counts(self, offset: int, entry: LogEntry) -> bool:
        if isinstance(entry.body, TakeOver):
            return entry.head.term == self._last_term
        return entry.head.term == self._term and entry.head.expected == offset

    def _begin_term(self, term: int, card: bytes) -> None:
        self._term = self._last_term = term
        name = NodeCard.from_bytes(card).name
        if self.tally.owners.setdefault(term, name) != name:
            self.tally.mistakes.append(f"term {term} has two owners")

    def _take(self, offset: int, one: EncodedBatch) -> None:
        end = self._ends.setdefault(one.partition, one.base_offset)
        if one.base_offset != end:
            self.tally.mistakes.append(
                f"the commit at {offset} appends to partition {one.partition} at "
                f"{one.base_offset}, which ends at {end}"
            )
        self._ends[one.partition] = one.end_offset
        stored = batch.decode(bytes(one.value))
        messages = _MESSAGES.deserialize(stored.content).messages
        for index, message in enumerate(messages):
            name = message_id(one.partition, one.base_offset + index)
            if name in self.tally.messages:
                self.tally.mistakes.append(f"message {name} is there twice")
            self.tally.messages[name] = bytes(message.data)


def check_partition(
    options: KafkaOptions,
    history: History,
    topics: Iterable[str],
    told_owners: Iterable[tuple[int, str]],
) -> Tally:
    """Hold what clients and nodes saw against the partition; fails with what is wrong."""
    tally = read_tally(options)
    assert tally.mistakes == []
    for topic in topics:
        answered = history.answered(topic)
        doubled = [
            name for name, count in Counter(name for name, _ in answered).items() if count > 1
        ]
        assert doubled == [], "two publishes were answered with one id"
        lost = [name for name, data in answered if hash(tally.messages.get(name)) != data]
        assert lost == [], f"{len(lost)} of {len(answered)} answered publishes are not there"
    strange = {(term, name) for term, name in told_owners if tally.owners.get(term) != name}
    assert strange == set(), "nodes said that they own, and the partition says otherwise"
    return tally
