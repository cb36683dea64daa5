"""The steps of a node towards the partition, without I/O: generators that yield operations.

A driver carries each operation out and sends its result back: a thread against Kafka, the simulator
over virtual time. `PartitionUnavailable`, `OffsetGone` and `RecordTooLarge` are thrown in.

An append is one record at a time. Its acknowledgement is not trusted alone: only one that names the
expected offset means that the entry counts. Anything else is an *unknown outcome*, and the story
decides, read to its end after the producer was reset:

| the entry is | the term is | outcome |
| --- | --- | --- |
| there, and counts | any | it happened |
| there, and void | ours | it is produced again, for the place behind |
| anything else | over | fenced: it did not happen, and never will |
| not there | ours | unknown: it may still come, so this node stops owning |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from fanlog.log.replicated.bodies import Body, TakeOver
from fanlog.log.replicated.entries import LogEntry
from fanlog.log.replicated.partition import (
    Fetched,
    PartitionUnavailable,
    Produced,
    Uncertain,
)
from fanlog.log.replicated.story import Story, ToldEntry

#: How often an entry is produced again, at most, when void copies of it take its place.
AGAIN_MAX = 5


class Produce(NamedTuple):
    """Append a record. Result: `Produced` or `Uncertain`."""

    value: bytes


class ResetProducer(NamedTuple):
    """Reset the producer. Result: None."""


class ReadEnd(NamedTuple):
    """Ask for the partition's end. Result: the offset."""


class Fetch(NamedTuple):
    """Fetch records; wait for the first. Result: a list of at least one `Fetched`."""

    offset: int


class Apply(NamedTuple):
    """Apply entries to the cache, and store the story's facts with them. Result: None."""

    told: Sequence[ToldEntry]


Operation: TypeAlias = Produce | ResetProducer | ReadEnd | Fetch | Apply

Result = TypeVar("Result")
Steps: TypeAlias = Generator[Operation, Any, Result]


class AppendOutcome(Enum):
    """Of an append."""

    HAPPENED = "happened"
    FENCED = "fenced"
    UNKNOWN = "unknown"


def take_over(story: Story, *, card: bytes, identity: bytes, nonce: bytes) -> Steps[int | None]:
    """Begin a term. The append time of its record in ms, or None: another node was faster.

    None as well when the record is not there; it may come later, and then begins a term without an
    owner, which ends as that of any owner that is silent.
    """
    yield from read_to(story, (yield ReadEnd()))
    value, entry = story.encode(TakeOver(identity=identity, nonce=nonce, card=card))
    answer: Produced | Uncertain = yield Produce(value)
    if not isinstance(answer, Produced) or answer.offset < 0:
        yield ResetProducer()
    append_time_ms = None
    end = _end(answer, (yield ReadEnd()))
    while story.facts.next_offset < end:
        told = yield from _read(story, story.facts.next_offset)
        for one in told:
            if one.entry is not None and one.entry.head_bytes == entry.head_bytes and not one.void:
                append_time_ms = one.append_time_ms
    return append_time_ms if story.facts.nonce == nonce else None


def append(story: Story, body: Body) -> Steps[AppendOutcome]:
    """Append an entry of the present term, which must be ours."""
    term = story.facts.term
    for _ in range(AGAIN_MAX):
        if _is_over(story, term):
            return AppendOutcome.FENCED
        expected = story.facts.next_offset
        value, entry = story.encode(body)
        answer: Produced | Uncertain = yield Produce(value)
        if isinstance(answer, Produced) and answer.offset == expected:
            yield Apply([story.hear(expected, answer.append_time_ms, entry)])
            return AppendOutcome.HAPPENED
        yield ResetProducer()
        try:
            found = yield from _find(story, term, entry, answer)
        except PartitionUnavailable:
            return AppendOutcome.UNKNOWN
        if found is not None:
            return found
    return AppendOutcome.UNKNOWN


def read_to(story: Story, end: int) -> Steps[None]:
    """Read and apply everything below `end`."""
    while story.facts.next_offset < end:
        yield from _read(story, story.facts.next_offset)


def _find(
    story: Story, term: int, entry: LogEntry, answer: Produced | Uncertain
) -> Steps[AppendOutcome | None]:
    """The outcome of an append; None: its entry is there and void, and the term is still ours.

    Nothing of a later term is read: the node may still be serving reads of its own.
    """
    end = _end(answer, (yield ReadEnd()))
    happened = is_there = False
    while story.facts.next_offset < end and story.facts.term == term:
        told = yield from _read(story, story.facts.next_offset, term)
        for one in told:
            if one.entry is not None and one.entry.head_bytes == entry.head_bytes:
                is_there = True
                happened = happened or not one.void
    if happened:
        return AppendOutcome.HAPPENED
    if _is_over(story, term):
        return AppendOutcome.FENCED
    return None if is_there else AppendOutcome.UNKNOWN


def _is_over(story: Story, term: int) -> bool:
    """Whether nothing of the term counts any more."""
    return story.facts.term != term or story.facts.successor is not None


def _read(story: Story, offset: int, term: int | None = None) -> Steps[list[ToldEntry]]:
    """Read some records and apply them, up to the end of `term` if one is given."""
    records: list[Fetched] = yield Fetch(offset)
    told = []
    for record in records:
        told.append(story.read(record))
        if term is not None and story.facts.term != term:
            break
    yield Apply(told)
    return told


def _end(answer: Produced | Uncertain, end: int) -> int:
    """How far to read: a new leader may not know yet that what was acknowledged is committed."""
    return max(end, answer.offset + 1) if isinstance(answer, Produced) else end
