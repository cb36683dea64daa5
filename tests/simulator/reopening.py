"""Those who deliver again: reopen messages, redrive dead letters; and what the ledgers learn of it.

A request names its messages, so that each of them is known: reopened for certain when it was
certainly acknowledged before, the log certainly had it, and the request was answered. What was
merely asked for may be delivered again, and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyroaring import BitMap64

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.reopening import Wanted
from fanlog.model.attributes import REDRIVEN_FROM
from fanlog.model.ids import message_id, parse_message_id
from fanlog.model.resources import Offset, PartitionId
from simulator.calling import called
from simulator.checkers import Violation
from simulator.chronicle import Chronicle, Message, Op
from simulator.clients import some_subscription, subscription
from simulator.ledger import Card, Ledger
from simulator.world import World

#: Messages of one request at most.
MESSAGES_MAX = 6

Id = tuple[PartitionId, Offset]


@dataclass(frozen=True, slots=True)
class Again:
    """Messages that are asked for: those of a subscription, or dead letters."""

    ids: tuple[Id, ...]


class Answered(NamedTuple):
    """Where logs began when it was answered, and which letters were skipped, or copied."""

    starts: tuple[tuple[PartitionId, Offset], ...]
    skipped: frozenset[str] = frozenset()
    copied: int = 0

    def __str__(self) -> str:
        return f"skipped {len(self.skipped)} copied {self.copied}"


# Deeds.


async def reopen_some(world: World) -> None:
    name = some_subscription(world)
    ids = _some_ids(world, name)
    if not ids:
        return

    async def verb(broker: Broker) -> Answered:
        sets: dict[PartitionId, BitMap64] = {}
        for partition, offset in ids:
            sets.setdefault(partition, BitMap64()).add(offset)
        await broker.reopening.reopen(name, Wanted(sets))
        return Answered(_starts(world, ids))

    await called(world, "reopen", name, Again(ids), verb)


async def redrive_some(world: World) -> None:
    name = subscription(100 + world.rng.randrange(2))
    ids = _some_ids(world, name)
    if not ids:
        return

    # Half of them ask for copies; without another throw of the dice, worlds stay what they were.
    copies = sum(offset for _, offset in ids) % 2 == 0

    async def verb(broker: Broker) -> Answered:
        done = await broker.dead_letters.redrive(name, ids, copies=copies)
        assert copies or not done.copied, "copies that were not asked for"
        sources = [_source(world.chronicle.message(*one)) for one in ids]
        starts = _starts(world, [one for one in sources if one is not None])
        return Answered(starts, frozenset(letter for letter, _ in done.skipped), done.copied)

    await called(world, "redrive", name, Again(ids), verb)


def _some_ids(world: World, name: str) -> tuple[Id, ...]:
    """A few messages of what a subscription reads, neighbours or not."""
    life = world.life
    if life is None or not life.broker.hard.catalog.has_subscription(name):
        return ()
    found = life.broker.hard.catalog.subscription(name)
    read = [s.partition for s in life.broker.hard.shares_of(found)]
    logs = [log for partition in read if (log := world.chronicle.log.get(partition))]
    if not logs:
        return ()
    rng, log = world.rng, world.rng.choice(logs)
    # Most of what is old is gone from the log, or in the lake.
    recent = log[-rng.choice((5, 20, 200)) :]
    if world.tiering is not None and rng.random() < 0.5:
        recent = _cold(world, log) or recent
    count = min(len(recent), rng.randint(1, MESSAGES_MAX))
    if rng.random() < 0.5:
        first = rng.randrange(len(recent) - count + 1)
        chosen = recent[first : first + count]
    else:
        chosen = rng.sample(recent, count)
    return tuple(sorted((message.partition, message.offset) for message in chosen))


def _cold(world: World, log: list[Message]) -> list[Message]:
    """What of a log is in the lake alone."""
    partition = log[0].partition
    return log[world.log_start(partition) : world.store.bounds(partition).start]


def _starts(world: World, ids: Iterable[Id]) -> tuple[tuple[PartitionId, Offset], ...]:
    partitions = {partition for partition, _ in ids} & world.store.partitions().keys()
    return tuple((p, world.log_start(p)) for p in sorted(partitions))


def _source(letter: Message | None) -> Id | None:
    if letter is None or not letter.source_id or not letter.source:
        return None
    partition, offset = parse_message_id(letter.source_id)
    return PartitionId(partition), offset


# What the ledgers learn.


@dataclass(slots=True)
class _Asked:
    """One message that is asked for by a request under way."""

    ledger: Ledger
    card: Card
    was_closed: bool
    #: The letter that is redriven for it.
    letter: Id | None = None


@dataclass(slots=True)
class _Redriven:
    """A letter that was certainly open, and its original, certainly closed: one of them comes."""

    op: Op
    letters: Ledger
    letter: Card
    source: Ledger
    original: Card


class Reopenings:
    """The verbs that deliver again, in one reading of a chronicle."""

    def __init__(self, chronicle: Chronicle, named: Callable[[str], list[Ledger]]) -> None:
        self._chronicle = chronicle
        self._named = named
        self._asked: dict[int, list[_Asked]] = {}
        self._redriven: list[_Redriven] = []

    def reopen(self, op: Op, again: Again, *, is_begin: bool) -> None:
        if is_begin:
            cards = self._cards(op.name, again.ids)
            self._begin(op, [_Asked(ledger, card, _is_closed(card)) for ledger, card in cards])
        else:
            self._end(op)

    def redrive(self, op: Op, again: Again, *, is_begin: bool) -> None:
        if not is_begin:
            self._end(op)
            return
        asked: list[_Asked] = []
        for letters, letter in self._cards(op.name, again.ids):
            was_open = not letter.is_maybe_closed
            if op.may_have_shown:
                # It is acknowledged by that, whoever has read it.
                letter.close(op)
                letters.doubt_after(letter)
            source = _source(letter.message)
            for ledger, card in [] if source is None else self._sources(letter.message, source):
                letter_id = (letters.partition, letter.message.offset)
                one = _Asked(ledger, card, _is_closed(card), letter_id)
                asked.append(one)
                if was_open and one.was_closed and op.may_have_shown:
                    self._redriven.append(_Redriven(op, letters, letter, ledger, card))
        self._begin(op, asked)

    def nothing_is_lost_between(self, end_s: float) -> Iterator[Violation]:
        """P3: of a letter that was redriven and its original, one is there, or a copy."""
        copied = {
            message.attributes[REDRIVEN_FROM]
            for log in self._chronicle.log.values()
            for message in log
            if REDRIVEN_FROM in message.attributes
        }
        lettered: dict[str, int] = {}
        for log in self._chronicle.log.values():
            for message in log:
                if message.source_id:
                    at = lettered.get(message.source_id, 0)
                    lettered[message.source_id] = max(at, message.at)
        for one in self._redriven:
            letter, original, op = one.letter, one.original, one.op
            # Whether copies and letters come is asked of every message. Under a lease that nobody
            # saw, for the process died, the original can become a letter once more.
            if message_id(one.letters.partition, letter.message.offset) in copied:
                continue
            source_id = message_id(one.source.partition, original.message.offset)
            if lettered.get(source_id, 0) > op.begun_at:
                continue
            lease = original.lease
            came = lease is not None and lease.generation > op.begun_generation
            # Nobody is seen to receive what is forwarded: its copy says that it came.
            came = came or original.forwarded_at > op.begun_at
            if came or original.is_drained or letter.is_drained or op.outcome != "cut":
                continue
            # Somebody else may have had to do with either of them since.
            since = [letter.ack_until, original.ack_until]
            since += [one.source.seek_until, one.letters.seek_until]
            if max(since) > op.begun_at or letter.is_rotten or original.is_rotten:
                continue
            if any(side.is_vague or side.settings.detached for side in (one.source, one.letters)):
                continue
            if one.letters.is_expired(letter, end_s) or one.source.has_changed_filters:
                continue
            yield Violation(
                "P3",
                f"neither dead letter {letter.message.offset} of {one.letters.name} nor its "
                f"original {original.message.offset} came after the redrive at {op.begun_at}",
                one.source.id,
                one.source.partition,
                original.message.offset,
            )

    def _begin(self, op: Op, asked: Sequence[_Asked]) -> None:
        if not op.may_have_shown:
            return
        self._asked[op.begun_at] = list(asked)
        for one in asked:
            ledger, card = one.ledger, one.card
            card.moved_until = max(card.moved_until, op.ended_at)
            ledger.reopened_until = max(ledger.reopened_until, op.ended_at)
            card.failures = 0
            # What a filter of another time had left out counts as acknowledged, too.
            card.is_passed = False
            card.is_unjudged |= op.verb == "redrive" or ledger.has_changed_filters
            # A restart may end leases of later ones of its key.
            ledger.doubt_after(card)
            ledger.nacking.setdefault(op.begun_at, []).append(card)

    def _end(self, op: Op) -> None:
        for one in self._asked.pop(op.begun_at, ()):
            ledger, card = one.ledger, one.card
            ledger.nacking.pop(op.begun_at, None)
            if op.outcome != "ok" or not one.was_closed or not isinstance(op.answer, Answered):
                continue
            start = dict(op.answer.starts).get(ledger.partition)
            if start is None or card.message.offset < start or ledger.seek_until > op.begun_at:
                continue
            if one.letter is not None and (
                op.answer.copied or message_id(*one.letter) in op.answer.skipped
            ):
                continue
            if ledger.has_changed_filters:
                # Which of them judges it depends on which are remembered.
                continue
            card.opened_from = max(card.opened_from, op.begun_at)
            card.reopened_s = max(card.reopened_s, op.begun_s)
            card.reopened_generation = max(card.reopened_generation, op.ended_generation)
            ledger.reopened()

    def _cards(self, name: str, ids: Iterable[Id]) -> list[tuple[Ledger, Card]]:
        found: list[tuple[Ledger, Card]] = []
        by_partition = {ledger.partition: ledger for ledger in self._named(name)}
        for partition, offset in ids:
            ledger = by_partition.get(partition)
            card = None if ledger is None else ledger.card(offset)
            if ledger is not None and card is not None and not ledger.is_vague:
                found.append((ledger, card))
        return found

    def _sources(self, letter: Message, source: Id) -> list[tuple[Ledger, Card]]:
        return self._cards(_full_name(letter), [source])


def disturbed(chronicle: Chronicle) -> dict[str, list[int]]:
    """When verbs begin that may change what a delivery says of itself, by subscription."""
    found: dict[str, list[int]] = {}
    for entry in chronicle.entries:
        if entry.kind != "begun":
            continue
        if entry.what.verb in ("seek", "detach", "update subscription", "reopen"):
            found.setdefault(entry.what.name, []).append(entry.at)
        elif entry.what.verb == "redrive":
            letters = [chronicle.message(*one) for one in entry.what.detail.ids]
            for name in {_full_name(one) for one in letters if one is not None and one.source}:
                found.setdefault(name, []).append(entry.at)
    return found


def _full_name(letter: Message) -> str:
    return f"{subscription(0).rpartition('/')[0]}/{letter.source}"


def _is_closed(card: Card) -> bool:
    """Whether it is certainly acknowledged: an ack was confirmed, or its dead letter is there."""
    opened = max(card.opened_from, card.moved_until)
    return card.confirmed_from > opened or card.letter_at > opened
