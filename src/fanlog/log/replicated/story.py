"""The story of the partition: which entries count. One fold, for the owner and for all who follow.

| entry | counts if | else |
| --- | --- | --- |
| take-over | it names the present term, wherever it lies | void |
| any other | its term is the present one and open, and it lies where it expects to | void |
| of another cluster, or no entry at all (a *stray record*) | never | void |

The story is *broken* by an entry that counts and has a wrong chain, sequence or publish time; by
an entry that is damaged or of a newer version; and by offsets that do not follow one another. So it
is by an entry whose writer has read another story: one of another term that lies where it expects
to, and a take-over from a term that is to come. The partition then lost records that were read
here, and got others in their place.

A void entry changes nothing but the offset behind it. A broken story is never read on: a reader
that skipped an entry that counts would lose an acknowledged commit.

The story begins at offset 0 with the first take-over that replaces `NO_TERM`, or at a checkpoint,
if the partition was trimmed. Each valid take-over begins a term, named by its own offset.

Hard state: the facts and the marks. Soft state: the members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated import entries
from fanlog.log.replicated.api import NO_TERM, Member
from fanlog.log.replicated.bodies import Body, Checkpoint, HandOver, Renewal, TakeOver
from fanlog.log.replicated.entries import EntryDamaged, Head, LogEntry, StrayRecord
from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.marks import Marks
from fanlog.log.replicated.partition import Fetched

#: Reading an entry costs as much as this many bytes of a large one.
ENTRY_COST_BYTES = 1_024


class StoryBroken(Exception):
    """The partition cannot be read on; the sentence names the offset and the problem."""


class ToldEntry(NamedTuple):
    """An entry, and whether it counts."""

    offset: int
    append_time_ms: int
    #: None for a stray record.
    entry: LogEntry | None
    #: Why it does not count; empty if it does.
    void: str

    @property
    def body(self) -> Body | None:
        """The body of an entry that counts."""
        return None if self.void or self.entry is None else self.entry.body


class Story:
    """Of one partition, from `facts` on. Used by one thread at a time."""

    def __init__(self, cluster: str, facts: StoryFacts, marks: Marks | None = None) -> None:
        self.cluster = cluster
        self._tag = entries.cluster_tag(cluster)
        self._facts = facts
        self._marks = marks or Marks()
        self._members: tuple[Member, ...] = ()
        #: Entries that did not count, and those of them that were stray records.
        self.void_count = 0
        self.stray_count = 0

    @property
    def facts(self) -> StoryFacts:
        return self._facts

    @property
    def marks(self) -> Marks:
        return self._marks

    @property
    def is_whole(self) -> bool:
        """Whether a reader that began where this one did has all state by now."""
        return is_whole(self._facts, self._marks)

    @property
    def members(self) -> tuple[Member, ...]:
        """As of the last renewal; empty in a term without one."""
        return self._members

    @property
    def has_begun(self) -> bool:
        return bool(self._facts.identity)

    def encode(self, body: Body) -> tuple[bytes, LogEntry]:
        """The record that says `body` if it lies right behind all that was read."""
        facts = self._facts
        if isinstance(body, TakeOver):
            head = Head(facts.term, -1, 0, entries.NO_CHAIN)
        else:
            sequence = body.sequence if isinstance(body, EncodedCommit) else facts.sequence
            head = Head(facts.term, facts.next_offset, sequence, facts.chain)
        return entries.encode(self._tag, head, body)

    def read(self, record: Fetched) -> ToldEntry:
        """Read the next record.

        Raises:
            StoryBroken: It cannot be read; the facts are as before.
        """
        try:
            entry = entries.decode(self._tag, record.value)
        except StrayRecord as error:
            self._check_place(record.offset)
            self.stray_count += 1
            return self._skip(record.offset, record.append_time_ms, None, str(error))
        except EntryDamaged as error:
            raise StoryBroken(f"the record at offset {record.offset}: {error}") from error
        return self.hear(record.offset, record.append_time_ms, entry)

    def hear(self, offset: int, append_time_ms: int, entry: LogEntry) -> ToldEntry:
        """As `read`, for an entry whose record was encoded here.

        Raises:
            StoryBroken: As `read`.
        """
        self._check_place(offset)
        if not self.has_begun and self._facts.start_offset:
            return self._begin(offset, append_time_ms, entry)
        if void := self._void(offset, entry):
            return self._skip(offset, append_time_ms, entry, void)
        if not isinstance(entry.body, TakeOver):
            self._check(offset, entry)
        self._take(offset, append_time_ms, entry)
        return ToldEntry(offset, append_time_ms, entry, "")

    def _check_place(self, offset: int) -> None:
        expected = self._facts.next_offset
        if offset != expected:
            raise StoryBroken(
                f"the record behind offset {expected - 1} is that of offset {offset}: "
                f"{offset - expected} are missing; look at the topic's retention and compaction"
            )

    def _void(self, offset: int, entry: LogEntry) -> str:
        facts, head = self._facts, entry.head
        is_take_over = isinstance(entry.body, TakeOver)
        if head.term != facts.term:
            # Whoever writes has read all below the place where the entry should lie.
            if head.expected == offset or (is_take_over and head.term > facts.term):
                raise StoryBroken(
                    f"the entry at offset {offset} follows from a story with term {head.term}, and "
                    f"this one has term {facts.term}: the partition lost records that were read"
                )
            verb = "takes over from" if is_take_over else "is of"
            return f"it {verb} term {head.term}, and the term is {facts.term}"
        if is_take_over:
            return ""
        if head.expected != offset:
            return f"it expects to lie at {head.expected}"
        if facts.successor is not None:
            return f"term {facts.term} was handed over"
        return ""

    def _check(self, offset: int, entry: LogEntry) -> None:
        facts, head, body = self._facts, entry.head, entry.body
        sequence = facts.sequence + isinstance(body, EncodedCommit)
        time_ns = facts.publish_time_ns
        problem = ""
        if head.chain != facts.chain:
            problem = "it does not follow from the entries before it (its chain is another)"
        elif head.sequence != sequence:
            problem = f"it has the sequence {head.sequence} and should have {sequence}"
        elif isinstance(body, EncodedCommit) and body.publish_time_ns < time_ns:
            problem = f"its publish time {body.publish_time_ns} is before {time_ns}"
        elif isinstance(body, Checkpoint) and (
            (body.identity, body.publish_time_ns, body.total_bytes, body.nonce, body.card)
            != (facts.identity, time_ns, facts.total_bytes, facts.nonce, facts.card)
        ):
            problem = "it is a checkpoint of another story"
        if problem:
            raise StoryBroken(f"the entry at offset {offset} of term {head.term}: {problem}")

    def _begin(self, offset: int, append_time_ms: int, entry: LogEntry) -> ToldEntry:
        """The first record of a partition that was trimmed."""
        head, body = entry.head, entry.body
        start = self._facts.start_offset
        if not isinstance(body, Checkpoint) or not head.expected == offset == start:
            raise StoryBroken(
                f"the partition begins at offset {start}, and no checkpoint lies there: "
                "something else than Fanlog has deleted records"
            )
        self._facts = replace(
            self._facts,
            identity=body.identity,
            term=head.term,
            nonce=body.nonce,
            card=body.card,
            sequence=head.sequence,
            publish_time_ns=body.publish_time_ns,
            chain=head.chain,
            total_bytes=body.total_bytes,
        )
        self._take(offset, append_time_ms, entry)
        return ToldEntry(offset, append_time_ms, entry, "")

    def _take(self, offset: int, append_time_ms: int, entry: LogEntry) -> None:
        facts, body = self._facts, entry.body
        facts = replace(
            facts,
            next_offset=offset + 1,
            chain=entries.chain_after(facts.chain, offset, entry.head_bytes),
            chain_before=facts.chain,
            last_offset=offset,
            append_time_ms=append_time_ms,
            total_bytes=facts.total_bytes + entry.size_bytes + ENTRY_COST_BYTES,
        )
        match body:
            case EncodedCommit():
                facts = replace(facts, sequence=body.sequence, publish_time_ns=body.publish_time_ns)
            case TakeOver():
                facts = replace(
                    facts,
                    identity=facts.identity or body.identity,
                    term=offset,
                    nonce=body.nonce,
                    card=body.card,
                    successor=None,
                )
                self._members = ()
            case HandOver():
                facts = replace(facts, successor=body.successor)
            case Renewal():
                if body.members:
                    self._members = body.members
            case _:
                pass
        self._facts = facts
        self._marks = self._marks.read(offset, entry.head.sequence, entry.size_bytes, body)

    def _skip(
        self, offset: int, append_time_ms: int, entry: LogEntry | None, void: str
    ) -> ToldEntry:
        self.void_count += 1
        self._facts = replace(self._facts, next_offset=offset + 1)
        return ToldEntry(offset, append_time_ms, entry, void)

    def decode(self, value: bytes) -> LogEntry:
        """A record read before, without a look at whether it counts.

        Raises:
            EntryDamaged, StrayRecord: As `entries.decode`.
        """
        return entries.decode(self._tag, value)


def is_same(facts: StoryFacts, entry: LogEntry) -> bool:
    """Whether an entry that lies at `facts.last_offset` is the last one that counted there."""
    chain = entries.chain_after(facts.chain_before, facts.last_offset, entry.head_bytes)
    return chain == facts.chain


def is_whole(facts: StoryFacts, marks: Marks) -> bool:
    """Whether a reader that is as far as that has all state."""
    return facts.start_offset == 0 or marks.snapshot_begin >= facts.start_offset


def new_facts(start_offset: int) -> StoryFacts:
    """The facts of a reader that begins where the partition does."""
    return StoryFacts(start_offset=start_offset, next_offset=start_offset, term=NO_TERM)
