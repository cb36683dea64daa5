"""The feed of one subscription: its consumers take messages from it, and wait at it.

Pulls and streams are alike to it: each has a `Credit`, takes the messages that are free, and waits
when there are none. A subscription on a pattern has many shares, and only those that may have
messages are looked at, each in its turn. Soft state only; a feed exists while it has consumers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.members import About, Members
from fanlog.broker.delivery.ports import Decide, Judge, Revise
from fanlog.broker.tenure import Tenure
from fanlog.core.cursor import Range
from fanlog.core.dependencies import causes_in
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.lapse import lapsed_in
from fanlog.core.share import Grant, Share
from fanlog.core.subscription_window import SubscriptionWindow
from fanlog.errors import FanlogError, LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId

#: Ranges of fewer messages are read batch by batch.
SHORT_RANGE = 64


class Feed:
    """Hands out the messages of one subscription's shares. All methods run on the loop."""

    def __init__(
        self,
        shares: Iterable[Share],
        log: Log,
        *,
        judge: Judge,
        end: Callable[[PartitionId], Offset],
        now: Callable[[], float],
        wall_ns: Callable[[], int],
        check_dues: Callable[[Batch], None],
        next_generation: Callable[[], int],
        decide: Decide,
        on_damage: Callable[[Damaged], None],
        revise: Revise,
        members: Members | None = None,
        window: SubscriptionWindow | None = None,
        note_full: Callable[[], None] = lambda: None,
        tenure: Tenure,
    ) -> None:
        shares = sorted(shares, key=lambda share: share.last_leased)
        self._shares = {share.partition: share for share in shares}
        self._log = log
        self._judge = judge
        self._end = end
        self._now = now
        self._wall_ns = wall_ns
        self._check_dues = check_dues
        self._next_generation = next_generation
        self._decide = decide
        self._on_damage = on_damage
        self._revise = revise
        #: The consumers that stay, in the order in which they came.
        self._staying: dict[Credit, About] = {}
        #: Of a subscription with key slots.
        self.members = members
        self._is_placed = members is None
        #: Of a subscription with a limit of what is outstanding.
        self._window = window
        #: Called when it was too full for a consumer.
        self._note_full = note_full
        #: While it is not sure nothing is leased, and consumers wait.
        self._tenure = tenure
        if window is not None:
            for share in shares:
                share.count_in(window)
        #: Members that have looked at messages of others, and are to look on behind them.
        self._behind: set[Credit] = set()
        self._lock = asyncio.Lock()
        # In the order they came: first come, first served, and the same in every run.
        self._waiters: dict[asyncio.Future[None], None] = {}
        # Partitions that may have something, the one longest not served first.
        self._ready = {p: None for p, share in self._shares.items() if share.has_some(end(p))}
        #: Grows with every wake-up: one that comes while a consumer is busy is not lost.
        self.version = 0
        self._closed: FanlogError | None = None
        self._served_last: Credit | None = None
        #: Consumers using the feed now; it is forgotten at zero.
        self.users = 0

    @property
    def waiting(self) -> int:
        """Consumers that wait for messages."""
        return len(self._waiters)

    @property
    def has_ready(self) -> bool:
        """Whether a share may have messages for a consumer."""
        return bool(self._ready)

    @property
    def shares(self) -> Collection[Share]:
        return self._shares.values()

    @property
    def staying(self) -> Mapping[Credit, About]:
        """The consumers that said that they stay: streams, mostly."""
        return self._staying

    def add(self, share: Share) -> None:
        """A topic joins the pattern."""
        self._shares[share.partition] = share
        share.count_in(self._window)
        if self.members is not None:
            self.members.add(share)
        self.wake(share.partition)

    def drop(self, partition: PartitionId) -> None:
        """A topic that is gone has been served to its end."""
        share = self._shares.pop(partition, None)
        if share is not None and self._window is not None:
            share.count_in(None)
            self.wake()

    def limit(self, max_messages: int, max_bytes: int) -> None:
        """The subscription has other settings: bounds of what may be outstanding; 0 for none."""
        before = self._window
        if not (max_messages or max_bytes):
            self._window = None
        elif before is None:
            self._window = SubscriptionWindow(max_messages, max_bytes)
        else:
            before.max_messages, before.max_bytes = max_messages, max_bytes
        if self._window is not before:
            for share in self.shares:
                share.count_in(self._window)

    def wake_all(self) -> None:
        """All shares may have changed."""
        self._ready |= dict.fromkeys(self._shares)
        self.wake()

    def wake(self, partition: PartitionId | None = None) -> None:
        """A share may have changed: let all consumers that wait look again."""
        if partition is not None:
            self._ready[partition] = None
        self.version += 1
        if self._waiters:
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def close(self, error: FanlogError) -> None:
        """End all consumers with `error`: the subscription is gone, or the broker drains."""
        self._closed = error
        self.wake()

    def void(self, error: FanlogError) -> None:
        """As `close`; the shares are no longer the broker's, and nothing is decided on them."""
        self._shares = {}
        self.close(error)

    def join(self, consumer: Credit, about: About) -> None:
        """A consumer comes, to stay: with key slots, it gets its part of them."""
        self._staying[consumer] = about
        if self.members is not None:
            self.members.join(consumer, about)

    def leave(self, consumer: Credit) -> None:
        """A consumer takes nothing more: others get its key slots."""
        self._behind.discard(consumer)
        self._staying.pop(consumer, None)
        if self.members is not None and self.members.leave(consumer):
            self.wake()
        window = self._window
        if window is not None and window.leave(consumer) and window.has_room:
            # Others have a larger part now.
            self.wake()

    def give_back(self, consumer: Credit, written: int) -> None:
        """A consumer gets nothing more: messages that it leased after a generation never left.

        They are free at once, for consumers that wait.
        """
        for share in self.shares:
            decision = share.give_back(self._now(), consumer, written)
            if decision.count:
                self._decide(share, decision, wakes=True)

    def abandon(self, consumer: Credit) -> None:
        """A consumer is gone; messages that were written to it stay leased."""
        for share in self.shares:
            share.abandon(consumer)
        self.leave(consumer)

    async def wait(self, version: int) -> None:
        """Return when the feed was woken since it had `version`.

        Raises:
            FanlogError: The feed was closed.
        """
        if self.version == version and self._closed is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)
        if self._closed is not None:
            raise self._closed

    async def take(
        self, consumer: Credit, *, max_messages: int, max_bytes: int, deadline_s: float
    ) -> list[Delivery]:
        """Lease messages that are free and fit; none when there are none for this consumer now.

        The messages are committed, and under exactly-once so is their lease.

        Raises:
            FanlogError: The feed was closed.
        """
        if consumer is self._served_last and self.users > 1:
            # Others that were woken with it look first: otherwise one that is quick to come again
            # would get all that is published one by one.
            await asyncio.sleep(0)
        while True:
            leased = await self._lease(
                consumer, max_messages=max_messages, max_bytes=max_bytes, deadline_s=deadline_s
            )
            if not leased:
                if consumer in self._behind:
                    self._behind.discard(consumer)
                    await asyncio.sleep(0)
                    continue
                return leased
            leaving = await self._revise(leased, max_bytes)
            if leaving:
                self._served_last = consumer
                return leaving
            # All of them were given back, as dead letters: there may be more behind them.
            await asyncio.sleep(0)

    async def _lease(
        self, consumer: Credit, *, max_messages: int, max_bytes: int, deadline_s: float
    ) -> list[Delivery]:
        deliveries: list[Delivery] = []
        commits: list[asyncio.Future[None]] = []
        if not self._tenure.is_sure:
            return deliveries
        async with self._lock:
            if not self._is_placed:
                await self._place_all()
            for partition in list(self._ready):
                budget = consumer.budget(max_messages, max_bytes)
                if self._window is not None:
                    budget = self._window.bound(budget, consumer)
                if deliveries:
                    budget = budget._replace(at_least_one=False, first_bytes=0)
                if not budget.messages or not (budget.size_bytes or budget.at_least_one):
                    break
                taken = await self._take_from(partition, consumer, budget, deadline_s)
                if taken is not None:
                    delivery, committed = taken
                    deliveries.append(delivery)
                    max_messages -= delivery.count
                    max_bytes = max(0, max_bytes - delivery.size_bytes)
                    if committed is not None:
                        commits.append(committed)
                self._end_turn(partition)
            if self._window is not None:
                self._note_room(self._window, consumer, is_served=bool(deliveries))
        for committed in commits:
            await committed
        if self._closed is not None and not deliveries:
            raise self._closed
        return deliveries

    def _note_room(self, window: SubscriptionWindow, consumer: Credit, *, is_served: bool) -> None:
        """A consumer has looked, and got something or not."""
        if self._ready and not is_served and not window.has_room:
            window.wait(consumer)
            self._note_full()
        elif window.leave(consumer) and window.has_room:
            # What was kept for it is for all again.
            self.wake()

    def _is_closed(self) -> bool:
        return self._closed is not None

    def _end_turn(self, partition: PartitionId) -> None:
        """A partition had its turn: it is last now, or has no messages to hand out."""
        self._ready.pop(partition, None)
        share = self._shares.get(partition)
        if share is not None and share.has_some(self._end(partition)):
            self._ready[partition] = None

    async def place_restored(self, share: Share) -> None:
        """Find the keys of leases that outlived a restart, so that their acks can be judged."""
        async with self._lock:
            await self._place(share)

    async def _place_all(self) -> None:
        """Find the key slots of leases that outlived a restart, before anything is handed out.

        A slot that is held in one partition is not to be taken from in another.
        """
        for share in list(self.shares):
            await self._place(share)
        self._is_placed = True

    async def _place(self, share: Share) -> None:
        while share.unplaced:
            end = share.unplaced_end
            while share.routed_to < end and not self._is_closed():
                await self._judge(share, end)
            before = share.next_offset, len(share.to_scan(end)), len(share.unplaced)
            batches = await self._read(share, share.to_scan(end), limits.READ_BYTES_MAX)
            share.scan(end, batches)
            if (share.next_offset, len(share.to_scan(end)), len(share.unplaced)) == before:
                return

    async def _take_from(
        self, partition: PartitionId, consumer: Credit, budget: LeaseBudget, deadline_s: float
    ) -> tuple[Delivery, asyncio.Future[None] | None] | None:
        share = self._shares.get(partition)
        while share is not None and not self._is_closed():
            end = self._end(share.partition)
            ranges = share.plan(consumer, end, budget.messages)
            while (
                share.routed_to < end and _count(ranges) < budget.messages and not self._is_closed()
            ):
                # Messages that are wanted may be acknowledged already: then there must be more.
                await self._judge_some(share, end, budget.messages - _count(ranges))
                ranges = share.plan(consumer, end, budget.messages)
                for other in share.take_let_go():
                    self.wake(other.partition)
            if not ranges:
                return None
            batches = await self._read(share, ranges, budget.size_bytes)
            if self._is_closed() or not self._tenure.is_sure:
                return None
            now = self._now()
            published_s = _middle_s(batches)
            decision = share.lease(
                consumer,
                end,
                batches,
                budget,
                generation=self._next_generation(),
                deadline_s=now + deadline_s,
                now=now,
                published_s=published_s,
                lapsed=self._lapsed(share, batches),
                causes=causes_in(batches),
            )
            # A consumer that takes must not wake itself: it would look for ever at messages that
            # did not fit.
            committed = self._decide(share, decision, wakes=False)
            if decision.grant is not None:
                return _delivery(share, decision.grant, batches, published_s), committed
            if decision.has_progressed and self.members is not None:
                # There may be no message of its slots for long: others have their turn meanwhile.
                self._behind.add(consumer)
                return None
            if not decision.has_progressed and share.plan(consumer, end, budget.messages) == ranges:
                # Otherwise all that was asked for is damaged, and now left out: look behind it.
                return None
        return None

    def _lapsed(self, share: Share, batches: Sequence[Batch]) -> BitMap64 | None:
        """The messages of batches whose time-to-live is over; mostly, none has any."""
        default_s = share.settings.message_ttl_s
        if default_s is None:
            for batch in batches:
                if batch.terms is not None:
                    break
            else:
                return None
        return lapsed_in(batches, default_s, self._wall_ns())

    async def _judge_some(self, share: Share, end: Offset, wanted: int) -> None:
        """Have the filter judge until it wants so many more, or the log ends."""
        while wanted > 0 and share.routed_to < end and not self._is_closed():
            wanted -= await self._judge(share, end)

    async def _read(self, share: Share, ranges: Sequence[Range], max_bytes: int) -> list[Batch]:
        """Batches that cover the front of `ranges`; at least the first offset is in them.

        Up to `max_bytes` of wanted messages; few messages of many batches make that much more.
        """
        batches: list[Batch] = []
        size_bytes, wanted_bytes, covered = 0, 0, -1
        most_bytes = limits.READ_BYTES_MAX
        previous = -1
        for start, stop in ranges:
            if start < previous:
                # Urgent messages come first; what was read for them need not be read again.
                covered = next((b.end_offset for b in batches if _has(b, start)), -1)
            previous = start
            position = max(start, covered)
            while position < stop and wanted_bytes <= max_bytes and size_bytes <= most_bytes:
                # A short range is in one batch, mostly; messages behind it may not be wanted.
                is_short = stop - position < SHORT_RANGE
                most = min(max_bytes - wanted_bytes, most_bytes - size_bytes)
                most = 1 if is_short else max(1, most)
                try:
                    found = await self._log.read(share.partition, position, max_bytes=most)
                except LakeUnavailable:
                    if batches:
                        # Deliver the messages before it; the next call raises.
                        return batches
                    raise
                if not found:
                    break
                for item in found:
                    if isinstance(item, Damaged):
                        self._on_damage(item)
                        share.skip(item.base_offset, item.base_offset + item.count)
                        covered = item.base_offset + item.count
                    else:
                        if item.seal is not None and item.seal.addressee:
                            _check_address(share, item)
                        if item.terms is not None and item.terms.is_timed:
                            self._check_dues(item)
                        batches.append(item)
                        size_bytes += len(item.content)
                        wanted_bytes += _bytes_between(item, position, stop)
                        covered = item.end_offset
                    position = covered
            if wanted_bytes > max_bytes or size_bytes > most_bytes:
                break
        return batches


def _has(batch: Batch, offset: Offset) -> bool:
    return batch.base_offset <= offset < batch.end_offset


def _check_address(share: Share, batch: Batch) -> None:
    """Leave out messages that are for another subscription, also where hard state lost that."""
    assert batch.seal is not None
    if batch.seal.addressee != share.settings.id:
        share.pass_over(BitMap64(range(batch.base_offset, batch.end_offset)))


def _bytes_between(batch: Batch, start: Offset, stop: Offset) -> int:
    """Bytes of a batch's messages from one offset to before another."""
    first = max(0, start - batch.base_offset)
    last = min(stop - batch.base_offset, batch.count)
    return batch.starts[last] - batch.starts[first] if last > first else 0


def _count(ranges: Sequence[Range]) -> int:
    return sum(stop - start for start, stop in ranges)


def _middle_s(batches: Sequence[Batch]) -> float:
    """A time in the middle of those that batches were published at, without a look at each."""
    if not batches:
        return math.nan
    return (batches[0].publish_time_ns + batches[-1].publish_time_ns) / 2e9


def _delivery(share: Share, grant: Grant, batches: Sequence[Batch], published_s: float) -> Delivery:
    by_base = {batch.base_offset: batch for batch in batches}
    runs = [(by_base[run.base], run.start - run.base, run.end - run.base) for run in grant.runs]
    attempts: dict[Offset, int] = {}
    attempt = 0
    if share.settings.dead_letter is not None:
        attempt = 1
        if share.has_attempts:
            for run in grant.runs:
                for offset in range(run.start, run.end):
                    failures = share.attempts_of(offset)
                    if failures:
                        attempts[offset] = failures + 1
    size_bytes = sum([run.size_bytes for run in grant.runs])
    slots = None
    if share.slots is not None:
        slots = {o: share.slots.of(o) for run in grant.runs for o in range(run.start, run.end)}
    return Delivery(
        share.partition,
        grant.generation,
        runs,
        grant.count,
        attempts,
        attempt,
        size_bytes,
        grant.redelivered,
        slots,
        published_s,
    )
