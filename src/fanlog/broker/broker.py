"""The broker: one async method per verb of the API. Open this file first.

A message comes in through `publish`, waits in the writer for its commit, and is in the log. The
commit wakes the feeds of the subscriptions that wait; `pull` and streams take leases from their
shares (the rules are in `fanlog.core.share`), and `acknowledge` settles them. Whatever a verb
decides becomes records; records are applied at once, in order, and the answer leaves when
everything it saw is committed. `fanlog.broker.verbs.admin` has the verbs that make and change
resources.

If a commit fails, its waiters are told, every consumer is sent away to come again, and hard state
is loaded from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from fanlog import limits
from fanlog.broker import pushes, settling
from fanlog.broker.clock import Clock
from fanlog.broker.committer import Committer
from fanlog.broker.delivery.dead_lettering import Compose, DeadLetters
from fanlog.broker.delivery.feed import Delivery, Feed
from fanlog.broker.delivery.filtering import Router
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.partition_filters import Candidates
from fanlog.broker.delivery.revised import Revisions
from fanlog.broker.delivery.timers import Timers
from fanlog.broker.metrics import Metrics
from fanlog.broker.outcomes import Outcomes
from fanlog.broker.retention.retention import Retention
from fanlog.broker.retention.room import Room
from fanlog.broker.retention.spare import Spare
from fanlog.broker.retention.sweeper import Sweeper
from fanlog.broker.server_rules import ServerRules
from fanlog.broker.tiering.tiers import NoTiers, Tiers
from fanlog.broker.verbs.admin import Admin
from fanlog.broker.verbs.dead_letters import Letters
from fanlog.broker.verbs.exports import Exports
from fanlog.broker.verbs.iam import Iam
from fanlog.broker.verbs.jobs import Jobs
from fanlog.broker.verbs.log_reads import LogReads
from fanlog.broker.verbs.reopening import Replays
from fanlog.broker.verbs.schemas import Contents, Schemas
from fanlog.broker.verbs.sink import Sink
from fanlog.broker.writer import Publication, Writer
from fanlog.core.ack_ids import AckIds, ParsedAckIds
from fanlog.core.flow import Credit
from fanlog.core.hard_state import HardState
from fanlog.core.patterns import Patterns
from fanlog.core.records import Activity, Record
from fanlog.core.redelivery import NACKED, Nack
from fanlog.core.share import Decision, Share
from fanlog.errors import (
    FailedPrecondition,
    FanlogError,
    LakeUnavailable,
    SubscriptionNotFound,
    Unavailable,
)
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Body
from fanlog.model import attributes
from fanlog.model.quotas import DEFAULTS, Quotas
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId, Topic

log = logging.getLogger("fanlog.broker")

#: Generations of one life of the broker; each start begins a new block of them.
GENERATIONS_PER_BOOT = 1 << 44


class Broker:
    """One broker on one log. Lives on one loop; not safe to use from another thread.

    `await start()` before the first verb, `await stop()` after the last; the log stays open.
    """

    def __init__(
        self,
        store: Log,
        committer: Committer,
        clock: Clock,
        *,
        compose: Compose,
        candidates: Candidates,
        jitter: Callable[[], float],
        contents: Contents | None = None,
        disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES,
        hot_size_bytes: int = 0,
        quotas: Quotas = DEFAULTS,
        rules: ServerRules | None = None,
        topic_retention_s: float = 0.0,
        topic_retention_bytes: int = limits.SPARE_MEMORY_BYTES_MAX,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._jitter = jitter
        self.quotas = quotas
        self.metrics = Metrics()
        self.hard = HardState()
        self.patterns = Patterns()
        self._ack_ids = AckIds(store.identity)
        self._generation = 0
        self._active: dict[SubscriptionId, float] = {}
        self._timers = Timers(clock, self._expire)
        self.spare = Spare(
            store, lambda partition: self.writer.end(partition), topic_retention_bytes
        )
        self.writer = Writer(
            store,
            committer,
            clock,
            self.metrics,
            disk_reserve_bytes=disk_reserve_bytes,
            hot_size_bytes=hot_size_bytes,
            on_append=self.spare.appended if topic_retention_s else None,
            on_commit=lambda partitions: self._feeds.committed(partitions),
            on_failure=self._recover,
        )
        self.router = Router(lambda: self.hard, store, self.writer.end, candidates, self.metrics)
        self._feeds = Feeds(self.router, self._new_feed)
        self._dead_letters = DeadLetters(
            lambda: self.hard, store, self.writer, clock, self.metrics, compose, self.decide
        )
        self.retention = Retention(
            lambda: self.hard,
            store,
            self.writer,
            self.decide,
            self.remove_subscription,
            self.remove_share,
            tiers=lambda: self.tiers,
            metrics=self.metrics,
            spare=self.spare,
            topic_retention_s=topic_retention_s,
            started_s=clock.now(),
        )
        self.room = Room(self, store)
        self.admin = Admin(self, store, clock, rules or ServerRules())
        self.pushes: pushes.Pushes = pushes.NoPushes()
        self.schemas = Schemas(self, clock, contents)
        self._revisions = Revisions(self, clock, contents)
        self.iam = Iam(self)
        self.tiers: Tiers = NoTiers(store)
        self.log_reads = LogReads(self, store)
        self.jobs = Jobs(self, clock)
        self.exports = Exports(self, store, clock)
        self.sink = Sink(self, clock, contents)
        self.replays = Replays(self, clock)
        self.letters = Letters(self, store, clock, compose, candidates)
        self.outcomes = Outcomes(self, clock)
        self._sweeper = Sweeper(clock, self.sweep, lambda: store.has_garbage)
        self.spare.on_many = self._sweeper.ask
        self._draining: Unavailable | None = None

    # Life.

    async def start(self) -> None:
        """Load hard state and begin to serve.

        Raises:
            DataLoss: Hard state cannot be read; nothing was changed.
        """
        self._load()
        await self.commit(self.hard.catalog.boot())
        self._generation = self.hard.catalog.boots * GENERATIONS_PER_BOOT
        await self.sink.start()
        await self.outcomes.start()
        self._sweeper.start()

    def drain(self) -> None:
        """Send every consumer away with UNAVAILABLE and take no new ones."""
        self._draining = Unavailable("the broker is stopping; connect again")
        self._feeds.drain(self._draining)

    async def stop(self) -> None:
        """Finish what was begun; everything answered is durable when this returns."""
        self.drain()
        await self._sweeper.stop()
        await self.sink.stop()
        await self.router.stop()
        await self._dead_letters.drain()
        await self.outcomes.stop()
        self.retention.note_activity(self._active)
        await self.writer.drain()
        self._timers.clear()
        self._committer.close()

    # Publishing.

    async def publish(self, topic_name: str, body: Body) -> tuple[PartitionId, Offset]:
        """Append messages to a topic, all or nothing; durable when this returns.

        Raises:
            TopicNotFound: There is no such topic.
            SchemaMismatch: A message does not conform to the topic's schema.
            ResourceExhausted: There is no room, see `Writer.check_room`.
        """
        self.check_serving()
        topic, body = await self.room.admitted(topic_name, body)
        partition = topic.partitions[0]
        committed, base = self.writer.submit(publication=Publication(topic.id, partition, body))
        self.metrics.publish_requests += 1
        await committed
        return partition, base

    async def publish_once(
        self, topic_name: str, body: Body, dedup_ids: Sequence[str]
    ) -> tuple[PartitionId, Sequence[Offset]]:
        """Append messages unless their dedup ids were published lately; all or nothing.

        Returns the offset of each message, or of the one it repeats. Errors as for `publish`.
        """
        self.check_serving()
        topic, body = await self.room.admitted(topic_name, body)
        partition = topic.partitions[0]
        admission = self.hard.dedup_on(partition).admit(
            dedup_ids,
            base_offset=self.writer.assigned_end(partition),
            now=self._clock.now(),
            window_s=topic.dedup_window_s,
            most=limits.DEDUP_IDS_MAX,
        )
        self.metrics.publish_requests += 1
        self.metrics.deduplicated += body.count - len(admission.fresh)
        if admission.fresh:
            self.hard.apply_all(admission.records)
            publication = Publication(topic.id, partition, body.only(admission.fresh))
            committed, base = self.writer.submit(records=admission.records, publication=publication)
            assert base == admission.offsets[admission.fresh[0]]
            await committed
        else:
            # The one it repeats may still be on its way to the disk.
            await self.writer.settled()
        return partition, admission.offsets

    # Delivery.

    async def pull(
        self, name: str, *, max_messages: int, wait_s: float
    ) -> tuple[Subscription, list[Delivery]]:
        """Lease up to `max_messages`; wait for the first one at most `wait_s`.

        Raises:
            SubscriptionNotFound: There is no such subscription, or it was deleted meanwhile.
            FailedPrecondition: The subscription is detached, or pushes.
        """
        pushes.check_pull(self.hard.catalog, name)
        subscription, feed = self.attach(name)
        deadline_s = self._clock.now() + wait_s
        timer = None
        credit = Credit()
        try:
            while True:
                version = feed.version
                deliveries = await feed.take(
                    credit,
                    max_messages=min(max_messages, limits.PULL_MESSAGES_MAX),
                    max_bytes=limits.ANSWER_BYTES_MAX,
                    deadline_s=self.present(subscription).ack_deadline_s,
                )
                if deliveries or self._clock.now() >= deadline_s:
                    break
                if timer is None:
                    timer = self._clock.call_at(deadline_s, feed.wake)
                await feed.wait(version)
        finally:
            if timer is not None:
                timer.cancel()
            self.detach(subscription, feed)
        if not deliveries:
            await self.writer.settled()
        self.delivered(subscription, deliveries)
        return subscription, deliveries

    def attach(self, name: str) -> tuple[Subscription, Feed]:
        """The feed of a subscription, for one consumer; give it back with `detach`."""
        self.check_serving()
        subscription = self.readable(name)
        self.used(subscription)
        return subscription, self._feeds.enter(subscription)

    def detach(self, subscription: Subscription, feed: Feed) -> None:
        """A consumer leaves. Its leases run on to their deadlines."""
        self._feeds.leave(subscription, feed)
        self.used(subscription)

    def present(self, subscription: Subscription) -> Subscription:
        """The subscription with its settings of now; one that is gone, as it was."""
        return self.hard.catalog.subscription_by_id(subscription.id) or subscription

    def delivered(self, subscription: Subscription, deliveries: Iterable[Delivery]) -> None:
        self.metrics.delivered(subscription.id, deliveries)

    def added_attributes(
        self, subscription: Subscription, delivery: Delivery
    ) -> Mapping[str, str] | None:
        """What messages say besides what was published: on a pattern, where they come from."""
        if not subscription.is_pattern:
            return None
        return {attributes.TOPIC: self.hard.catalog.topic_name_of(delivery.partition)}

    def ack_id_prefix(self, subscription: Subscription, delivery: Delivery) -> str:
        """What the ack ids of a delivery begin with; twelve hex digits of the offset follow."""
        return self._ack_ids.prefix(subscription.id, delivery.partition, delivery.generation)

    async def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Acknowledge messages; durable when this returns.

        Raises:
            InvalidArgument: An id is not one of this broker's; nothing changed.
            AckIdsRefused: Exactly-once, and an id is stale or early; nothing changed.
        """
        subscription = self.readable(name)
        parsed = self._parse(subscription, ack_ids)
        refused = await self._settle_all(subscription, parsed, None, partial=False)
        settling.raise_refused(subscription, self._ack_ids, ack_ids, parsed, refused)

    async def modify_ack_deadline(
        self, name: str, ack_ids: Sequence[str], seconds: int, nack: Nack = NACKED
    ) -> None:
        """Give leases `seconds` from now; zero is a nack. Errors as for `acknowledge`.

        Raises:
            FailedPrecondition: A terminal nack, and there is nowhere for dead letters to go.
        """
        subscription = self.readable(name)
        settling.check_nack(subscription, nack)
        parsed = self._parse(subscription, ack_ids)
        refused = await self._settle_all(subscription, parsed, seconds, partial=False, nack=nack)
        settling.raise_refused(subscription, self._ack_ids, ack_ids, parsed, refused)

    async def settle_some(
        self,
        subscription: Subscription,
        ack_ids: Sequence[str],
        seconds: int | None,
        nack: Nack = NACKED,
    ) -> dict[str, str]:
        """Acknowledge (`seconds` None) or change deadlines, as much as can be; for streams.

        Returns why each refused id was refused; at least once, none is.

        Raises:
            InvalidArgument: At least once, and an id is not one of this broker's.
        """
        parsed = self._parse(subscription, ack_ids)
        refused = await self._settle_all(subscription, parsed, seconds, partial=True, nack=nack)
        if not subscription.enable_exactly_once:
            return {}
        return settling.failures(subscription, self._ack_ids, parsed, refused)

    # Deciding.

    def decide(
        self, share: Share, decision: Decision, *, can_wait: bool = False, wakes: bool = True
    ) -> asyncio.Future[None] | None:
        """Apply a share's decision and put it on its way; its future, if anything is to commit."""
        committed = None
        if decision.records:
            self.hard.apply_all(decision.records)
            committed, _ = self.writer.submit(records=decision.records, can_wait=can_wait)
        elif decision.grant is not None and share.follows_commits:
            # A dead letter before it, or its own reopening, may still be under way to the disk.
            committed = self.writer.settling()
        if decision.dead_letters:
            self._dead_letters.add(share, decision.dead_letters)
        self._timers.watch(share)
        if wakes:
            self._feeds.settled(share, has_some=share.has_some(self.writer.end(share.partition)))
        return committed

    async def commit(self, records: Iterable[Record]) -> None:
        """Apply records and wait until they are durable."""
        await self.begin_commit(records)

    def begin_commit(self, records: Iterable[Record]) -> asyncio.Future[None]:
        """Apply records and put them on their way."""
        records = list(records)
        self.hard.apply_all(records)
        return self.writer.submit(records=records)[0]

    def next_generation(self) -> int:
        self._generation += 1
        return self._generation

    def remove_subscription(self, subscription: Subscription) -> asyncio.Future[None]:
        """Delete a subscription and send its consumers away."""
        records: list[Record] = []
        for share in self.hard.shares_of(subscription):
            records += share.remove()
            self.router.left(share)
        self.patterns.remove(subscription)
        records += self.hard.catalog.delete_subscription(subscription)
        records += [Activity(subscription.id, None), *self.exports.removed(subscription)]
        records += self.hard.requests.forget(subscription.id)
        self.close_feed(
            subscription, SubscriptionNotFound(f"subscription {subscription.name!r} was deleted")
        )
        self.hard.apply_all(records)
        self._active.pop(subscription.id, None)
        self.outcomes.removed(subscription)
        return self.writer.submit(records=records)[0]

    def join(self, topic: Topic) -> list[Record]:
        """Let a new topic join the patterns that match it; the records go with its own."""
        records: list[Record] = []
        for subscription_id in self.patterns.match(topic.name):
            subscription = self.hard.catalog.subscription_by_id(subscription_id)
            assert subscription is not None
            if not subscription.detached:
                for partition in topic.partitions:
                    records += self.add_share(subscription, partition, 0)
        return records

    def add_share(
        self, subscription: Subscription, partition: PartitionId, floor: Offset
    ) -> list[Record]:
        """Let a subscription on a pattern read one more partition, from `floor` on."""
        records: list[Record] = [*Share(subscription, partition, floor).create().records]
        self.hard.apply_all(records)
        share = self.hard.share(subscription.id, partition)
        assert share is not None
        share.start()
        self.router.joined(share)
        self._feeds.add(share)
        return records

    def remove_share(self, share: Share) -> None:
        """A topic that is gone has nothing left for a pattern: the pattern lets go of it."""
        records: list[Record] = [*share.remove()]
        self.router.left(share)
        self._feeds.drop(share)
        self.hard.apply_all(records)
        self.writer.submit(records=records)

    def moved(self, subscription: Subscription, committed: asyncio.Future[None]) -> None:
        """A subscription has other settings, or another position, as soon as that is committed."""
        self.router.changed(subscription)
        self._feeds.moved(subscription, committed)
        self.pushes.changed(subscription)

    def close_feed(self, subscription: Subscription, error: FanlogError) -> None:
        """Send all consumers of a subscription away."""
        self._feeds.close(subscription, error)

    def used(self, subscription: Subscription) -> None:
        """Somebody did something with a subscription: it is not idle."""
        self._active[subscription.id] = self._clock.now()

    # Private.

    def check_serving(self) -> None:
        """Raises Unavailable once the broker is stopping."""
        if self._draining is not None:
            raise self._draining

    def readable(self, name: str) -> Subscription:
        """Raises FailedPrecondition when the subscription is detached."""
        subscription = self.hard.catalog.subscription(name)
        if subscription.detached:
            raise FailedPrecondition(f"subscription {name!r} is detached from its topic")
        return subscription

    def _new_feed(self, subscription: Subscription) -> Feed:
        return Feed(
            self.hard.shares_of(subscription),
            self._store,
            route=self.router.route,
            end=self.writer.end,
            now=self._clock.now,
            next_generation=self.next_generation,
            decide=self.decide,
            on_damage=self._damaged,
            revise=partial(self._revisions.revised, subscription.id),
        )

    def _parse(self, subscription: Subscription, ack_ids: Sequence[str]) -> ParsedAckIds:
        parsed = self._ack_ids.parse(subscription.id, ack_ids)
        settling.check_form(subscription, parsed)
        return parsed

    async def _settle_all(
        self,
        subscription: Subscription,
        parsed: ParsedAckIds,
        seconds: int | None,
        *,
        partial: bool,
        nack: Nack = NACKED,
    ) -> list[tuple[PartitionId, Decision]]:
        """Acknowledge or change deadlines on each share, and wait for the commit."""
        self.used(subscription)
        if (
            subscription.enable_exactly_once
            and not partial
            and (parsed.malformed or parsed.foreign)
        ):
            return []
        shares = await settling.placed_shares_of(self, subscription, parsed)
        now = self._clock.now()
        if subscription.enable_exactly_once and not partial and len(shares) > 1:
            refused = settling.refused_by_any(now, shares, parsed, is_ack=seconds is None)
            if refused:
                return refused
        decisions: list[tuple[PartitionId, Decision]] = []
        committed: asyncio.Future[None] | None = None
        for partition, by_generation in parsed.offsets.items():
            share = shares[partition]
            if share is None:
                decisions.append((partition, settling.nothing_left(by_generation)))
                continue
            if seconds is None:
                decision = share.acknowledge(
                    now, by_generation, partial=partial, end=self.writer.end(partition)
                )
            else:
                decision = share.modify_ack_deadline(
                    now,
                    by_generation,
                    seconds,
                    jitter=self._jitter(),
                    partial=partial,
                    nack=nack,
                )
            self.metrics.settled(subscription.id, decision, seconds, now)
            # A stream's acks are not confirmed, at least once: nobody waits for their commit.
            can_wait = partial and not subscription.enable_exactly_once
            committed = self.decide(share, decision, can_wait=can_wait) or committed
            decisions.append((partition, decision))
        if not (partial and not subscription.enable_exactly_once):
            if committed is None and seconds is None:
                # What is acknowledged already may be so by a commit that is still under way.
                committed = self.writer.settling()
            if committed is not None:
                await committed
        return decisions

    def _expire(self, share: Share) -> None:
        if self.hard.share(share.settings.id, share.partition) is not share:
            return
        decision = share.expire(self._clock.now(), jitter=self._jitter())
        self.metrics.of(share.settings.id).expired += decision.count
        self.decide(share, decision)

    def _damaged(self, damaged: Damaged) -> None:
        self.metrics.batches_damaged += 1
        what = (damaged.partition, damaged.base_offset, damaged.count, damaged.reason)
        log.error("action=batch_quarantined partition=%d base_offset=%d count=%d reason=%s", *what)

    def _load(self) -> None:
        latest_s = self._clock.now() + limits.ACK_DEADLINE_S_MAX
        self.hard = HardState.load(self._store.state(), latest_deadline_s=latest_s)
        self.patterns = Patterns()
        for subscription in self.hard.catalog.subscriptions():
            self.patterns.add(subscription)
        for share in self.hard.shares():
            self._timers.watch(share)

    def _recover(self, error: FanlogError) -> None:
        """A commit failed: what was decided on top of it never happened."""
        log.error("action=commit_failed error=%s; loading hard state again", error)
        self._feeds.clear(Unavailable("the broker is recovering from a failed commit; try again"))
        self._timers.clear()
        self._dead_letters.clear()
        self.router.clear()
        self._load()
        self.pushes.reloaded()

    async def sweep(self) -> None:
        """Expire and trim once, now."""
        for subscription_id in self._feeds:
            self._active[subscription_id] = self._clock.now()
        # What waits for the lake must not keep the rest, the look at the lake included, from it.
        with suppress(LakeUnavailable):
            await self.router.sweep(self.decide)
            for subscription in list(self.hard.catalog.subscriptions()):
                if subscription.filter_changes:
                    await self.admin.forget_filters(subscription.id)
        await self.sink.sweep()
        await self.retention.sweep(self._clock.now(), self._active)
