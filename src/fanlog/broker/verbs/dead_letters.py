"""Dead letters on the subscription that reads them: listed, redriven, discarded.

A letter is *redriven* by reopening its original on the subscription it failed on; the letter is
acknowledged in the same commit. A letter whose original is gone is left alone, with the reason. If
the request asks for copies, a copy is published to the topic it came from, for the subscription it
failed on alone, and that is one commit with the acknowledgement, too.

Letters that are leased are not touched: a consumer is at work on them, and would not know.

A request looks at so many messages at most and is done in steps of one commit each. The next
request goes on from a *place*, which also says where the letters ended when the first request came,
so that messages that fail again meanwhile are left for another time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.generations import Generations
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Compose
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.letter_search import Found, Id, LetterSearch, LetterStep
from fanlog.core import partitioning
from fanlog.core.dead_letter import (
    ACKED,
    LEASED,
    NO_LETTER,
    NO_TOPIC,
    NOT_READ,
    Letter,
    LetterGroup,
    LetterOutcome,
    LetterPlace,
    LetterSelection,
)
from fanlog.core.recent_events import COPIED, REDRIVEN, RecentEvents
from fanlog.core.records import RememberedAnswer
from fanlog.core.share import Decision, Share
from fanlog.log.seal import Seal
from fanlog.model import attributes
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Whether a caller may bring letters back to a subscription.
May = Callable[[str], bool]


def anywhere(_: str) -> bool:
    """The answer for a caller that nothing is asked of."""
    return True


FORBIDDEN = "the caller may not consume from the subscription it failed on"
#: Attributes that copies do not have: of dead letters, and the dedup id of the first publish.
_LEFT_OUT = (*attributes.DEAD_LETTER, attributes.DEDUP_ID)


@dataclass(eq=False)
class DeadLetters:
    """The verbs of dead letters. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _metrics: Metrics
    _access: Access
    _search: LetterSearch
    _decisions: Decisions
    _generations: Generations
    _compose: Compose
    _recent: RecentEvents

    async def list_all(
        self, name: str, selection: LetterSelection, after: LetterPlace | None, limit: int
    ) -> tuple[list[Letter], LetterPlace | None]:
        """Letters that are not acknowledged, in order; nothing is leased. And where to go on."""
        step = LetterStep(limit, limits.ANSWER_BYTES_MAX)
        next_place = None
        async with aclosing(self._search.scan(name, selection, after)) as scan:
            async for found, place in scan:
                if found is None or step.add(found):
                    next_place = place
                    break
            else:
                await self._ledger.sync()
        return [found.letter for found in step.take()], next_place

    async def count(
        self, name: str, selection: LetterSelection, after: LetterPlace | None
    ) -> tuple[list[LetterGroup], int, LetterPlace | None]:
        """Selected letters that are not acknowledged, by where and why they failed, the most first.

        Of so many of them; the letters of groups that are too many, counted, and where to go on.
        """
        groups: dict[tuple[str, str], LetterGroup] = {}
        rest, next_place = 0, None
        async with aclosing(self._search.scan(name, selection, after)) as scan:
            async for found, place in scan:
                if found is None:
                    next_place = place
                    break
                letter = found.letter
                key = letter.source_subscription, letter.reason
                if key not in groups and len(groups) >= limits.LETTER_GROUPS_COUNTED_MAX:
                    rest += 1
                else:
                    groups.setdefault(key, LetterGroup(*key)).add(letter)
            else:
                await self._ledger.sync()
        largest = sorted(groups.values(), key=lambda one: (-one.letters, one.reason))
        shown = largest[: limits.LETTER_GROUPS_MAX]
        rest += sum(one.letters for one in largest[limits.LETTER_GROUPS_MAX :])
        return shown, rest, next_place

    async def redrive(
        self,
        name: str,
        ids: Sequence[Id],
        request_id: str = "",
        *,
        copies: bool = False,
        may: May = anywhere,
    ) -> LetterOutcome:
        """Redrive letters by their message ids; durable when this returns.

        With `copies`, letters whose originals are gone are published anew where they failed. `may`
        says of a subscription whether the caller may bring letters back to it.

        Raises:
            FailedPrecondition: The subscription is detached.
            InvalidArgument: An id is none of a message that the subscription reads.
            DiskFull: There is no room for copies; some letters may be redriven.
        """
        self._access.check_serving()
        subscription = self._access.enter(name)
        requests, now = self._ledger.hard.requests, self._clock.now()
        done = requests.find(subscription.id, request_id, now)
        if done is not None:
            await self._ledger.sync()
            return LetterOutcome(
                reopened=done.reopened, copied=done.copied, skipped_before=done.skipped
            )
        outcome = LetterOutcome()
        async for some in self._search.by_id(name, ids, outcome):
            await self._redrive_some(name, some, outcome, copies=copies, may=may)
        answer = RememberedAnswer(
            reopened=outcome.reopened, copied=outcome.copied, skipped=len(outcome.skipped)
        )
        remembered = self._ledger.hard.requests.remember(
            subscription.id,
            request_id,
            answer,
            expires_s=now + limits.REQUEST_ID_S,
            most=limits.REQUEST_IDS_MAX,
        )
        if remembered and self._ledger.hard.catalog.subscription_by_id(subscription.id):
            await self._ledger.commit(remembered)
        return outcome

    async def redrive_all(
        self,
        name: str,
        selection: LetterSelection,
        after: LetterPlace | None,
        limit: int,
        *,
        copies: bool = False,
        may: May = anywhere,
    ) -> LetterOutcome:
        """Redrive up to `limit` letters that are selected; raises as `redrive` does."""
        outcome = LetterOutcome()
        async for some in self._search.select(name, selection, after, limit, outcome):
            await self._redrive_some(name, some, outcome, copies=copies, may=may)
        return outcome

    async def discard(self, name: str, ids: Sequence[Id]) -> LetterOutcome:
        """Acknowledge letters by their message ids; durable when this returns."""
        self._access.check_serving()
        outcome = LetterOutcome()
        async for some in self._search.by_id(name, ids, outcome):
            await self._discard_some(name, some, outcome)
        return outcome

    async def discard_all(
        self, name: str, selection: LetterSelection, after: LetterPlace | None, limit: int
    ) -> LetterOutcome:
        """Acknowledge up to `limit` letters that are selected; durable when this returns."""
        outcome = LetterOutcome()
        async for some in self._search.select(name, selection, after, limit, outcome):
            await self._discard_some(name, some, outcome)
        return outcome

    # Deciding.

    async def _redrive_some(
        self, name: str, some: Sequence[Found], outcome: LetterOutcome, *, copies: bool, may: May
    ) -> None:
        """Bring letters back, each with its acknowledgement in one commit."""
        subscription = self._access.enter(name)
        originals: defaultdict[Share, BitMap64] = defaultdict(BitMap64)
        reopening: list[Letter] = []
        copying: defaultdict[Share, list[Found]] = defaultdict(list)
        for one in self._free(subscription, some, outcome):
            letter = one.letter
            if letter.source_subscription and not may(letter.source_subscription):
                outcome.skipped.append((letter.id, FORBIDDEN))
                continue
            share = self._original_share(letter)
            if share is not None and letter.source is not None:
                originals[share].add(letter.source[1])
                reopening.append(letter)
                continue
            found = self._share_for_copy(one)
            if isinstance(found, str):
                outcome.skipped.append((letter.id, found))
            elif not copies:
                outcome.skipped.append((letter.id, self._why_gone(letter)))
            else:
                copying[found].append(one)
        commits: list[asyncio.Future[None]] = []
        if reopening:
            commits.append(self._reopen(subscription, originals, reopening))
            outcome.reopened += len(reopening)
        for share, copied in copying.items():
            commits.append(self._copy(subscription, share, copied))
            outcome.copied += len(copied)
        for committed in commits:
            await committed

    def _original_share(self, letter: Letter) -> Share | None:
        """Where the original can be reopened; None if it cannot."""
        hard, ledger = self._ledger.hard, self._ledger
        if letter.source is None or not hard.catalog.has_subscription(letter.source_subscription):
            return None
        partition, offset = letter.source
        source = hard.catalog.subscription(letter.source_subscription)
        share = None if source.detached else hard.share(source.id, partition)
        is_there = ledger.start_of(partition) <= offset < ledger.end(partition)
        return share if is_there else None

    def _share_for_copy(self, one: Found) -> Share | str:
        """The share that would read a copy, as it did the original; or why there is none."""
        letter, catalog = one.letter, self._ledger.hard.catalog
        name = letter.source_subscription
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
        partition = partitioning.choose(topic.partitions, key_hash=_key_hash(one))
        share = self._ledger.hard.share(source.id, partition)
        return NOT_READ if share is None else share

    def _why_gone(self, letter: Letter) -> str:
        """Why an original cannot be reopened, and the way to get it published again."""
        assert letter.source is not None
        partition, _ = letter.source
        start = self._ledger.start_of(partition)
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
        transaction, now = self._ledger.begin(), self._clock.now()
        for share in originals:
            became = {o: one.id for one in letters if (o := _offset_in(share, one)) is not None}
            self._recent.note_became(now, share.settings.id, share.partition, REDRIVEN, became)
        for share, offsets in originals.items():
            # They were delivered once: under any filter of now, they are wanted.
            decision = share.reopen(
                now, offsets, generation=self._generations.next(), is_wanted=True
            )
            self._metrics.of(share.settings.id).reopened += decision.count
            transaction.apply(decision.records)
            self._decisions.follow(share, decision)
        self._acknowledge(transaction, subscription, letters)
        return transaction.commit()

    def _copy(
        self, subscription: Subscription, share: Share, some: Sequence[Found]
    ) -> asyncio.Future[None]:
        """Publish copies for one share alone, whose feed is woken: its filter may not want them."""
        partition, addressee = share.partition, share.settings.id
        hard = self._ledger.hard
        topic = hard.catalog.topic_of(partition)
        assert topic is not None
        body = self._compose(
            [
                (one.batch, one.letter.offset - one.batch.base_offset, _origin(one.letter))
                for one in some
            ],
            _LEFT_OUT,
        )
        body = replace(body, seal=Seal(is_copy=True, addressee=addressee))
        self._ledger.check_room(len(body.content))
        transaction = self._ledger.begin()
        first = transaction.append(topic.id, partition, body)
        transaction.apply([hard.addresses.add(partition, addressee, first, first + body.count)])
        self._acknowledge(transaction, subscription, [one.letter for one in some])
        committed = transaction.commit()
        now = self._clock.now()
        for copy, one in enumerate(some, first):
            if one.letter.source is not None:
                source, offset = one.letter.source
                became = {offset: message_id(partition, copy)}
                self._recent.note_became(now, addressee, source, COPIED, became)
        # Not left to the caller that waits for the commit: it may go away before.
        committed.add_done_callback(lambda _: self._decisions.follow(share, Decision()))
        return committed

    async def _discard_some(self, name: str, some: Sequence[Found], outcome: LetterOutcome) -> None:
        subscription = self._access.enter(name)
        free = self._free(subscription, some, outcome)
        if free:
            transaction = self._ledger.begin()
            self._acknowledge(transaction, subscription, [one.letter for one in free])
            outcome.discarded += len(free)
            await transaction.commit()

    def _free(
        self, subscription: Subscription, some: Sequence[Found], outcome: LetterOutcome
    ) -> list[Found]:
        """Letters that were neither acknowledged nor leased while they were read."""
        found: list[Found] = []
        for one in some:
            letter = one.letter
            share = self._ledger.hard.share(subscription.id, letter.partition)
            if share is None or not share.is_open(letter.offset):
                outcome.skipped.append((letter.id, ACKED))
            elif not share.free(BitMap64([letter.offset])):
                outcome.skipped.append((letter.id, LEASED))
            else:
                found.append(one)
        return found

    def _acknowledge(
        self, transaction: Transaction, subscription: Subscription, letters: Sequence[Letter]
    ) -> None:
        """Acknowledge letters that are free."""
        by_partition: defaultdict[PartitionId, BitMap64] = defaultdict(BitMap64)
        for letter in letters:
            by_partition[letter.partition].add(letter.offset)
        for partition, offsets in by_partition.items():
            share = self._ledger.hard.share(subscription.id, partition)
            assert share is not None
            decision = share.discard(offsets)
            transaction.apply(decision.records)
            self._metrics.of(subscription.id).acknowledged += decision.count
            self._decisions.follow(share, decision)


def _offset_in(share: Share, letter: Letter) -> Offset | None:
    """The offset of a letter's original, if that is of this share."""
    if letter.source is None or letter.source[0] != share.partition:
        return None
    return letter.source[1] if letter.source_subscription == share.settings.name else None


def _key_hash(one: Found) -> int:
    hashes = one.batch.key_hashes
    return 0 if hashes is None else hashes[one.letter.offset - one.batch.base_offset]


def _origin(letter: Letter) -> dict[str, str]:
    return {
        attributes.SOURCE_TOPIC: letter.source_topic,
        attributes.SOURCE_ID: letter.source_id,
        attributes.REDRIVEN_FROM: letter.id,
        attributes.ORIGINAL_ID: letter.original_id,
    }
