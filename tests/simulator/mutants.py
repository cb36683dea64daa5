"""Planted bugs: small patches of the real code, each of which some checker must notice.

They prove that the simulator bites. Each names the number of seeds within which it is found.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from fanlog.broker.broker import Broker
from fanlog.broker.delivery.dead_lettering import DeadLettering
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.partition_filters import PartitionFilters
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.delivery.timers import Timers
from fanlog.broker.generations import GENERATIONS_PER_BOOT, Generations
from fanlog.broker.parts import parts_of
from fanlog.broker.retention.retention import Retention
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.seeks import Seeks
from fanlog.broker.verbs.subscriptions import Subscriptions
from fanlog.broker.writer import Writer
from fanlog.core import snapshots
from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.hard_state import HardState
from fanlog.core.records import CursorHead
from fanlog.core.share import Decision, Share
from fanlog.core.share.keys import Key, Keys
from fanlog.core.share.lease import LeaseTable
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.passed_over import PassedOver
from fanlog.core.share.soft_state import SoftState
from fanlog.core.share.state import ShareState
from fanlog.errors import FanlogError
from fanlog.log.api import Trim
from fanlog.model import attributes as names_of
from fanlog.model.updates import SubscriptionUpdate
from simulator import (
    alert_mutants,
    inspection_mutants,
    keeping_mutants,
    lake_mutants,
    leaving_mutants,
    limit_mutants,
    pressure_mutants,
    replay_mutants,
    schedule_mutants,
    sequence_mutants,
    single_mutants,
    sink_mutants,
    slot_mutants,
    surface_mutants,
    tenant_mutants,
    term_mutants,
    window_mutants,
)
from simulator.planting import MUTANTS, mutant, planted
from simulator.torn import torn

__all__ = [
    "MUTANTS", "alert_mutants", "inspection_mutants", "keeping_mutants", "lake_mutants",
    "leaving_mutants",
    "limit_mutants", "mutant",
    "planted", "pressure_mutants", "replay_mutants", "schedule_mutants", "sequence_mutants",
    "single_mutants", "sink_mutants", "slot_mutants", "surface_mutants", "tenant_mutants",
    "term_mutants", "window_mutants",
]  # fmt: skip


# Answers.


@mutant("the sync is skipped", 20, (Writer, "_start_next"))
def _(start_next: Any) -> Any:
    def skipped(self: Writer) -> None:
        start_next(self)
        for waiter in self._running.waiters if self._running is not None else ():
            if not waiter.done():
                waiter.set_result(None)

    return skipped


@mutant("a publish is answered before its commit", 20, (Broker, "publish"))
def _(_: Any) -> Any:
    async def publish(self: Broker, topic_name: str, body: Any) -> Any:
        self.access.check_serving()
        topic = self.hard.catalog.topic(topic_name)
        self.ledger.check_room(len(body.content))
        transaction = self.ledger.begin()
        [(partition, part, _)] = parts_of(topic.partitions, body)
        base = transaction.append(topic.id, partition, part)
        transaction.commit()
        return [(partition, range(base, base + part.count), None)]

    return publish


@mutant("an ack is answered before its commit", 100, (Broker, "_settle_all"))
def _(settle_all: Any) -> Any:
    async def hasty(self: Broker, *args: Any, **kwargs: Any) -> Any:
        decisions, ledger = self.decisions, self.ledger
        decide = decisions.decide
        decisions.decide = lambda *a, **k: decide(*a, **k) and None  # type: ignore[method-assign]
        ledger.pending = lambda: None  # type: ignore[method-assign]
        work = settle_all(self, *args, **kwargs).__await__()
        try:
            while True:
                try:
                    step = next(work)
                except StopIteration as done:
                    return done.value
                await step
        finally:
            decisions.__dict__.pop("decide", None)
            ledger.__dict__.pop("pending", None)

    return hasty


@mutant("what failed at its commit stays applied", 50, (Ledger, "load"))
def _(load: Any) -> Any:
    def loaded(self: Ledger) -> Any:
        return () if self.hard.catalog.stats().topics else load(self)

    return loaded


@mutant("a seek leaves leases as they are", 200, (LeaseTable, "clear"), (SoftState, "forget"))
def _(before: Any) -> Any:
    if before.__name__ == "clear":
        return lambda self: None

    def kept(self: SoftState) -> None:
        before(self)

    return kept


@mutant(
    "an ack from before a seek counts", 300, (SoftState, "find_live_or_late"), needs="admins seeks"
)
def _(find_live_or_late: Any) -> Any:
    def unfenced(self: SoftState, by_generation: Any, end: int) -> Any:
        state = self._state
        fence, state.fence = state.fence, 0
        try:
            return find_live_or_late(self, by_generation, end)
        finally:
            state.fence = fence

    return unfenced


@mutant("a nack leaves those after it outstanding", 100, (OrderedBacklog, "recall"))
def _(_: Any) -> Any:
    def recall(self: OrderedBacklog, offsets: BitMap64, delay: Any) -> BitMap64:
        keys, keyless = self.keys, BitMap64()
        heads: dict[int, int] = {}
        for offset in offsets:
            number = keys.hash_of.pop(offset, None)
            if number is None:
                keyless.add(offset)
                continue
            key = keys.by_hash[number]
            key.outstanding.remove(offset)
            key.acked.discard(offset)
            key.waiting.appendleft(offset)
            keys.waiting_count += 1
            self.recalled.add(offset)
            heads[number] = offset
            keys.queued[number] = key
        for number, offset in heads.items():
            if delay(offset):
                keys.blocked[offset] = number
            keys.settle(number, keys.by_hash[number])
        return keyless

    return recall


@mutant("a key is open while others hold it", 100, (OrderedBacklog, "_is_open"))
def _(_: Any) -> Any:
    def is_open(self: OrderedBacklog, key: Key, consumer: Credit) -> bool:
        return not (key.waiting and key.waiting[0] in self.keys.blocked)

    return is_open


@mutant("an ack ahead of its key is hard", 100, (Keys, "acknowledge"), needs="ordered keys")
def _(_: Any) -> Any:
    def acknowledge(self: Keys, offsets: Iterable[int]) -> BitMap64:
        hard = BitMap64()
        for offset in offsets:
            hard.add(offset)
            number = self.hash_of.pop(offset, None)
            if number is not None:
                key = self.by_hash[number]
                key.outstanding.remove(offset)
                self.settle(number, key)
        return hard

    return acknowledge


@mutant("an ack ahead of its key is confirmed", 100, (OrderedBacklog, "would_be_early"))
def _(_: Any) -> Any:
    return lambda self, acked: BitMap64()


@mutant("a lease is not committed under exactly-once", 100, (SoftState, "finish"))
def _(finish: Any) -> Any:
    def forgetful(self: SoftState, decision: Decision) -> Decision:
        self.leases.changed.clear()
        return finish(self, decision)  # type: ignore[no-any-return]

    return forgetful


@mutant("leases are forgotten at a start", 100, (Share, "start"))
def _(start: Any) -> Any:
    def forgetful(self: Share, *args: Any) -> None:
        held, self.state.held = self.state.held, {}
        start(self, *args)
        self.state.held = held

    return forgetful


@mutant("generations begin anew with each life", 200, (Generations, "next"))
def _(_: Any) -> Any:
    def next_of_life(self: Generations) -> int:
        self._count += 1
        return GENERATIONS_PER_BOOT + self._count

    return next_of_life


@mutant("a longer deadline is forgotten", 100, (LeaseTable, "extend"))
def _(_: Any) -> Any:
    return lambda self, lease, offsets, deadline_s: None


@mutant("one timer waits for another", 50, (Timers, "watch"))
def _(watch: Any) -> Any:
    def watched(self: Timers, share: Share) -> None:
        if not self._heap or self._heap[0][2] is share:
            watch(self, share)

    return watched


@mutant("a longer deadline is not committed", 200, (LeaseTable, "extend"))
def _(extend: Any) -> Any:
    def uncommitted(self: LeaseTable, *args: Any) -> None:
        changed = set(self.changed)
        extend(self, *args)
        self.changed = changed

    return uncommitted


@mutant("a lease that has run out is taken for live", 200, (SoftState, "find_live"))
def _(find_live: Any) -> Any:
    return lambda self, now, *args, **kwargs: find_live(self, 0.0, *args, **kwargs)


@mutant("a commit wakes nobody", 50, (Feeds, "wake_on"))
def _(_: Any) -> Any:
    return lambda self, partitions: None


# Cursors, snapshots, retention.


@mutant("the floor is off by one", 50, (Cursor, "acknowledge"))
def _(acknowledge: Any) -> Any:
    def acknowledged(self: Cursor, offsets: BitMap64, **more: Any) -> Any:
        change = acknowledge(self, offsets, **more)
        return replace(change, mark=change.mark + (change.mark > self.mark))

    return acknowledged


@mutant("a seek to a time is off by one", 100, (Ledger, "offset_for_time"))
def _(offset_for_time: Any) -> Any:
    async def later(self: Ledger, partition: Any, time_ns: int) -> int:
        offset: int = await offset_for_time(self, partition, time_ns)
        return min(offset + 1, self.assigned_end(partition))

    return later


@mutant("a seek passes what waits for the disk", 1500, (Ledger, "offset_for_time"))
def _(offset_for_time: Any) -> Any:
    async def passed(self: Ledger, partition: Any, time_ns: int) -> int:
        offset: int = await offset_for_time(self, partition, time_ns)
        return self.assigned_end(partition) if offset == self.end(partition) else offset

    return passed


@mutant("a snapshot copies the wrong cursor", 200, (snapshots, "copy_cursors"))
def _(copied: Any) -> Any:
    def wrong(snapshot: Any, shares: Any) -> Any:
        return [
            replace(record, floor=record.floor + 1)
            if isinstance(record, CursorHead) and record.floor is not None
            else record
            for record in copied(snapshot, shares)
        ]

    return wrong


@mutant("retention trims one too far", 100, (Writer, "submit"))
def _(submit: Any) -> Any:
    def submitted(
        self: Writer,
        records: Any = (),
        publications: Any = (),
        trims: Iterable[Trim] = (),
        **kwargs: Any,
    ) -> Any:
        further = [
            trim
            if trim.dropped
            else replace(trim, before=min(trim.before + 1, self.ends.get(trim.partition, 0)))
            for trim in trims
        ]
        return submit(self, records, publications, further, **kwargs)

    return submitted


@mutant("retention ends one message too early", 200, (Retention, "_expire_messages"))
def _(expire_messages: Any) -> Any:
    def too_early(self: Retention, now: float, horizons: dict[Any, int]) -> None:
        expire_messages(self, now, {where: horizon + 1 for where, horizon in horizons.items()})

    return too_early


@mutant("a subscription expires too early", 200, (Retention, "_expire_subscriptions"))
def _(expire_subscriptions: Any) -> Any:
    def too_early(self: Retention, now: float) -> None:
        expire_subscriptions(self, now + 7 * 86400.0)

    return too_early


# Filters.


def _shifted(by: int) -> Callable[[Any], Any]:
    def make(with_filter_change: Any) -> Any:
        def shifted(self: Subscriptions, before: Any, changed: Any) -> Any:
            changed = with_filter_change(self, before, changed)
            if changed.filter == before.filter:
                return changed
            *earlier, last = changed.filter_changes
            last = replace(last, before_sequence=last.before_sequence + by)
            return replace(changed, filter_changes=(*earlier, last))

        return shifted

    return make


mutant(
    "a filter change is off by one",
    400,
    (Subscriptions, "_with_filter_change"),
    needs="admins filter_changes",
)(_shifted(1))
mutant("a filter change comes one commit early", 100, (Subscriptions, "_with_filter_change"))(
    _shifted(-1)
)


@mutant("an earlier filter is forgotten at once", 50, (Subscriptions, "_with_filter_change"))
def _(_: Any) -> Any:
    return lambda self, before, changed: changed


@mutant("earlier filters are let go of too soon", 100, (Subscriptions, "forget_filters"))
def _(_: Any) -> Any:
    async def forget_filters(self: Subscriptions, subscription_id: Any) -> None:
        subscription = self._ledger.hard.catalog.subscription_by_id(subscription_id)
        if subscription is not None and subscription.filter_changes:
            changed = replace(subscription, filter_changes=())
            await self._shares.change(self._ledger.begin(), changed, [])

    return forget_filters


@mutant("a seek keeps earlier filters", 100, (Seeks, "_jump"))
def _(_: Any) -> Any:
    def jump(self: Seeks, transaction: Any, subscription: Any, records: Any) -> Any:
        present = self._access.present(subscription)
        return self._shares.change(transaction, present, records)

    return jump


@mutant("what filters leave out never reaches the cursor", 50, (Share, "_acknowledge"))
def _(_: Any) -> Any:
    return lambda self, offsets, **more: self.cursor.acknowledge(offsets, **more)


@mutant("what filters leave out is open again after an ack", 50, (PassedOver, "take"))
def _(take: Any) -> Any:
    return lambda self: take(self) and BitMap64()


@mutant("a filter passes over one too many", 50, (PassedOver, "route"))
def _(route: Any) -> Any:
    def too_many(self: PassedOver, end: int, matching: BitMap64) -> None:
        route(self, end, matching - BitMap64([matching.max()]) if matching else matching)

    return too_many


@mutant(
    "a snapshot forgets what the filter left out",
    200,
    (Share, "settle_passed"),
    needs="admins seeks filters",
)
def _(settle_passed: Any) -> Any:
    def forgetful(self: Share) -> Decision:
        is_snapshot = sys._getframe(1).f_code.co_qualname == "Snapshots.create"
        return Decision() if is_snapshot else settle_passed(self)

    return forgetful


@mutant("the router wakes nobody", 50, (Filtering, "wake_on"))
def _(_: Any) -> Any:
    return lambda self, partition: None


@mutant(
    "what was judged before a filter came is nothing to it",
    50,
    (PartitionFilters, "_judge_alone"),
    needs="filters",
)
def _(_: Any) -> Any:
    async def unjudged(self: PartitionFilters, segment: Any, text: str) -> None:
        return

    return unjudged


# Patterns.


@mutant("a topic joins a pattern one message too late", 50, (Shares, "add"))
def _(add: Any) -> Any:
    return lambda self, transaction, subscription, partition, floor: add(
        self, transaction, subscription, partition, floor + (floor == 0)
    )


@mutant("a new topic joins no pattern", 50, (Shares, "join"))
def _(_: Any) -> Any:
    return lambda self, transaction, topic: None


@mutant(
    "a new topic is in no snapshot of a pattern",
    400,
    (snapshots, "add_topic"),
    needs="admins seeks patterns",
)
def _(_: Any) -> Any:
    return lambda hard, topic: []


@mutant("a pattern lets go of a deleted topic with its backlog", 50, (Retention, "_leave_topics"))
def _(leave_topics: Any) -> Any:
    def too_soon(self: Retention, horizons: Any) -> None:
        hard = self._ledger.hard
        for share in list(hard.shares()):
            if share.settings.is_pattern and hard.catalog.topic_of(share.partition) is None:
                self._shares.remove(share)
        leave_topics(self, horizons)

    return too_soon


@mutant("a pattern never lets go of a deleted topic", 50, (Retention, "_leave_topics"))
def _(_: Any) -> Any:
    return lambda self, horizons: None


@mutant("messages say they are of the pattern", 50, (Broker, "added_attributes"))
def _(_: Any) -> Any:
    def named(self: Broker, subscription: Any, delivery: Any) -> Any:
        return {names_of.TOPIC: subscription.topic} if subscription.is_pattern else None

    return named


@mutant("room in one topic is none in another", 100, (Feeds, "wake_for"), needs="patterns streams")
def _(wake_for: Any) -> Any:
    def narrow(self: Feeds, share: Share, *, has_some: bool) -> None:
        if has_some:
            wake_for(self, share, has_some=True)

    return narrow


# Dead letters.


def _torn_letters(*, is_ack_first: bool) -> Callable[[Any], Any]:
    def make(commit: Any) -> Any:
        def twice(self: DeadLettering, *args: Any, **kwargs: Any) -> asyncio.Future[None]:
            with torn(self._ledger, is_records_first=is_ack_first):
                return commit(self, *args, **kwargs)  # type: ignore[no-any-return]

        return twice

    return make


mutant(
    "a dead letter and its ack are two commits",
    200,
    (DeadLettering, "_commit"),
    needs="dead_letters",
)(_torn_letters(is_ack_first=False))
mutant("the ack of a dead letter comes first", 200, (DeadLettering, "_commit"))(
    _torn_letters(is_ack_first=True)
)


@mutant("attempts are lost with the process", 200, (ShareState, "attempt_records"))
def _(_: Any) -> Any:
    def soft(self: ShareState, chunks: Any) -> list[Any]:
        for number, counts in chunks:
            self.attempts.apply(number, counts)
        return []

    return soft


# Bounds, refusals.


@mutant("credit is never given back", 100, (Credit, "give"))
def _(_: Any) -> Any:
    return lambda self, messages, size_bytes: None


@mutant("credit is not asked for", 50, (Credit, "budget"))
def _(_: Any) -> Any:
    return lambda self, max_messages, max_bytes: LeaseBudget(max_messages, max_bytes)


@mutant("blocked keys remember everything", 200, (Keys, "let_wait"))
def _(_: Any) -> Any:
    def let_wait(self: Keys, number: int, key: Key, offset: int) -> None:
        self.queued[number] = key
        key.waiting.append(offset)
        self.waiting_count += 1

    return let_wait


@mutant("a refused update changes something", 100, (Subscriptions, "update"))
def _(update_subscription: Any) -> Any:
    async def update(self: Subscriptions, update: SubscriptionUpdate, *more: Any) -> Any:
        hard: HardState = self._ledger.hard
        before = hard.catalog.subscription(update.name)
        try:
            return await update_subscription(self, update, *more)
        except FanlogError:
            whole = {name: value for name, value in update.changes.items() if "." not in name}
            hard.apply_all(hard.catalog.put_subscription(replace(before, **whole)))
            raise

    return update
