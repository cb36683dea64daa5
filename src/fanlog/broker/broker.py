"""The broker: the verbs of messages, and the parts that have the other verbs. Open this file first.

The path of a message:

1. `publish` checks it against the topic's schema and the room on the disk, and appends it in a
   transaction (`fanlog.broker.transaction`). The writer commits it, with others, to the log.
2. The commit wakes the feeds (`fanlog.broker.delivery.feed`) of subscriptions with consumers that
   wait; those with a filter only if it wants the message. A feed reads the log and has messages
   leased by the shares of its subscription: the rules are in `fanlog.core.share`.
3. `pull` takes from the feed; streams and senders `attach` to it and take by themselves.
4. `acknowledge` and `modify_ack_deadline` settle leases. A share decides, and
   `fanlog.broker.delivery.decisions` commits its decision and sees to the consequences. Where
   messages are delivered at most once, `fanlog.broker.delivery.claims` does so before they leave.

A verb decides records; records are applied at once, in order; the answer leaves when all that the
verb saw is committed. `fanlog.broker.assembly` builds a broker from its parts, top to bottom; the
verbs of resources are in `fanlog.broker.verbs`, one file a noun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fanlog import limits
from fanlog.broker import parts
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.claims import Claims
from fanlog.broker.delivery.consumers import Consumers
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.due_times import DueTimes
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.gaps import Gaps
from fanlog.broker.delivery.movers import Movers
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.outcome_telling import OutcomeTelling
from fanlog.broker.parts import Placed
from fanlog.broker.ports import Cluster, ForwardDenial, Node
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.pressure.relief import Relief
from fanlog.broker.retention.retention import Retention
from fanlog.broker.retention.room import Room
from fanlog.broker.retention.spare import Spare
from fanlog.broker.schemas.decoding import Decoding
from fanlog.broker.server_secrets import ServerSecrets
from fanlog.broker.sweeper import Sweeper
from fanlog.broker.tiering.table_looks import TableLooks
from fanlog.broker.tiering.tiers import Acceptance, Tiers
from fanlog.broker.tracing import Tracing
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.accounts import Accounts
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.broker.verbs.alerting import Alerting
from fanlog.broker.verbs.alerts import Alerts
from fanlog.broker.verbs.backlogs import Backlogs
from fanlog.broker.verbs.browsing import Browsing
from fanlog.broker.verbs.dead_letters import DeadLetters
from fanlog.broker.verbs.estimates import Estimates
from fanlog.broker.verbs.exports import Exports
from fanlog.broker.verbs.findings import Findings
from fanlog.broker.verbs.hints import Hints
from fanlog.broker.verbs.iam import Iam
from fanlog.broker.verbs.jobs import Jobs
from fanlog.broker.verbs.live import Live
from fanlog.broker.verbs.log_reads import LogReads
from fanlog.broker.verbs.numbering import Numbering
from fanlog.broker.verbs.peeks import Peeks
from fanlog.broker.verbs.pipelines import Pipelines
from fanlog.broker.verbs.purges import Purges
from fanlog.broker.verbs.reopening import Reopening
from fanlog.broker.verbs.schedules import Schedules
from fanlog.broker.verbs.schemas import Schemas
from fanlog.broker.verbs.seeks import Seeks
from fanlog.broker.verbs.sink import Sink
from fanlog.broker.verbs.snapshots import Snapshots
from fanlog.broker.verbs.subscriptions import Subscriptions
from fanlog.broker.verbs.survey import Survey
from fanlog.broker.verbs.tables import Tables
from fanlog.broker.verbs.ticking import Ticking
from fanlog.broker.verbs.topics import Topics
from fanlog.broker.verbs.traces import Traces
from fanlog.core import ack_requests
from fanlog.core.ack_ids import AckIds, ParsedAckIds
from fanlog.core.flow import Credit
from fanlog.core.hard_state import HardState
from fanlog.core.publish_rates import PublishRates
from fanlog.core.recent_events import RecentEvents
from fanlog.core.redelivery import NACKED, Nack
from fanlog.core.share import ByGeneration, Decision, Share
from fanlog.log.batch import Body
from fanlog.model import attributes
from fanlog.model.resources import PartitionId, Subscription, Topic
from fanlog.model.sequences import Numbered
from fanlog.model.server_rules import ServerRules


class Settled(NamedTuple):
    """What became of a request to settle leases."""

    #: The decision of the share in each partition.
    decisions: list[tuple[PartitionId, Decision]]
    #: Done when they are durable; None when nothing was to be committed.
    committed: asyncio.Future[None] | None


@dataclass(eq=False, kw_only=True)
class Broker:
    """One broker on one log. Lives on one loop; not safe to use from another thread.

    `await start()` before the first verb, `await stop()` after the last; the log stays open.
    """

    clock: Clock
    metrics: Metrics
    ledger: Ledger
    access: Access
    # Delivery.
    filtering: Filtering
    feeds: Feeds
    decisions: Decisions
    claims: Claims
    consumers: Consumers
    shares: Shares
    due_times: DueTimes
    gaps: Gaps
    movers: Movers
    #: Of messages that are to be published.
    admission: PublishAdmission
    numbering: Numbering
    #: Of topics that have one.
    publish_rates: PublishRates
    # Retention and tiers.
    tiers: Tiers
    lake_tables: TableLooks
    spare: Spare
    retention: Retention
    room: Room
    # Backlogs with limits.
    relief: Relief
    pressure: Pressure
    sweeper: Sweeper
    # The verbs of resources.
    topics: Topics
    subscriptions: Subscriptions
    snapshots: Snapshots
    seeks: Seeks
    backlogs: Backlogs
    schemas: Schemas
    iam: Iam
    accounts: Accounts
    log_reads: LogReads
    jobs: Jobs
    pipelines: Pipelines
    exports: Exports
    sink: Sink
    reopening: Reopening
    dead_letters: DeadLetters
    peeks: Peeks
    purges: Purges
    traces: Traces
    recent: RecentEvents
    # Looking, at a bounded cost.
    browsing: Browsing
    decoding: Decoding
    estimates: Estimates
    survey: Survey
    findings: Findings
    tables: Tables
    live: Live
    #: The process around it.
    node: Node
    started_s: float
    hints: Hints
    outcomes: OutcomeTelling
    schedules: Schedules
    ticking: Ticking
    alerts: Alerts
    alerting: Alerting
    # Settings.
    forward_denial: ForwardDenial
    cluster: Cluster
    rules: ServerRules
    #: Of one message that a caller publishes; checked where requests are read.
    message_bytes_max: int
    ack_ids: AckIds
    secrets: ServerSecrets
    jitter: Callable[[], float]
    #: Of sampled messages; None while nothing is traced.
    tracing: Tracing | None = None

    @property
    def hard(self) -> HardState:
        """Hard state as of now; to be read, never changed."""
        return self.ledger.hard

    # Life.

    async def start(self) -> None:
        """Load hard state and begin to serve.

        Raises:
            DataLoss: Hard state cannot be read; nothing was changed.
        """
        await self.ledger.start()
        await self.secrets.start()
        await self.due_times.start()
        await self.sink.start()
        await self.outcomes.start()
        self.ticking.start()
        self.alerting.start()
        self.relief.start()
        self.sweeper.start()

    def drain(self) -> None:
        """Send every consumer away with UNAVAILABLE and take no new ones."""
        self.ticking.drain()
        self.alerting.drain()
        self.live.drain()
        self.feeds.drain(self.access.close())

    async def stop(self) -> None:
        """Finish the work that was begun; everything answered is durable when this returns."""
        self.drain()
        await self.ticking.stop()
        await self.alerting.stop()
        await self.relief.stop()
        await self.sweeper.stop()
        await self.sink.stop()
        await self.filtering.stop()
        await self.decisions.drain()
        await self.outcomes.stop()
        self.retention.note_activity()
        await self.ledger.drain()
        self.decisions.stop()
        self.due_times.stop()
        self.gaps.stop()
        self.ledger.close()

    async def sweep(self) -> None:
        """Expire and trim once, now."""
        await self.sweeper.sweep()

    async def accept_loss(self, *, confirm: bool) -> Acceptance:
        """Go on with the lake of now, and give up the rest; see `Tiers.accept_loss`."""
        self.access.check_serving()
        found = await self.tiers.accept_loss(confirm=confirm)
        if found.is_accepted:
            # Subscriptions that were below go on at the first message that there is.
            await self.sweep()
        return found

    # Publishing.

    async def publish(self, topic_name: str, body: Body) -> list[Placed]:
        """Append messages to a topic, all or nothing; durable when this returns.

        Raises:
            TopicNotFound: There is no such topic.
            SchemaMismatch: A message does not conform to the topic's schema.
            InvalidArgument: A message cannot stand in the order of the topic.
            RateExceeded: The topic takes no more just now.
            ResourceExhausted: There is no room, see `Ledger.check_room`.
        """
        began_s = self.clock.now()
        topic = self.admission.admit_plain(topic_name, body)
        if topic is None:
            topic, body = await self.admission.admit(topic_name, body)
        self.metrics.publish_requests += 1
        transaction = self.ledger.begin()
        placed = parts.append(transaction, topic, body)
        await transaction.commit()
        self.metrics.publish_seconds.observe(self.clock.now() - began_s)
        return placed

    async def publish_once(
        self, topic_name: str, body: Body, dedup_ids: Sequence[str]
    ) -> list[Placed]:
        """Append messages unless their dedup ids were published lately; all or nothing.

        Returns the place of each message, or of the one it repeats. Errors as for `publish`.
        """
        began_s = self.clock.now()
        topic, body = await self.admission.admit(topic_name, body)
        self.metrics.publish_requests += 1
        transaction = self.ledger.begin()
        placed: list[Placed] = []
        for partition, part, indexes in parts.parts_of(topic.partitions, body, dedup_ids):
            ids = dedup_ids if indexes is None else [dedup_ids[index] for index in indexes]
            offsets = self._append_once(transaction, topic, partition, part, ids)
            placed.append((partition, offsets, indexes))
        if transaction.is_empty:
            # The messages that these repeat may still be on their way to the disk.
            await self.ledger.sync()
        else:
            await transaction.commit()
        self.metrics.publish_seconds.observe(self.clock.now() - began_s)
        return placed

    async def publish_numbered(
        self,
        topic_name: str,
        body: Body,
        numbers: Sequence[Numbered | None],
        dedup_ids: Sequence[str] | None = None,
    ) -> list[Placed]:
        """Append messages of publishers that number them, unless they are there; all or nothing.

        Returns the place of each message, or of the one it repeats. Errors as for `publish`, and:

        Raises:
            FailedPrecondition: A number or an epoch is over; says the number expected next.
        """
        began_s = self.clock.now()
        topic, body = await self.admission.admit(topic_name, body)
        self.metrics.publish_requests += 1
        transaction = self.ledger.begin()
        placed = self.numbering.append(transaction, topic, body, numbers, dedup_ids)
        await (self.ledger.sync() if transaction.is_empty else transaction.commit())
        self.metrics.publish_seconds.observe(self.clock.now() - began_s)
        return placed

    # Delivery.

    async def pull(
        self, name: str, *, max_messages: int, wait_s: float
    ) -> tuple[Subscription, list[Delivery]]:
        """Lease up to `max_messages`; wait for the first one at most `wait_s`.

        Raises:
            SubscriptionNotFound: There is no such subscription, or it was deleted meanwhile.
            FailedPrecondition: The subscription is detached, or pushes, or has key slots.
        """
        self.access.check_unary_pull(name)
        subscription, feed = self.attach_puller(name)
        deadline_s = self.clock.now() + wait_s
        timer = None
        credit = Credit()
        try:
            while True:
                version = feed.version
                deliveries = await feed.take(
                    credit,
                    max_messages=min(max_messages, limits.PULL_MESSAGES_MAX),
                    max_bytes=limits.ANSWER_BYTES_MAX,
                    deadline_s=subscription.ack_deadline_s,
                )
                subscription = self.present(subscription)
                if deliveries and subscription.is_at_most_once:
                    deliveries = await self.claims.claim_deliveries(subscription, deliveries)
                if deliveries or self.clock.now() >= deadline_s:
                    break
                if timer is None:
                    timer = self.clock.call_at(deadline_s, feed.wake)
                await feed.wait(version)
                subscription = self.present(subscription)
        finally:
            if timer is not None:
                timer.cancel()
            feed.leave(credit)
            self.detach(subscription, feed)
        if not deliveries:
            await self.ledger.sync()
        self.count_deliveries(subscription, deliveries)
        return subscription, deliveries

    def attach_puller(self, name: str) -> tuple[Subscription, Feed]:
        """As `attach`, for a consumer that pulls or streams.

        Raises:
            FailedPrecondition: The subscription is detached, or pushes, or exports.
        """
        self.access.check_pull(name)
        return self.attach(name)

    def attach(self, name: str) -> tuple[Subscription, Feed]:
        """The feed of a subscription, for one consumer; give it back with `detach`."""
        return self.consumers.attach(name)

    def detach(self, subscription: Subscription, feed: Feed) -> None:
        """A consumer leaves. Its leases run on to their deadlines."""
        self.consumers.detach(subscription, feed)

    def present(self, subscription: Subscription) -> Subscription:
        """The subscription with its settings of now; one that is gone, as it was."""
        return self.access.present(subscription)

    def count_deliveries(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:
        """Deliveries are about to leave."""
        self.metrics.count_deliveries(subscription.id, deliveries, self.clock.now())
        if self.tracing is not None:
            self.tracing.delivered(subscription, deliveries)

    def added_attributes(
        self, subscription: Subscription, delivery: Delivery
    ) -> Mapping[str, str] | None:
        """Attributes that delivered messages have besides their own: on a pattern, the topic."""
        if not subscription.is_pattern:
            return None
        return {attributes.TOPIC: self.hard.catalog.topic_name_of(delivery.partition)}

    def ack_id_prefix(self, subscription: Subscription, delivery: Delivery) -> str:
        """The beginning of the ack ids of a delivery; twelve hex digits of the offset follow."""
        return self.ack_ids.prefix(subscription.id, delivery.partition, delivery.generation)

    # Settling.

    async def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Acknowledge messages; durable when this returns.

        Raises:
            InvalidArgument: An id is not one of this broker's; nothing changed.
            AckIdsRefused: Exactly-once, and an id is stale or early; nothing changed.
        """
        subscription = self.access.find(name)
        parsed = self._parse(subscription, ack_ids)
        refused = await self._settle_all(subscription, parsed, None, partial=False)
        ack_requests.raise_refused(subscription, self.ack_ids, ack_ids, parsed, refused)

    async def modify_ack_deadline(
        self, name: str, ack_ids: Sequence[str], seconds: int, nack: Nack = NACKED
    ) -> None:
        """Give leases `seconds` from now; zero is a nack. Errors as for `acknowledge`.

        Raises:
            FailedPrecondition: A terminal nack, and there is nowhere for dead letters to go.
        """
        subscription = self.access.find(name)
        ack_requests.check_nack(subscription, nack)
        parsed = self._parse(subscription, ack_ids)
        refused = await self._settle_all(subscription, parsed, seconds, partial=False, nack=nack)
        ack_requests.raise_refused(subscription, self.ack_ids, ack_ids, parsed, refused)

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
        return ack_requests.failures(subscription, self.ack_ids, parsed, refused)

    def settle_leased(
        self,
        subscription: Subscription,
        leased: Mapping[PartitionId, ByGeneration],
        seconds: float | None,
        nack: Nack = NACKED,
    ) -> Settled:
        """As `settle_some`, of leases that are known without ack ids; decided when this returns.

        For consumers inside the process. Leases of before a restart must be placed.
        """
        self.access.use(subscription)
        shares = {partition: self.hard.share(subscription.id, partition) for partition in leased}
        return self._settle_shares(subscription, shares, leased, seconds, partial=True, nack=nack)

    # Private.

    def _append_once(
        self,
        transaction: Transaction,
        topic: Topic,
        partition: PartitionId,
        body: Body,
        dedup_ids: Sequence[str],
    ) -> Sequence[int]:
        """Append messages to a partition that it has not had lately; the offset of each."""
        base = transaction.end(partition)
        admission = self.hard.dedup_on(partition).admit(
            dedup_ids,
            base_offset=base,
            now=self.clock.now(),
            window_s=topic.dedup_window_s,
            most=limits.DEDUP_IDS_MAX,
        )
        self.metrics.deduplicated += body.count - len(admission.fresh)
        if admission.fresh:
            transaction.apply(admission.records)
            transaction.append(topic.id, partition, body.only(admission.fresh))
            assert base == admission.offsets[admission.fresh[0]]
        return admission.offsets

    def _parse(self, subscription: Subscription, ack_ids: Sequence[str]) -> ParsedAckIds:
        parsed = self.ack_ids.parse(subscription.id, ack_ids)
        ack_requests.check_form(subscription, parsed)
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
        self.access.use(subscription)
        is_whole = subscription.enable_exactly_once and not partial
        if is_whole and (parsed.malformed or parsed.foreign):
            return []
        shares = await self._placed_shares(subscription, parsed)
        if is_whole and len(shares) > 1:
            now, is_ack = self.clock.now(), seconds is None
            refused = ack_requests.refused_by_any(now, shares, parsed, is_ack=is_ack)
            if refused:
                return refused
        # At least once, the acks of a stream are not confirmed: their commit is not waited for.
        can_wait = partial and not subscription.enable_exactly_once
        decisions, committed = self._settle_shares(
            subscription, shares, parsed.offsets, seconds, partial=partial, nack=nack
        )
        if not can_wait:
            if committed is None and seconds is None:
                # A commit that is still under way may have acknowledged these messages.
                committed = self.ledger.pending()
            if committed is not None:
                await committed
        return decisions

    def _settle_shares(
        self,
        subscription: Subscription,
        shares: Mapping[PartitionId, Share | None],
        leased: Mapping[PartitionId, ByGeneration],
        seconds: float | None,
        *,
        partial: bool,
        nack: Nack,
    ) -> Settled:
        """Decide on each share, in one turn of the loop."""
        now = self.clock.now()
        can_wait = partial and not subscription.enable_exactly_once
        decisions: list[tuple[PartitionId, Decision]] = []
        committed: asyncio.Future[None] | None = None
        for partition, by_generation in leased.items():
            share = shares[partition]
            if share is None:
                decisions.append((partition, ack_requests.nothing_left(by_generation)))
                continue
            decision = self._settle(share, now, by_generation, seconds, partial=partial, nack=nack)
            if nack.was_sent:
                self.metrics.count_settling(subscription.id, decision, seconds, now)
            committed = self.decisions.decide(share, decision, can_wait=can_wait) or committed
            decisions.append((partition, decision))
        return Settled(decisions, committed)

    def _settle(
        self,
        share: Share,
        now: float,
        by_generation: ByGeneration,
        seconds: float | None,
        *,
        partial: bool,
        nack: Nack,
    ) -> Decision:
        if seconds is None:
            end = self.ledger.end(share.partition)
            return share.acknowledge(now, by_generation, partial=partial, end=end)
        return share.modify_ack_deadline(
            now, by_generation, seconds, jitter=self.jitter(), partial=partial, nack=nack
        )

    async def _placed_shares(
        self, subscription: Subscription, parsed: ParsedAckIds
    ) -> dict[PartitionId, Share | None]:
        """The share in each partition that ids name, with leases from before a restart placed."""
        shares = ack_requests.shares_of(self.hard, subscription, parsed)
        is_placed = True
        for share in shares.values():
            if share is not None and share.unplaced:
                is_placed = False
                _, feed = self.attach(subscription.name)
                try:
                    await feed.place_restored(share)
                finally:
                    self.detach(subscription, feed)
        return shares if is_placed else ack_requests.shares_of(self.hard, subscription, parsed)
