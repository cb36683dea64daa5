"""Revising: messages are delivered in the revision of their schema that a subscription asks for.

Stored messages stay as they are: a message is transformed when it is delivered, on its way from the
feed to the consumer, so that every way out is served alike. Messages that are in the revision
already leave as the bytes they came in. The others are written anew, and say

| attribute | |
| --- | --- |
| `googclient_schemarevisionid` | the revision that they are in now |
| `fanlog-schema-written-revision` | the one they were written in |

A message that cannot be transformed never leaves as if it had been. It becomes a dead letter, with
the reason. Where there is no dead letter policy it leaves as it was written, still saying its
revision, with the reason in `fanlog-schema-reason`: a subscriber that can read it may do so, and
another nacks it, as it would any message that it cannot read.

A message that takes more steps or memory than it may, whenever it was stored, cannot be transformed
either. Soft state only: transformations are compiled once, and found again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.bridges import Bridge, Bridges
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.leaving import Leaving, bytes_of
from fanlog.broker.delivery.ports import Decide
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Contents
from fanlog.broker.transaction import Ledger
from fanlog.core.redelivery import UNSENT, Nack
from fanlog.log.batch import Batch
from fanlog.model.attributes import (
    SCHEMA_ENCODING,
    SCHEMA_NAME,
    SCHEMA_REASON,
    SCHEMA_REVISION,
    SCHEMA_WRITTEN,
)
from fanlog.model.resources import Subscription, SubscriptionId

log = logging.getLogger("fanlog.revisions")

#: About so much is transformed before others are let in; a message costs as much as so many bytes
#: besides its own.
TRANSFORMED_BYTES_MAX = 16 * 1024
_MESSAGE_BYTES = 256
#: Steps that cost as much as a byte.
_STEPS_PER_BYTE = 4
#: Messages of a batch that are read together.
_STRETCH = 64


class Revising:
    """Transforms the messages that one broker delivers."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        bridges: Bridges,
        contents: Contents | None,
        decide: Decide,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self.bridges = bridges
        self._contents = contents
        self._decide = decide

    async def revise(
        self, subscription_id: SubscriptionId, deliveries: list[Delivery], max_bytes: int
    ) -> list[Delivery]:
        """Give deliveries as they are to leave; see `ports.Revise`."""
        subscription = self._ledger.hard.catalog.subscription_by_id(subscription_id)
        if subscription is None or not subscription.schema_revision:
            return deliveries
        work = _Work(self, subscription, max_bytes)
        leaving = [await work.revise(delivery) for delivery in deliveries]
        metrics = self._metrics.of(subscription_id)
        metrics.transformed += work.transformed
        metrics.untransformed += work.untransformed
        for one in leaving:
            self._give_back(subscription, one)
        return [one.as_delivery() for one in leaving if one.runs]

    def _give_back(self, subscription: Subscription, leaving: Leaving) -> None:
        """Settle messages that do not leave; later ones of their keys may go along."""
        nacks = [(Nack(is_terminal=True, reason=why), o) for why, o in leaving.refused.items()]
        if leaving.unsent:
            nacks.append((UNSENT, leaving.unsent))
        if not nacks:
            return
        partition, generation = leaving.delivery.partition, leaving.delivery.generation
        share = self._ledger.hard.share(subscription.id, partition)
        if share is None:
            return
        now = self._clock.now()
        for nack, offsets in nacks:
            by_generation = {generation: list(offsets)}
            decision = share.modify_ack_deadline(
                now, by_generation, 0, jitter=0.0, partial=True, nack=nack
            )
            self._decide(share, decision)
        if leaving.refused:
            # Not the reasons: they may quote the messages.
            log.warning(
                "action=not_transformed subscription=%s revision=%s messages=%d",
                subscription.name,
                subscription.schema_revision,
                sum(map(len, leaving.refused.values())),
            )
        # In order, messages after one that was given back wait for it.
        stale = share.find_refusals(
            now, {generation: list(leaving.offsets())}, is_ack=False
        ).invalid
        if stale:
            leaving.without({offset for _, offset in stale})

    @property
    def contents(self) -> Contents:
        assert self._contents is not None, "a broker with schemas needs to read messages"
        return self._contents

    def revision_wanted(self, subscription: Subscription) -> str:
        """The id of the revision that a subscription asks for, perhaps by its number."""
        catalog = self._ledger.hard.catalog
        topic = catalog.topic_by_id(subscription.topic_id)
        settings = topic.schema_settings if topic is not None else None
        asked = subscription.schema_revision
        if settings is not None and settings.schema_id is not None:
            for revision in catalog.schemas.revisions(settings.schema_id):
                if asked in (revision.id, str(revision.number)):
                    return revision.id
        # The topic or its schema is deleted: each message names the schema that it was written in.
        return asked


class _Work:
    """The messages of one answer."""

    def __init__(self, revising: Revising, subscription: Subscription, max_bytes: int) -> None:
        self._all_bridges = revising.bridges
        self._contents = revising.contents
        self._reader = revising.revision_wanted(subscription)
        self._has_dead_letters = subscription.dead_letter is not None
        self._room = max_bytes
        self._is_full = self._has_some = False
        # Since others were let in.
        self._cost = 0
        self._bridges: dict[tuple[str | None, ...], Bridge | str] = {}
        self.transformed = self.untransformed = 0

    async def revise(self, delivery: Delivery) -> Leaving:
        leaving = Leaving(delivery)
        for batch, first, end in delivery.runs:
            if batch.attributes.get(SCHEMA_REVISION) == self._reader:
                self._keep(leaving, batch, first, end)
            else:
                await self._transform_run(leaving, batch, first, end)
        leaving.close()
        return leaving

    def _keep(self, leaving: Leaving, batch: Batch, first: int, end: int) -> None:
        """Let messages leave as they are, if they fit."""
        if self._fits(leaving, batch, first, end, bytes_of(batch, first, end)):
            leaving.keep(batch, first, end)

    def _fits(self, leaving: Leaving, batch: Batch, first: int, end: int, size: int) -> bool:
        """Whether the answer can grow by so much; if not, messages are given back."""
        self._is_full = self._is_full or (self._has_some and size > self._room)
        if self._is_full:
            leaving.unsent.add_range(batch.base_offset + first, batch.base_offset + end)
            return False
        self._room -= size
        self._has_some = True
        return True

    async def _transform_run(self, leaving: Leaving, batch: Batch, first: int, end: int) -> None:
        for start in range(first, end, _STRETCH):
            stop = min(start + _STRETCH, end)
            messages = self._contents.stored(batch, start, stop)
            for index, (data, own, key) in enumerate(messages, start):
                if self._is_full:
                    self._keep(leaving, batch, index, end)
                    return
                said = {**own, **batch.attributes} if own else batch.attributes
                if said.get(SCHEMA_REVISION) == self._reader:
                    self._keep(leaving, batch, index, index + 1)
                    continue
                made, says = await self._transform(said, data)
                if made is None and self._has_dead_letters:
                    leaving.refused[says[SCHEMA_REASON]].add(batch.base_offset + index)
                    continue
                written = self._contents.written(data if made is None else made, own, key)
                if self._fits(leaving, batch, index, index + 1, len(written)):
                    leaving.rewrite(batch, index, says, written)

    async def _transform(
        self, said: Mapping[str, str], data: bytes
    ) -> tuple[bytes | None, Mapping[str, str]]:
        """The data in the revision that is wanted, or none, and the attributes that say so."""
        names = tuple(said.get(name) for name in _SAID)
        bridge = self._bridges.get(names)
        if bridge is None:
            bridge = await self._all_bridges.find(said, self._reader)
            self._bridges[names] = bridge
        made, why, steps = await self._all_bridges.transform(bridge, data)
        await self._let_others_in(len(data) + steps // _STEPS_PER_BYTE)
        written = said.get(SCHEMA_REVISION, "")
        if made is not None:
            self.transformed += 1
            return made, {SCHEMA_REVISION: self._reader, SCHEMA_WRITTEN: written}
        self.untransformed += 1
        was = f"written in {written}, " if written else ""
        return None, {SCHEMA_REASON: _cut(f"{was}wanted in {self._reader}: {why}")}

    async def _let_others_in(self, size: int) -> None:
        self._cost += size + _MESSAGE_BYTES
        if self._cost > TRANSFORMED_BYTES_MAX:
            self._cost = 0
            await asyncio.sleep(0)


_SAID = (SCHEMA_NAME, SCHEMA_ENCODING, SCHEMA_REVISION)


def _cut(reason: str) -> str:
    most = limits.NACK_REASON_BYTES_MAX
    text = reason.encode()
    return reason if len(text) <= most else f"{text[: most - 3].decode(errors='ignore')}…"
