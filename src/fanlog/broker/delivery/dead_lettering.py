"""Forwarding dead letters: the copy and the acknowledgement of the original are one commit.

One task for the whole broker, so that letters of a share leave in the order they were decided.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker import parts
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.ports import Decide
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Compose, ForwardDenial
from fanlog.broker.tracing import Tracing
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.dead_letter import attributes_of
from fanlog.core.recent_events import DEAD_LETTERED, RecentEvents
from fanlog.core.share import DeadLetter, Share
from fanlog.errors import FanlogError, LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch, Body
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, Topic

log = logging.getLogger("fanlog.dead_letters")

#: Letters read and forwarded in one commit at most, and about how many bytes are read for them.
LETTERS_MAX = 1_000
LETTERS_BYTES_MAX = 4 * 1024 * 1024


class DeadLettering:
    """Takes letters as they are decided, forwards them in the background."""

    def __init__(
        self,
        ledger: Ledger,
        store: Log,
        clock: Clock,
        metrics: Metrics,
        compose: Compose,
        denial: ForwardDenial,
        recent: RecentEvents,
        decide: Decide,
        tracing: Tracing | None,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._compose = compose
        self._denial = denial
        self._recent = recent
        self._decide = decide
        self._tracing = tracing
        self._waiting: list[tuple[Share, Sequence[DeadLetter]]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, share: Share, letters: Sequence[DeadLetter]) -> None:
        for first in range(0, len(letters), LETTERS_MAX):
            self._waiting.append((share, letters[first : first + LETTERS_MAX]))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def move(
        self,
        share: Share,
        offsets: BitMap64,
        reason: str,
        drop: Callable[[Transaction, BitMap64], None],
    ) -> int:
        """Make dead letters of messages that nobody has, and have them dropped in that commit.

        Messages are read before anything is decided: those that somebody has by then stay, and so
        do those that cannot be read. Returns how many have left.
        """
        letters = [DeadLetter(offset, share.attempts_of(offset), reason) for offset in offsets]
        batches, read = await self._read(share, letters)
        hard, policy = self._ledger.hard, share.settings.dead_letter
        if not letters or hard.share(share.settings.id, share.partition) is not share:
            return 0
        topic = None if policy is None else hard.catalog.find_topic(policy.dead_letter_topic)
        denial = "" if topic is None else self._denial(hard, topic.name)
        if topic is None or denial:
            log.warning(
                "action=overflow_failed subscription=%s messages=%d reason=%s; they stay",
                *(share.settings.name, len(letters), denial or "there is no dead letter topic"),
            )
            self._metrics.of(share.settings.id).dead_letter_failed += len(letters)
            return 0
        free = share.free_offsets(offsets.max() + 1)
        letters = [
            one
            for one in letters[:read]
            if one.offset in free
            and one.offset in batches
            and _seal_of(batches[one.offset]) is not None
        ]
        if not letters:
            return 0
        source = share.settings.topic
        if share.settings.is_pattern:
            source = hard.catalog.topic_name_of(share.partition)
        bodies = list(self._bodies(share, source, letters, batches))
        transaction, made = self._ledger.begin(), list[str]()
        for body in bodies:
            made += _ids(body.count, parts.append(transaction, topic, body))
        drop(transaction, BitMap64(one.offset for one in letters))
        committed = transaction.commit()
        became = {one.offset: made_id for one, made_id in zip(letters, made, strict=True)}
        self._recent.note_became(
            *(self._clock.now(), share.settings.id, share.partition),
            *(DEAD_LETTERED, became, reason),
        )
        if self._tracing is not None:
            self._tracing.dead_lettered(share, became, topic.name)
        counts = self._metrics.of(share.settings.id)
        counts.count_letters(len(letters), self._clock.now())
        await committed
        return len(letters)

    def clear(self) -> None:
        """Forget letters that wait: hard state was loaded again, and the shares with it."""
        self._waiting.clear()

    async def drain(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                share, letters = self._waiting.pop(0)
                try:
                    await self._forward(share, letters)
                except LakeUnavailable as error:
                    log.warning("action=dead_letters_wait error=%s; tried again later", error)
                    offsets = BitMap64(
                        one.offset for one in letters if share.is_forwarding(one.offset)
                    )
                    self._give_back(share, offsets)
                except FanlogError as error:
                    # The commit failed; the letters come again when hard state is loaded.
                    log.error("action=dead_letter_failed error=%s", error)
        finally:
            self._task = None

    async def _forward(self, share: Share, letters: Sequence[DeadLetter]) -> None:
        letters = sorted(letters, key=lambda letter: letter.offset)
        batches, read = await self._read(share, letters)
        if read < len(letters):
            self._waiting.insert(0, (share, letters[read:]))
            letters = letters[:read]
        hard, policy = self._ledger.hard, share.settings.dead_letter
        if hard.share(share.settings.id, share.partition) is not share:
            return
        # A seek may have come between, or their retention have ended: then they are none any more.
        letters = [letter for letter in letters if share.is_forwarding(letter.offset)]
        offsets = BitMap64(letter.offset for letter in letters)
        topic = None if policy is None else hard.catalog.find_topic(policy.dead_letter_topic)
        if topic is None:
            wanted = "(policy removed)" if policy is None else policy.dead_letter_topic
            self._keep(share, offsets, "dead_letter_topic_missing", f"topic={wanted}")
            return
        denial = self._denial(hard, topic.name)
        if denial:
            self._keep(share, offsets, "dead_letter_denied", f"reason={denial}")
            return
        found = [letter for letter in letters if letter.offset in batches]
        unreadable = offsets - BitMap64(letter.offset for letter in found)
        if unreadable:
            # Their bytes are damaged: like any quarantined batch they stay until it is mended.
            # Given back, they are found to be damaged, and do not hold up the messages behind.
            log.error(
                "action=dead_letter_unreadable subscription=%s messages=%d; they stay unacked",
                share.settings.name,
                len(unreadable),
            )
            self._decide(share, share.return_unforwarded(self._clock.now(), unreadable))
        far = BitMap64(one.offset for one in found if _seal_of(batches[one.offset]) is None)
        if far:
            log.error(
                "action=dead_letters_in_a_circle subscription=%s messages=%d; they came through %d "
                "forwards and dead letters, and stay unacked",
                *(share.settings.name, len(far), limits.LETTER_HOPS_MAX),
            )
            self._metrics.of(share.settings.id).dead_letter_failed += len(far)
            self._give_back(share, far)
            found = [letter for letter in found if letter.offset not in far]
        if found:
            await self._commit(share, topic, found, batches)

    def _commit(
        self,
        share: Share,
        topic: Topic,
        letters: Sequence[DeadLetter],
        batches: Mapping[Offset, Batch],
    ) -> asyncio.Future[None]:
        source = share.settings.topic
        if share.settings.is_pattern:
            source = self._ledger.hard.catalog.topic_name_of(share.partition)
        bodies = list(self._bodies(share, source, letters, batches))
        transaction = self._ledger.begin()
        decision = share.acknowledge_forwarded(BitMap64(letter.offset for letter in letters))
        transaction.apply(decision.records)
        made: list[str] = []
        for body in bodies:
            made += _ids(body.count, parts.append(transaction, topic, body))
        committed = transaction.commit()
        now = self._clock.now()
        by_reason: defaultdict[str, dict[Offset, str]] = defaultdict(dict)
        for one, letter_id in zip(letters, made, strict=True):
            by_reason[one.reason][one.offset] = letter_id
        for reason, became in by_reason.items():
            self._recent.note_became(
                *(now, share.settings.id, share.partition, DEAD_LETTERED, became, reason)
            )
        if self._tracing is not None:
            ids = {one.offset: made_id for one, made_id in zip(letters, made, strict=True)}
            self._tracing.dead_lettered(share, ids, topic.name)
        self._metrics.of(share.settings.id).count_letters(decision.count, now)
        decision.records = []
        self._decide(share, decision)
        return committed

    def _bodies(
        self,
        share: Share,
        source: str,
        letters: Sequence[DeadLetter],
        batches: Mapping[Offset, Batch],
    ) -> Iterator[Body]:
        """The letters in their order, sealed; those of copies apart."""

        for seal, some in groupby(letters, lambda one: _seal_of(batches[one.offset])):
            assert seal is not None, "those that came too far were taken out"
            body = self._compose(
                [
                    (
                        batch,
                        one.offset - batch.base_offset,
                        attributes_of(
                            share.settings, source, one, batch.partition, batch.publish_time_ns
                        ),
                    )
                    for one in some
                    for batch in [batches[one.offset]]
                ]
            )
            yield replace(body, seal=seal)

    def _keep(self, share: Share, offsets: BitMap64, action: str, why: str) -> None:
        """None can be forwarded now."""
        log.warning(
            "action=%s subscription=%s messages=%d %s; the messages stay in the subscription and "
            "are tried again",
            *(action, share.settings.name, len(offsets), why),
        )
        self._metrics.of(share.settings.id).dead_letter_failed += len(offsets)
        self._give_back(share, offsets)

    def _give_back(self, share: Share, offsets: BitMap64) -> None:
        if self._ledger.hard.share(share.settings.id, share.partition) is share:
            self._decide(share, share.return_unforwarded(self._clock.now(), offsets))

    async def _read(
        self, share: Share, letters: Sequence[DeadLetter]
    ) -> tuple[dict[Offset, Batch], int]:
        """The batch of each letter, and how many letters were looked at before it was enough.

        One that cannot be read is left out and stays unacked.
        """
        found: dict[Offset, Batch] = {}
        batch: Batch | None = None
        size_bytes = 0
        for index, letter in enumerate(letters):
            if batch is None or letter.offset >= batch.end_offset:
                if size_bytes >= LETTERS_BYTES_MAX:
                    return found, index
                items = await self._store.read(share.partition, letter.offset, max_bytes=1)
                batch = next((i for i in items if not isinstance(i, Damaged)), None)
                size_bytes += len(batch.content) if batch is not None else 0
            if batch is not None and batch.base_offset <= letter.offset:
                found[letter.offset] = batch
        return found, len(letters)


def _ids(count: int, placed: Sequence[parts.Placed]) -> list[str]:
    """The message ids of a body, in its order."""
    found = [""] * count
    for partition, offsets, indexes in placed:
        for index, offset in zip(
            range(count) if indexes is None else indexes, offsets, strict=True
        ):
            found[index] = message_id(partition, offset)
    return found


def _seal_of(batch: Batch) -> Seal | None:
    """The seal of the letters that messages of a batch become; None when they came too far."""
    return (batch.seal or UNSEALED).letters()
