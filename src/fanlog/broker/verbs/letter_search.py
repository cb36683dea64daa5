"""The search for dead letters on the subscription that reads them: by selection, or by message id.

Nothing is leased. A search looks at so many messages at most; a *place* says where the next one
goes on, and where the letters ended when the first one began.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.ports import Candidates
from fanlog.broker.transaction import Ledger
from fanlog.core.dead_letter import (
    ACKED,
    LEASED,
    UNREADABLE,
    Letter,
    LetterOutcome,
    LetterPlace,
    LetterSelection,
)
from fanlog.core.share import Share
from fanlog.errors import InvalidArgument
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Letters of one batch that are judged before other tasks may run.
STEP = 256

#: Partition and offset of a message.
Id = tuple[PartitionId, Offset]


class Found(NamedTuple):
    """A letter, and the batch that it stands in."""

    letter: Letter
    batch: Batch


@dataclass(eq=False)
class LetterSearch:
    """Finds the dead letters of one broker. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _access: Access
    _shares: Shares
    _candidates: Candidates

    async def scan(
        self, name: str, selection: LetterSelection, after: LetterPlace | None
    ) -> AsyncGenerator[tuple[Found | None, LetterPlace]]:
        """Letters that are selected, each with the place after it; None when that was enough."""
        self._access.check_serving()
        subscription = self._access.enter(name)
        # Judged first: messages that the filter leaves out are none of this subscription's.
        await self._shares.judge_all(name)
        place = after or LetterPlace(self._store.last_sequence)
        seen = steps = 0
        for partition in sorted(s.partition for s in self._ledger.hard.shares_of(subscription)):
            if place.partition is not None and partition < place.partition:
                continue
            offset = place.offset if partition == place.partition else 0
            while True:
                share = self._ledger.hard.share(subscription.id, partition)
                end = self._ledger.end(partition)
                start = end if share is None else _next_open(share, offset, end)
                found = await self._store.read(partition, start, max_bytes=1) if start < end else []
                if share is None or not found or found[0].base_offset > end:
                    break
                for one in self._letters_of(share, found[0], start, place.sequence):
                    place = LetterPlace(place.sequence, partition, one.letter.offset + 1)
                    seen += 1
                    if selection.has(one.letter):
                        yield one, place
                    elif seen - steps >= STEP:
                        # A filter may read the data of each.
                        steps = seen
                        await asyncio.sleep(0)
                offset = found[0].base_offset + found[0].count
                if isinstance(found[0], Batch) and found[0].sequence > place.sequence:
                    break
                if seen >= limits.LETTERS_SEEN_MAX:
                    yield None, LetterPlace(place.sequence, partition, offset)
                await asyncio.sleep(0)

    def _letters_of(
        self, share: Share, batch: Batch | Damaged, start: Offset, last_sequence: int
    ) -> Iterable[Found]:
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
    ) -> Found:
        index, seal = offset - batch.base_offset, batch.seal
        topic = self._ledger.hard.catalog.topic_name_of(batch.partition).rpartition("/")[2]
        [message] = self._candidates(batch, index, index + 1, topic, EVERYTHING)
        letter = Letter(
            partition,
            offset,
            message,
            batch.publish_time_ns,
            is_believed=seal is None or seal.is_letter,
            is_of_copy=seal is not None and seal.is_copy,
            is_leased=is_leased,
        )
        return Found(letter, batch)

    async def select(
        self,
        name: str,
        selection: LetterSelection,
        after: LetterPlace | None,
        limit: int,
        outcome: LetterOutcome,
    ) -> AsyncIterator[list[Found]]:
        """Letters that are selected, in steps of one commit; then `outcome` has where to go on."""
        step, count, before = LetterStep(), 0, after
        async with aclosing(self.scan(name, selection, after)) as scan:
            async for found, place in scan:
                if found is None or count >= limit:
                    outcome.next = place if found is None else before
                    break
                before = place
                count += 1
                if found.letter.is_leased:
                    outcome.skipped.append((found.letter.id, LEASED))
                elif step.add(found):
                    yield step.take()
        if step.found:
            yield step.take()

    async def by_id(
        self, name: str, ids: Sequence[Id], outcome: LetterOutcome
    ) -> AsyncIterator[list[Found]]:
        """The letters of some ids, in steps of one commit; those that are none are skipped."""
        wanted = self._check_ids(self._access.enter(name), ids)
        await self._shares.judge_all(name)
        step = LetterStep()
        batch: Batch | None = None
        for partition, offset in wanted:
            share = self._ledger.hard.share(self._access.enter(name).id, partition)
            start, end = self._ledger.start_of(partition), self._ledger.end(partition)
            if share is None or not start <= offset < end or not share.is_open(offset):
                outcome.skipped.append((message_id(partition, offset), ACKED))
                continue
            if batch is None or batch.partition != partition or offset >= batch.end_offset:
                found = await self._store.read(partition, offset, max_bytes=1)
                batch = found[0] if found and isinstance(found[0], Batch) else None
            if batch is None or offset < batch.base_offset:
                outcome.skipped.append((message_id(partition, offset), UNREADABLE))
            elif step.add(self._letter(partition, batch, offset)):
                yield step.take()
        if step.found:
            yield step.take()

    def _check_ids(self, subscription: Subscription, ids: Sequence[Id]) -> list[Id]:
        """The ids in order, each once."""
        hard = self._ledger.hard
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


class LetterStep:
    """Letters that are read together, and held in memory with their batches."""

    def __init__(
        self,
        most: int = limits.LETTERS_STEP_MAX,
        most_bytes: int = limits.LETTERS_STEP_BYTES_MAX,
    ) -> None:
        self.found: list[Found] = []
        self._most = most
        self._most_bytes = most_bytes
        self._size_bytes = 0

    def add(self, one: Found) -> bool:
        """Take one more; whether it is enough."""
        if not self.found or self.found[-1].batch is not one.batch:
            self._size_bytes += len(one.batch.content)
        self.found.append(one)
        return len(self.found) >= self._most or self._size_bytes >= self._most_bytes

    def take(self) -> list[Found]:
        found, self.found, self._size_bytes = self.found, [], 0
        return found


class _Everything:
    needs_message = needs_attributes = needs_payload = True


EVERYTHING = _Everything()


def _next_open(share: Share, start: Offset, end: Offset) -> Offset:
    first, _ = next(share.open_ranges(start, end), (end, end))
    return first
