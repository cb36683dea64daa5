"""Dead letters on the subscription that reads them: listed, redriven, discarded.

A letter is *redriven* by reopening its original on the subscription it failed on; the letter is
acknowledged in the same commit. A letter whose original is gone is left alone, with the reason; who
asks for copies gets one published to the topic it came from, for the subscription it failed on
alone, and that is one commit with the acknowledgement, too.

What a letter says of itself is believed only if the broker sealed its batch as letters.

Only letters that nobody holds are touched: who has leased one is at work on it, and would not know.

A request looks at so many messages at most and is done in steps of one commit each. What it has not
come to, the next one goes on with, from a *place*; that also says where the letters ended when the
first request came, so that what fails again meanwhile is left for another time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.dead_lettering import Compose
from fanlog.broker.delivery.partition_filters import Candidates
from fanlog.broker.verbs.dead_letter import (
    ACKED,
    LEASED,
    NO_LETTER,
    NO_TOPIC,
    NOT_READ,
    UNREADABLE,
    Letter,
    Outcome,
    Place,
    Selection,
)
from fanlog.broker.writer import Publication
from fanlog.core.records import Record, RememberedAnswer
from fanlog.core.share import Decision, Share
from fanlog.errors import InvalidArgument
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.log.seal import Seal
from fanlog.model import attributes
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker

#: Partition and offset of a message.
Id = tuple[PartitionId, Offset]

#: What copies do not say: that they are dead letters, and that they were published before.
_LEFT_OUT = (*attributes.DEAD_LETTER, attributes.DEDUP_ID)


class Letters:
    """The verbs of dead letters. Lives on the loop."""

    def __init__(
        self,
        broker: Broker,
        store: Log,
        clock: Clock,
        compose: Compose,
        candidates: Candidates,
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._compose = compose
        self._candidates = candidates

    async def listed(
        self, name: str, selection: Selection, after: Place | None, limit: int
    ) -> tuple[list[Letter], Place | None]:
        """Letters that are not acknowledged, in order; nothing is leased. And where to go on."""
        step = Step(limit, limits.ANSWER_BYTES_MAX)
        async with aclosing(self._scan(name, selection, after)) as scan:
            async for letter, place in scan:
                if letter is None or step.add(letter):
                    return step.taken(), place
        await self._broker.writer.settled()
        return step.taken(), None

    async def redrive(
        self, name: str, ids: Sequence[Id], request_id: str = "", *, copies: bool = False
    ) -> Outcome:
        """Redrive letters by their message ids; durable when this returns.

        With `copies`, letters whose originals are gone are published anew where they failed.

        Raises:
            FailedPrecondition: The subscription is detached.
            InvalidArgument: An id is none of a message that the subscription reads.
            DiskFull: There is no room for copies; some letters may be redriven.
        """
        self._broker.check_serving()
        subscription = self._broker.admin.attached(name)
        requests, now = self._broker.hard.requests, self._clock.now()
        done = requests.find(subscription.id, request_id, now)
        if done is not None:
            await self._broker.writer.settled()
            return Outcome(reopened=done.reopened, copied=done.copied, skipped_before=done.skipped)
        outcome = Outcome()
        async for letters in self._by_id(name, ids, outcome):
            await self._redrive_some(name, letters, outcome, copies=copies)
        answer = RememberedAnswer(
            reopened=outcome.reopened, copied=outcome.copied, skipped=len(outcome.skipped)
        )
        remembered = self._broker.hard.requests.remember(
            subscription.id,
            request_id,
            answer,
            expires_s=now + limits.REQUEST_ID_S,
            most=limits.REQUEST_IDS_MAX,
        )
        if remembered and self._broker.hard.catalog.subscription_by_id(subscription.id):
            await self._broker.commit(remembered)
        return outcome

    async def redrive_all(
        self,
        name: str,
        selection: Selection,
        after: Place | None,
        limit: int,
        *,
        copies: bool = False,
    ) -> Outcome:
        """Redrive up to `limit` letters that are selected; raises as `redrive` does."""
        outcome = Outcome()
        async for letters in self._selected(name, selection, after, limit, outcome):
            await self._redrive_some(name, letters, outcome, copies=copies)
        return outcome

    async def discard(self, name: str, ids: Sequence[Id]) -> Outcome:
        """Acknowledge letters by their message ids; durable when this returns."""
        self._broker.check_serving()
        outcome = Outcome()
        async for letters in self._by_id(name, ids, outcome):
            await self._discard_some(name, letters, outcome)
        return outcome

    async def discard_all(
        self, name: str, selection: Selection, after: Place | None, limit: int
    ) -> Outcome:
        """Acknowledge up to `limit` letters that are selected; durable when this returns."""
        outcome = Outcome()
        async for letters in self._selected(name, selection, after, limit, outcome):
            await self._discard_some(name, letters, outcome)
        return outcome

    # Finding.

    async def _scan(
        self, name: str, selection: Selection, after: Place | None
    ) -> AsyncGenerator[tuple[Letter | None, Place]]:
        """Letters that are selected, each with the place after it; None when that was enough."""
        self._broker.check_serving()
        subscription = self._broker.admin.attached(name)
        # Judged first: what the filter leaves out is none of this subscription's.
        await self._broker.admin.route_all(name)
        place = after or Place(self._store.last_sequence)
        seen = 0
        for partition in sorted(s.partition for s in self._broker.hard.shares_of(subscription)):
            if place.partition is not None and partition < place.partition:
                continue
            offset = place.offset if partition == place.partition else 0
            while True:
                share = self._broker.hard.share(subscription.id, partition)
                end = self._broker.writer.end(partition)
                start = end if share is None else _next_open(share, offset, end)
                found = await self._store.read(partition, start, max_bytes=1) if start < end else []
                if share is None or not found or found[0].base_offset > end:
                    break
                for letter in self._letters_of(share, found[0], start, place.sequence):
                    place = Place(place.sequence, partition, letter.offset + 1)
                    seen += 1
                    if selection.has(letter):
                        yield letter, place
                offset = found[0].base_offset + found[0].count
                if isinstance(found[0], Batch) and found[0].sequence > place.sequence:
                    break
                if seen >= limits.LETTERS_SEEN_MAX:
                    yield None, Place(place.sequence, partition, offset)
                await asyncio.sleep(0)

    def _letters_of(
        self, share: Share, batch: Batch | Damaged, start: Offset, last_sequence: int
    ) -> Iterable[Letter]:
        """Unacknowledged messages of one batch, of those up to a commit."""
        if isinstance(batch, Damaged) or batch.sequence > last_sequence:
            return
        first = max(start, batch.base_offset)
        offsets = BitMap64(range(first, batch.end_offset))
        free = share.free(offsets)
        for low, high in share.open_ranges(first, batch.end_offset):
            for offset in range(low, high):
                yield self._letter(share.partition, batch, offset, is_leased=offset not in free)

    def _letter(
        self, partition: PartitionId, batch: Batch, offset: Offset, *, is_leased: bool = False
    ) -> Letter:
        index = offset - batch.base_offset
        [message] = self._candidates(batch, index, index + 1, "", _EVERYTHING)
        return Letter(partition, offset, message, batch, is_leased)

    async def _selected(
        self,
        name: str,
        selection: Selection,
        after: Place | None,
        limit: int,
        outcome: Outcome,
    ) -> AsyncIterator[list[Letter]]:
        """Letters that are selected, in steps of one commit; then `outcome` has where to go on."""
        step, count, before = Step(), 0, after
        async with aclosing(self._scan(name, selection, after)) as scan:
            async for letter, place in scan:
                if letter is None or count >= limit:
                    outcome.next = place if letter is None else before
                    break
                before = place
                count += 1
                if letter.is_leased:
                    outcome.skipped.append((letter.id, LEASED))
                elif step.add(letter):
                    yield step.taken()
        if step.letters:
            yield step.taken()

    async def _by_id(
        self, name: str, ids: Sequence[Id], outcome: Outcome
    ) -> AsyncIterator[list[Letter]]:
        """The letters of some ids, in steps of one commit; those that are none are skipped."""
        wanted = self._checked(self._broker.admin.attached(name), ids)
        await self._broker.admin.route_all(name)
        step = Step()
        batch: Batch | None = None
        for partition, offset in wanted:
            share = self._broker.hard.share(self._broker.admin.attached(name).id, partition)
            start, end = self._broker.writer.start(partition), self._broker.writer.end(partition)
            if share is None or not start <= offset < end or not share.is_open(offset):
                outcome.skipped.append((message_id(partition, offset), ACKED))
                continue
            if batch is None or batch.partition != partition or offset >= batch.end_offset:
                found = await self._store.read(partition, offset, max_bytes=1)
                batch = found[0] if found and isinstance(found[0], Batch) else None
            if batch is None or offset < batch.base_offset:
                outcome.skipped.append((message_id(partition, offset), UNREADABLE))
            elif step.add(self._letter(partition, batch, offset)):
                yield step.taken()
        if step.letters:
            yield step.taken()

    def _checked(self, subscription: Subscription, ids: Sequence[Id]) -> list[Id]:
        """The ids in order, each once."""
        hard = self._broker.hard
        for partition in {partition for partition, _ in ids}:
            is_known = bool(hard.catalog.topic_name_of(partition))
            if hard.share(subscription.id, partition) is None and (
                is_known or not subscription.is_pattern
            ):
                some = next(message_id(*one) for one in ids if one[0] == partition)
                raise InvalidArgument(
                    f"message_ids: {some!r} is of no topic that {subscription.name!r} reads"
                )
        return sorted(set(ids))

    # Deciding.

    async def _redrive_some(
        self, name: str, letters: Sequence[Letter], outcome: Outcome, *, copies: bool
    ) -> None:
        """Bring letters back, each with its acknowledgement in one commit."""
        subscription = self._broker.admin.attached(name)
        originals: defaultdict[Share, BitMap64] = defaultdict(BitMap64)
        reopening: list[Letter] = []
        copying: defaultdict[Share, list[Letter]] = defaultdict(list)
        for letter in self._free(subscription, letters, outcome):
            share = self._original_share(letter)
            if share is not None and letter.source is not None:
                originals[share].add(letter.source[1])
                reopening.append(letter)
                continue
            found = self._share_for_copy(letter)
            if isinstance(found, str):
                outcome.skipped.append((letter.id, found))
            elif not copies:
                outcome.skipped.append((letter.id, self._gone(letter)))
            else:
                copying[found].append(letter)
        commits: list[asyncio.Future[None]] = []
        if reopening:
            commits.append(self._reopen(subscription, originals, reopening))
            outcome.reopened += len(reopening)
        for share, some in copying.items():
            commits.append(self._copy(subscription, share, some))
            outcome.copied += len(some)
        for committed in commits:
            await committed

    def _original_share(self, letter: Letter) -> Share | None:
        """Where the original can be reopened; None if it cannot."""
        hard, writer = self._broker.hard, self._broker.writer
        if letter.source is None or not hard.catalog.has_subscription(letter.source_subscription):
            return None
        partition, offset = letter.source
        source = hard.catalog.subscription(letter.source_subscription)
        share = None if source.detached else hard.share(source.id, partition)
        is_there = writer.start(partition) <= offset < writer.end(partition)
        return share if is_there else None

    def _share_for_copy(self, letter: Letter) -> Share | str:
        """Where a copy would be read, as the original was; or why nobody would read one."""
        catalog, name = self._broker.hard.catalog, letter.source_subscription
        if not name or letter.source is None:
            return NO_LETTER
        if not catalog.has_subscription(name):
            return f"the subscription it failed on, {name}, is gone"
        source = catalog.subscription(name)
        if source.detached:
            return f"the subscription it failed on, {name}, is detached"
        topic = catalog.find_topic(letter.source_topic)
        if topic is None:
            return NO_TOPIC
        share = self._broker.hard.share(source.id, topic.partitions[0])
        return NOT_READ if share is None else share

    def _gone(self, letter: Letter) -> str:
        """Why an original cannot be reopened, and what can be done."""
        assert letter.source is not None
        partition, _ = letter.source
        start = self._broker.writer.start(partition)
        # Another topic of that name has another partition: nothing of the first one is kept.
        why = f"nothing before {message_id(partition, start)} is kept"
        return (
            f"its original, {letter.source_id}, is gone ({why if start else 'topic deleted'}); "
            f"ask for copies to have it published again for {letter.source_subscription} alone"
        )

    def _reopen(
        self,
        subscription: Subscription,
        originals: Mapping[Share, BitMap64],
        letters: Sequence[Letter],
    ) -> asyncio.Future[None]:
        broker = self._broker
        records: list[Record] = []
        for share, offsets in originals.items():
            # They were delivered once: whatever the filter is now, they are wanted.
            decision = share.reopen(
                self._clock.now(), offsets, generation=broker.next_generation(), is_wanted=True
            )
            broker.metrics.of(share.settings.id).reopened += decision.count
            broker.hard.apply_all(decision.records)
            records += decision.records
            decision.records = []
            broker.decide(share, decision)
        records += self._acknowledge(subscription, letters)
        return broker.writer.submit(records=records)[0]

    def _copy(
        self, subscription: Subscription, share: Share, letters: Sequence[Letter]
    ) -> asyncio.Future[None]:
        """Publish copies for one share alone, whose feed is woken: its filter may not want them."""
        broker, partition = self._broker, share.partition
        topic = broker.hard.catalog.topic_of(partition)
        assert topic is not None
        body = self._compose(
            [(one.batch, one.offset - one.batch.base_offset, _origin(one)) for one in letters],
            _LEFT_OUT,
        )
        body = replace(body, seal=Seal(is_copy=True, addressee=share.settings.id))
        broker.writer.check_room(len(body.content))
        first = broker.writer.assigned_end(partition)
        addressed = broker.hard.addresses.add(
            partition, share.settings.id, first, first + body.count
        )
        broker.hard.apply(addressed)
        committed, base = broker.writer.submit(
            records=[addressed, *self._acknowledge(subscription, letters)],
            publication=Publication(topic.id, partition, body),
        )
        assert base == first
        # Not left to whoever waits for the commit: a caller may go away before.
        committed.add_done_callback(lambda _: broker.decide(share, Decision()))
        return committed

    async def _discard_some(self, name: str, letters: Sequence[Letter], outcome: Outcome) -> None:
        subscription = self._broker.admin.attached(name)
        free = self._free(subscription, letters, outcome)
        if free:
            records = self._acknowledge(subscription, free)
            outcome.discarded += len(free)
            await self._broker.writer.submit(records=records)[0]

    def _free(
        self, subscription: Subscription, letters: Sequence[Letter], outcome: Outcome
    ) -> list[Letter]:
        """Letters that nobody acknowledged or leased while they were read."""
        found: list[Letter] = []
        for letter in letters:
            share = self._broker.hard.share(subscription.id, letter.partition)
            if share is None or not share.is_open(letter.offset):
                outcome.skipped.append((letter.id, ACKED))
            elif not share.free(BitMap64([letter.offset])):
                outcome.skipped.append((letter.id, LEASED))
            else:
                found.append(letter)
        return found

    def _acknowledge(self, subscription: Subscription, letters: Sequence[Letter]) -> list[Record]:
        """Apply the acknowledgements of letters that are free; the records are to be submitted."""
        broker = self._broker
        records: list[Record] = []
        by_partition: defaultdict[PartitionId, BitMap64] = defaultdict(BitMap64)
        for letter in letters:
            by_partition[letter.partition].add(letter.offset)
        for partition, offsets in by_partition.items():
            share = broker.hard.share(subscription.id, partition)
            assert share is not None
            decision = share.discard(offsets)
            broker.hard.apply_all(decision.records)
            broker.metrics.of(subscription.id).acknowledged += decision.count
            records += decision.records
            decision.records = []
            broker.decide(share, decision)
        return records


class Step:
    """Letters that are read together, and held in memory with their batches."""

    def __init__(
        self,
        most: int = limits.LETTERS_STEP_MAX,
        most_bytes: int = limits.LETTERS_STEP_BYTES_MAX,
    ) -> None:
        self.letters: list[Letter] = []
        self._most = most
        self._most_bytes = most_bytes
        self._size_bytes = 0

    def add(self, letter: Letter) -> bool:
        """Take one more; whether it is enough."""
        if not self.letters or self.letters[-1].batch is not letter.batch:
            self._size_bytes += len(letter.batch.content)
        self.letters.append(letter)
        return len(self.letters) >= self._most or self._size_bytes >= self._most_bytes

    def taken(self) -> list[Letter]:
        letters, self.letters, self._size_bytes = self.letters, [], 0
        return letters


class _Everything:
    needs_message = needs_attributes = needs_payload = True


_EVERYTHING = _Everything()


def _origin(letter: Letter) -> dict[str, str]:
    return {
        attributes.SOURCE_TOPIC: letter.source_topic,
        attributes.SOURCE_ID: letter.source_id,
        attributes.REDRIVEN_FROM: letter.id,
        attributes.ORIGINAL_ID: letter.original_id,
    }


def _next_open(share: Share, start: Offset, end: Offset) -> Offset:
    first, _ = next(share.open_ranges(start, end), (end, end))
    return first
