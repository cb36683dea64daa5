"""Publishers that number their messages, as one partition remembers them. Hard state.

A number that was published before is a repetition, if it is of the same message, and gets the id of
that. A number that leaves others out opens a *gap*: the message is appended, and held back until
the numbers before it have come, or are given up. A number below those that are known is refused,
with the one that is expected: it may have been published, or not.

A publisher is *settled* up to the number before its first gap; all below it came, or do not come
any more. It begins with whatever number it uses first, and again with a higher epoch. Of its last
numbers the messages are known (`limits.PUBLISHER_NUMBERS_MAX`); of a publisher that was silent for
long, nothing is: what the partition knows of those is how many there are, and their highest epoch,
so that none of them passes for a new one unnoticed.

Judging and noting are two steps: offsets are known only when it is clear which messages are new.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.records import (
    ForgottenRecord,
    NumbersRecord,
    PublisherRecord,
    PublisherState,
    digest_of,
)
from fanlog.errors import FailedPrecondition, ResourceExhausted
from fanlog.model import names
from fanlog.model.attributes import PUBLISHER_EPOCH, SEQUENCE
from fanlog.model.resources import Offset, PartitionId
from fanlog.model.sequences import PRINT_BYTES, Numbered


@dataclass(slots=True)
class Publisher:
    """One publisher, and the messages of its numbers that are known."""

    epoch: int = 0
    last: int = 0
    settled: int = 0
    used_s: float = 0.0
    runs: dict[int, NumbersRecord] = field(default_factory=dict)
    #: The first number of each run, in order.
    firsts: list[int] = field(default_factory=list)

    def find(self, number: int) -> tuple[Offset, bytes] | None:
        """The message with a number: its offset, and its hash."""
        index = bisect_right(self.firsts, number) - 1
        if index < 0:
            return None
        run = self.runs[self.firsts[index]]
        place = number - run.first
        if place >= count_of(run):
            return None
        assert run.base is not None
        return run.base + place, run.prints[place * PRINT_BYTES : (place + 1) * PRINT_BYTES]

    @property
    def held_runs(self) -> list[NumbersRecord]:
        """The runs behind a gap, in order of their numbers."""
        index = bisect_right(self.firsts, self.settled)
        return [self.runs[first] for first in self.firsts[index:]]

    @property
    def held_count(self) -> int:
        return sum(map(count_of, self.held_runs))


@dataclass(frozen=True, slots=True)
class Placing:
    """What becomes of messages that are, or were, held back."""

    held: BitMap64
    #: Not held back any more.
    released: BitMap64
    #: What stands behind which message from now on, in order.
    behind: Mapping[Offset, Sequence[Offset]]

    def __bool__(self) -> bool:
        return bool(self.held or self.released or self.behind)


@dataclass(frozen=True, slots=True)
class Gap:
    """What a message that is held back waits for."""

    #: The first number that is missing.
    number: int
    #: When it is given up for this message.
    until_s: float


@dataclass(slots=True)
class _Draft:
    """A publisher as it is to be after a request."""

    digest: bytes
    before: Publisher | None
    epoch: int
    last: int
    settled: int
    is_anew: bool
    #: Index and hash of each new message, by its number.
    fresh: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    def find(self, number: int) -> tuple[Offset, bytes] | None:
        return None if self.before is None or self.is_anew else self.before.find(number)

    def go_on(self) -> None:
        """Numbers that are known are settled, up to the first that is missing."""
        while self.settled < self.last:
            following = self.settled + 1
            if following not in self.fresh and self.find(following) is None:
                return
            self.settled = following


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which messages of one request are new."""

    #: Their indexes, of those without a number as well.
    fresh: Sequence[int]
    #: Where the others are: the offset, or the index of the message of this request.
    known: Mapping[int, tuple[Offset | None, int]]
    _drafts: Sequence[_Draft]

    @property
    def is_holding(self) -> bool:
        """Whether some message is to be held back."""
        return any(draft.settled < draft.last for draft in self._drafts)

    def offsets(self, placed: Mapping[int, Offset], count: int) -> list[Offset]:
        """The offset of every message, given those of the new ones by their indexes."""
        found = []
        for index in range(count):
            if index in self.known:
                offset, other = self.known[index]
                found.append(placed[other] if offset is None else offset)
            else:
                found.append(placed[index])
        return found


class Publishers:
    """The publishers of one partition. Not safe to share between threads."""

    __slots__ = (
        "_ages",
        "_gapped",
        "_known",
        "forgotten",
        "forgotten_epoch",
        "numbers",
        "partition",
    )

    def __init__(self, partition: PartitionId) -> None:
        self.partition = partition
        self._known: dict[bytes, Publisher] = {}
        #: Those with messages behind a gap; in order, so that every run of the tests is alike.
        self._gapped: dict[bytes, None] = {}
        #: Runs in the order in which they came, with their publisher.
        self._ages: dict[tuple[bytes, int], None] = {}
        #: Messages that are known by their numbers.
        self.numbers = 0
        #: How many publishers were forgotten, and the highest epoch of one of them.
        self.forgotten = 0
        self.forgotten_epoch = 0

    def __len__(self) -> int:
        return len(self._known)

    def knows(self, digest: bytes) -> bool:
        """Whether a publisher is remembered."""
        return digest in self._known

    @property
    def is_empty(self) -> bool:
        return not (self._known or self.forgotten)

    # Judging.

    def judge(self, said: Sequence[Numbered | None]) -> Judgement:
        """Decide which messages of a request are new; nothing is changed.

        Raises:
            FailedPrecondition: A number or an epoch is over, or is that of another message.
            ResourceExhausted: More publishers, or messages behind gaps, than are remembered.
        """
        drafts: dict[bytes, _Draft] = {}
        lowest: dict[tuple[str, int], int] = {}
        for one in said:
            if one is not None:
                so_far = lowest.get((one.publisher, one.epoch), one.number)
                lowest[one.publisher, one.epoch] = min(so_far, one.number)
        fresh: list[int] = []
        known: dict[int, tuple[Offset | None, int]] = {}
        for index, one in enumerate(said):
            if one is None:
                fresh.append(index)
                continue
            digest = digest_of(one.publisher)
            draft = drafts.get(digest)
            if draft is None or one.epoch > draft.epoch:
                begun = sum(draft.before is None for draft in drafts.values())
                draft = drafts[digest] = self._draft(index, digest, one, draft, lowest, begun)
            found = _judge(index, one, draft)
            if found is None:
                fresh.append(index)
            else:
                known[index] = found
        for draft in drafts.values():
            self._check_held(draft)
        return Judgement(fresh, known, list(drafts.values()))

    def _draft(
        self,
        index: int,
        digest: bytes,
        one: Numbered,
        draft: _Draft | None,
        lowest: Mapping[tuple[str, int], int],
        begun: int,
    ) -> _Draft:
        before = self._known.get(digest)
        if draft is None and before is not None and one.epoch <= before.epoch:
            return _Draft(digest, before, before.epoch, before.last, before.settled, False)
        first = lowest[one.publisher, one.epoch]
        if draft is None and before is None:
            self._check_new(index, one, first, begun)
        # It begins with the lowest number of the request.
        return _Draft(digest, before, one.epoch, first - 1, first - 1, True)

    def _check_new(self, index: int, one: Numbered, first: int, begun: int) -> None:
        """Check that a publisher that is not known may begin."""
        name = names.shown(one.publisher)
        if self.forgotten and one.epoch <= self.forgotten_epoch and first > 1:
            raise FailedPrecondition(
                f"messages[{index}].attributes: {SEQUENCE} is {one.number}, and publisher {name} "
                "is not known: it is new, or was silent for so long that it is forgotten, and then "
                "this message may be a repetition; the number expected next is 1, or any in "
                f"{PUBLISHER_EPOCH} {self.forgotten_epoch + 1}"
            )
        if len(self._known) + begun >= limits.PUBLISHERS_MAX:
            raise ResourceExhausted(
                f"messages[{index}].attributes: publisher {name} is not known, and the topic "
                f"remembers {limits.PUBLISHERS_MAX} others already, which is all it can; one that "
                "is silent for the topic's fanlog-publisher-life is forgotten"
            )

    def _check_held(self, draft: _Draft) -> None:
        if draft.settled == draft.last or not draft.fresh:
            return
        held = sum(number > draft.settled for number in draft.fresh)
        if draft.before is not None and not draft.is_anew:
            held += sum(
                count_of(run) for run in draft.before.held_runs if run.first > draft.settled
            )
        if held > limits.PUBLISHER_HELD_MAX:
            raise ResourceExhausted(
                f"{held} messages of one publisher would wait for number {draft.settled + 1}; at "
                f"most {limits.PUBLISHER_HELD_MAX} may: publish that one first"
            )

    # Noting.

    def note(
        self, judgement: Judgement, placed: Mapping[int, Offset], now: float
    ) -> tuple[list[PublisherState], Placing]:
        """The records of a request, and the places of messages behind gaps.

        `placed` are the offsets of new messages by their indexes.
        """
        records: list[PublisherState] = []
        held, released = BitMap64(), BitMap64()
        behind: dict[Offset, list[Offset]] = {}
        for draft in judgement._drafts:
            if not draft.fresh:
                continue
            runs = list(self._runs_of(draft, placed, now))
            known = draft.before.runs if draft.before is not None else {}
            if draft.is_anew:
                records += (_without(run) for run in known.values())
                if draft.before is not None and (left := _offsets(draft.before.held_runs)):
                    # The epoch of these is over, and so are the gaps before them.
                    released.update(left)
                    first = min(placed[index] for index, _ in draft.fresh.values())
                    behind.setdefault(first - 1, []).extend(left)
            was_held = [] if draft.is_anew or draft.before is None else draft.before.held_runs
            opened = [run for run in was_held if run.first <= draft.settled]
            released.update(_offsets(opened))
            for anchor, offsets in _order(draft.settled, opened, runs).items():
                behind.setdefault(anchor, []).extend(offsets)
            held.update(_offsets(run for run in runs if run.first > draft.settled))
            records += runs
            records.append(
                PublisherRecord(
                    self.partition, draft.digest, draft.epoch, draft.last, draft.settled, now
                )
            )
            if not draft.is_anew:
                records += self._shorten(draft, runs)
        return records, Placing(held, released, behind)

    def _runs_of(
        self, draft: _Draft, placed: Mapping[int, Offset], now: float
    ) -> Iterator[NumbersRecord]:
        """New messages of a publisher in runs."""
        first = base = -1
        prints = b""
        for number, (index, one) in sorted(draft.fresh.items()):
            offset, count = placed[index], len(prints) // PRINT_BYTES
            if prints and (number != first + count or offset != base + count):
                yield NumbersRecord(self.partition, draft.digest, first, base, now, prints)
                prints = b""
            if not prints:
                first, base = number, offset
            prints += one
        if prints:
            yield NumbersRecord(self.partition, draft.digest, first, base, now, prints)

    def _shorten(self, draft: _Draft, runs: Sequence[NumbersRecord]) -> Iterator[NumbersRecord]:
        """The records that forget old numbers: of this publisher, or the oldest of all."""
        assert draft.before is not None
        added = sum(map(count_of, runs))
        known = draft.before.runs
        excess = sum(map(count_of, known.values())) + added - limits.PUBLISHER_NUMBERS_MAX
        gone = 0
        for first in draft.before.firsts:
            count = count_of(known[first])
            if first > draft.settled or gone + count > excess:
                break
            gone += count
            yield _without(known[first])

    def forget_numbers(self) -> Iterator[NumbersRecord]:
        """The records that forget the oldest numbers, where there are too many in all."""
        excess = self.numbers - limits.TOPIC_NUMBERS_MAX
        if excess <= 0:
            return
        for digest, first in self._ages:
            publisher = self._known[digest]
            if first > publisher.settled:
                continue
            yield _without(publisher.runs[first])
            excess -= count_of(publisher.runs[first])
            if excess <= 0:
                return

    # Gaps that are given up.

    def gap_before(self, offset: Offset, timeout_s: float) -> Gap | None:
        """What a message waits for; None for one that is not held back."""
        for digest in self._gapped:
            publisher = self._known[digest]
            held = publisher.held_runs
            for index, run in enumerate(held):
                if run.base is not None and run.base <= offset < run.base + count_of(run):
                    # It goes with later ones that came before it.
                    arrived_s = min(one.arrived_s for one in held[index:])
                    number = self._missing_before(publisher, run.first)
                    return Gap(number, arrived_s + timeout_s)
        return None

    @staticmethod
    def _missing_before(publisher: Publisher, first: int) -> int:
        """The first number that is missing; there is one before `first`."""
        number = publisher.settled + 1
        for run in publisher.held_runs:
            if run.first != number:
                break
            number += count_of(run)
        assert number < first
        return number

    @property
    def held(self) -> list[Offset]:
        """Messages that are held back behind gaps: of each publisher in the order of numbers."""
        return [
            offset for digest in self._gapped for offset in _offsets(self._known[digest].held_runs)
        ]

    def next_deadline(self, timeout_s: float) -> float | None:
        """When the next message has been held back for long enough."""
        arrived = [run.arrived_s for one in self._gapped for run in self._known[one].held_runs]
        return min(arrived) + timeout_s if arrived else None

    def give_up(
        self, now: float, timeout_s: float, end: Offset
    ) -> tuple[list[PublisherState], Placing, int]:
        """End gaps before messages that were held back for too long, in a partition of that end.

        The records, the places of these messages, and how many publishers had such a gap.
        """
        records: list[PublisherState] = []
        released, behind = BitMap64(), list[Offset]()
        for digest in self._gapped:
            publisher = self._known[digest]
            held = publisher.held_runs
            late = [run for run in held if run.arrived_s + timeout_s <= now]
            if not late:
                continue
            settled = late[-1].first + count_of(late[-1]) - 1
            for run in held:
                if run.first == settled + 1:
                    settled += count_of(run)
            opened = _offsets(run for run in held if run.first <= settled)
            released.update(opened)
            behind += opened
            records.append(
                PublisherRecord(
                    *(self.partition, digest, publisher.epoch, publisher.last, settled),
                    publisher.used_s,
                )
            )
        return (
            records,
            Placing(BitMap64(), released, {end - 1: behind} if behind else {}),
            len(records),
        )

    # Forgetting.

    def expire(self, now: float, life_s: float, *, limit: int) -> list[PublisherState]:
        """The records that forget publishers which were silent for so long."""
        over = (
            (digest, one)
            for digest, one in self._known.items()
            if one.used_s + life_s <= now and not one.held_runs
        )
        records: list[PublisherState] = []
        count, epoch = self.forgotten, self.forgotten_epoch
        for digest, one in islice(over, limit):
            records += self._remove(digest, one)
            count, epoch = count + 1, max(epoch, one.epoch)
        if records:
            records.append(ForgottenRecord(self.partition, count, epoch))
        return records

    def forget(self, *, limit: int) -> list[PublisherState]:
        """The records that forget all of it, a part at a time, once the partition is deleted."""
        records: list[PublisherState] = []
        for digest, one in islice(self._known.items(), limit):
            records += self._remove(digest, one)
        if len(self._known) <= limit:
            records.append(ForgottenRecord(self.partition, None, 0))
        return records

    def _remove(self, digest: bytes, publisher: Publisher) -> Iterator[PublisherState]:
        yield from map(_without, publisher.runs.values())
        yield PublisherRecord(self.partition, digest, None, 0, 0, 0.0)

    # Hard state.

    def apply(self, record: PublisherState) -> None:
        """Change hard state. The only method that does."""
        match record:
            case PublisherRecord(epoch=None):
                self._known.pop(record.digest, None)
                self._gapped.pop(record.digest, None)
            case PublisherRecord(epoch=int(epoch)):
                one = self._known.setdefault(record.digest, Publisher())
                one.epoch, one.last, one.settled = epoch, record.last, record.settled
                one.used_s = record.used_s
                self._look_for_gap(record.digest, one)
            case NumbersRecord():
                self._apply_numbers(record)
            case ForgottenRecord():
                self.forgotten = record.count or 0
                self.forgotten_epoch = record.epoch

    def _apply_numbers(self, record: NumbersRecord) -> None:
        one = self._known.setdefault(record.digest, Publisher())
        before = one.runs.pop(record.first, None)
        if before is not None:
            one.firsts.remove(record.first)
            del self._ages[record.digest, record.first]
            self.numbers -= count_of(before)
        if record.base is not None:
            one.runs[record.first] = record
            insort(one.firsts, record.first)
            self._ages[record.digest, record.first] = None
            self.numbers += count_of(record)
        self._look_for_gap(record.digest, one)

    def _look_for_gap(self, digest: bytes, one: Publisher) -> None:
        if one.firsts and one.firsts[-1] > one.settled:
            self._gapped[digest] = None
        else:
            self._gapped.pop(digest, None)

    def sort(self) -> None:
        """Bring runs into the order in which they came, after recovery."""

        def age(key: tuple[bytes, int]) -> Offset:
            return self._known[key[0]].runs[key[1]].base or 0

        self._ages = dict.fromkeys(sorted(self._ages, key=age))


class PublisherTable:
    """The publishers of all partitions. Most have none."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionId, Publishers] = {}

    def __iter__(self) -> Iterator[Publishers]:
        return iter(list(self._by_partition.values()))

    def on(self, partition: PartitionId) -> Publishers:
        found = self._by_partition.get(partition)
        return Publishers(partition) if found is None else found

    def apply(self, record: PublisherState) -> None:
        """Change hard state. The only method that does."""
        found = self._by_partition.setdefault(record.partition, Publishers(record.partition))
        found.apply(record)
        if found.is_empty:
            del self._by_partition[record.partition]

    def sort(self) -> None:
        for one in self._by_partition.values():
            one.sort()


def count_of(run: NumbersRecord) -> int:
    return len(run.prints) // PRINT_BYTES


def _judge(index: int, one: Numbered, draft: _Draft) -> tuple[Offset | None, int] | None:
    """Where the message is that one repeats; None for a new one, which is noted in the draft."""
    where, name = f"messages[{index}].attributes:", names.shown(one.publisher)
    # Of a request that is refused nothing is published.
    known = draft if draft.before is None or draft.is_anew else draft.before
    expected = known.settled + 1
    if one.epoch < draft.epoch:
        raise FailedPrecondition(
            f"{where} {PUBLISHER_EPOCH} is {one.epoch}, which is over for publisher {name}: its "
            f"epoch is {draft.epoch}, and the number expected next {expected}"
        )
    own = draft.fresh.get(one.number)
    found = (None, own[1]) if own is not None else draft.find(one.number)
    if found is not None:
        if found[1] != one.fingerprint:
            raise FailedPrecondition(
                f"{where} {SEQUENCE} is {one.number}, which publisher {name} has used for another "
                f"message; the number expected next is {expected}, and a publisher that counts "
                f"anew has a higher {PUBLISHER_EPOCH} than {draft.epoch}"
            )
        return found[0], -1 if own is None else own[0]
    if one.number <= draft.settled:
        raise FailedPrecondition(
            f"{where} {SEQUENCE} is {one.number}, which is over for publisher {name}: the number "
            f"expected next is {expected}, and a publisher that counts anew has a higher "
            f"{PUBLISHER_EPOCH} than {draft.epoch}"
        )
    draft.fresh[one.number] = index, one.fingerprint
    draft.last = max(draft.last, one.number)
    draft.go_on()
    return None


def _order(
    settled: int, opened: Sequence[NumbersRecord], fresh: Sequence[NumbersRecord]
) -> dict[Offset, list[Offset]]:
    """What has to stand behind another message, so that settled numbers are in order."""
    behind: dict[Offset, list[Offset]] = {}
    anchor: Offset | None = None
    was_held = BitMap64(_offsets(opened))
    for run in sorted([*opened, *fresh], key=lambda run: run.first):
        if run.first > settled:
            break
        for offset in _offsets([run]):
            if anchor is not None and (offset < anchor or offset in was_held):
                behind.setdefault(anchor, []).append(offset)
            else:
                anchor = offset
    return behind


def _offsets(runs: Iterator[NumbersRecord] | Sequence[NumbersRecord]) -> list[Offset]:
    return [
        run.base + place for run in runs if run.base is not None for place in range(count_of(run))
    ]


def _without(run: NumbersRecord) -> NumbersRecord:
    return NumbersRecord(run.partition, run.digest, run.first, None, 0.0, b"")
