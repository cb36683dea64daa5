"""The consumer of a subscription with a callback: from the feed to the runner, and back.

Messages are taken on the loop of the core and put to the runner, which calls back elsewhere. The
outcomes are gathered by whichever threads have them, and settled on the loop all together.

A lease lasts for as long as the callback takes: `extend` is called long before it would end. With
an ack deadline of the caller's it is not: then the message is another delivery's when it has
passed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from fanlog.broker.broker import Broker as Core
from fanlog.broker.broker import Settled
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.members import About
from fanlog.broker.generations import GENERATIONS_PER_BOOT
from fanlog.core import ack_requests
from fanlog.core.ack_requests import INVALID_ACK_ID
from fanlog.core.flow import Credit
from fanlog.core.redelivery import NACKED, UNSENT, Nack
from fanlog.errors import AckIdsRefused, FanlogError
from fanlog.in_process.flow_pace import FlowPace
from fanlog.in_process.key_gates import KeyGates
from fanlog.in_process.message import Leased, Message
from fanlog.in_process.workers import Runner
from fanlog.model import names
from fanlog.model.resources import Offset, PartitionId, Subscription
from fanlog.push.senders.consumer import Consumer

log = logging.getLogger("fanlog.in_process")

#: Messages and bytes of one lease at most.
LEASE_MESSAGES_MAX = 1_000
LEASE_BYTES_MAX = 4 * 1024 * 1024
#: A lease without an ack deadline of the caller's: so long, and extended when so much is over.
LEASE_S = 60.0
EXTEND_S = 20.0

_Offsets = dict[PartitionId, dict[int, list[Offset]]]


class CallbackConsumer:
    """Consumes one subscription for one callback. Lives on the loop, but for `settle`."""

    def __init__(
        self,
        core: Core,
        subscription: Subscription,
        *,
        project: str,
        loop: asyncio.AbstractEventLoop,
        max_outstanding: int,
        ack_deadline_s: float | None,
    ) -> None:
        self._core = core
        self._project = project
        self._loop = loop
        self._max_outstanding = max_outstanding
        self._ack_deadline_s = ack_deadline_s
        self._runner: Runner | None = None
        self._consumer = Consumer(core, subscription, self._take_all)
        self._gates: KeyGates[Message] | None = (
            KeyGates() if subscription.enable_message_ordering else None
        )
        #: Messages that are out: their leases, and those that at most once were claimed before.
        self._held: dict[tuple[PartitionId, int], set[Offset]] = {}
        self._claimed = 0
        self._feed: Feed | None = None
        self._credit: Credit | None = None
        self._outcomes: deque[tuple[Message, Nack | None, Future[None] | None]] = deque()
        self._is_flushing = False
        #: Grows when the core takes back leased messages of a key.
        self._recalls = 0
        self._commits: set[asyncio.Task[None]] = set()
        self._ended = threading.Event()
        self._is_stopping = False
        self._is_closed = False
        #: Messages that the callable filter did not want.
        self.filtered = 0

    @property
    def subscription(self) -> Subscription:
        """With its settings of now."""
        return self._core.present(self._consumer.subscription)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is taken any more: it was stopped, or the subscription is gone."""
        return self._consumer.is_done

    @property
    def claimed(self) -> int:
        """At most once: messages that are acknowledged, and not done."""
        return self._claimed

    @property
    def is_full(self) -> bool:
        """Whether messages wait because as many are outstanding as may be."""
        feed, credit = self._feed, self._credit
        if feed is None or credit is None or not feed.has_ready:
            return False
        return credit.messages + self._claimed >= self._max_outstanding

    # Life.

    def start(self, runner: Runner) -> None:
        self._runner = runner
        self._consumer.start(self._note_end)

    def extend(self) -> None:
        """Give the messages that are out more time; called every `EXTEND_S`."""
        self._forget_ended()
        if self._ack_deadline_s is None and self._held:
            self._core.settle_leased(self.subscription, self._held_offsets(), LEASE_S)

    def stop(self) -> None:
        """Take no more; messages that no callback was called for are free again.

        At most once these are acknowledged already: their callbacks are called.
        """
        self._is_stopping = True
        self._consumer.end()
        if not self.subscription.is_at_most_once:
            self._give_back(self._drop_queue())

    async def finish(self) -> None:
        """Settle what is left; after that, outcomes have no effect."""
        await self._consumer.stop(())
        self.flush()
        self._is_closed = True
        if self._runner is not None:
            self._runner.end()
        while self._commits:
            await asyncio.wait(self._commits)
        # What a callback still has is free for the next consumer: nobody will settle it.
        left = self._held_offsets()
        if left:
            self._settle_leased(left, 0, UNSENT)

    # Outcomes; from any thread.

    def settle(
        self, message: Message, nack: Nack | None, confirmed: Future[None] | None = None
    ) -> None:
        message.is_settled = True
        if nack is not None and self._gates is not None and message.key_hash:
            self._gates.fail(message.key_hash)
        self._outcomes.append((message, nack, confirmed))
        if self._is_closed:
            self.refuse_outcomes()
        elif not self._is_flushing:
            self._is_flushing = True
            if not self._wake():
                self.refuse_outcomes()

    def check_nack(self, nack: Nack) -> None:
        ack_requests.check_nack(self.subscription, nack)

    def leave_gate(self, message: Message) -> None:
        """The callback of a message has ended: the next one of its key may be called."""
        if self._gates is not None and message.key_hash:
            following = self._gates.leave(message.key_hash)
            if following is not None and self._runner is not None:
                self._runner.put_next(following)

    # Private: taking.

    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        self._feed, self._credit = feed, credit
        credit.max_messages, credit.max_bytes = self._max_outstanding, 0
        feed.join(credit, About(client_id="in-process", since_s=self._core.clock.now()))
        if self.subscription.enable_exactly_once:
            await self._free_restored(feed)
        pace = FlowPace()
        try:
            while not self._consumer.is_over:
                version, recalls = feed.version, self._recalls
                deliveries: Sequence[Delivery] = ()
                subscription = self.subscription
                room = min(LEASE_MESSAGES_MAX, self._max_outstanding - self._claimed)
                if credit.has_room and room > 0:
                    deadline_s = self._ack_deadline_s or LEASE_S
                    ends_s = self._core.clock.now() + deadline_s
                    deliveries = await feed.take(
                        credit,
                        max_messages=room,
                        max_bytes=LEASE_BYTES_MAX,
                        deadline_s=deadline_s,
                    )
                    if deliveries and subscription.is_at_most_once:
                        claims = self._core.claims
                        deliveries = await claims.claim_deliveries(subscription, deliveries)
                    if deliveries:
                        self._hand_over(subscription, deliveries, ends_s, recalls)
                        count = sum(delivery.count for delivery in deliveries)
                        pause_s = pace.pause_s(self._core.clock.now(), count)
                        if pause_s:
                            await asyncio.sleep(pause_s)
                        continue
                await feed.wait(version)
        finally:
            self._feed = None
            if not self.subscription.is_at_most_once:
                # Sent away: the leases are void, and what waits here is delivered anew.
                self._give_back(self._drop_queue())

    async def _free_restored(self, feed: Feed) -> None:
        """End the leases of before a restart: whoever had them was a part of that process.

        Otherwise their messages would wait for deadlines, which nobody can meet any more.
        """
        first = self._core.hard.catalog.boots * GENERATIONS_PER_BOOT
        offsets: _Offsets = {}
        for share in list(feed.shares):
            # Their keys must be known before anything of theirs is settled.
            await feed.place_restored(share)
            for held in share.state.held.values():
                if held.generation < first and held.offsets:
                    by_generation = offsets.setdefault(share.partition, {})
                    by_generation.setdefault(held.generation, []).extend(held.offsets)
        if offsets:
            self._core.settle_leased(self.subscription, offsets, 0, UNSENT)

    def _hand_over(
        self,
        subscription: Subscription,
        deliveries: Sequence[Delivery],
        ends_s: float,
        recalls: int,
    ) -> None:
        """Put leased messages to the runner; those of a key that is busy wait."""
        self._core.count_deliveries(subscription, deliveries)
        is_claimed = subscription.is_at_most_once
        limit_s = float("inf") if self._ack_deadline_s is None or is_claimed else ends_s
        ready: list[Message] = []
        for delivery in deliveries:
            partition, generation = delivery.partition, delivery.generation
            leased = Leased(
                self,
                self._shown(self._core.hard.catalog.topic_name_of(partition)),
                partition,
                generation,
                limit_s,
                delivery.attempts,
                delivery.attempt,
            )
            stale = self._recalled(delivery) if recalls != self._recalls else ()
            if not is_claimed:
                held = self._held[(partition, generation)] = set()
            for batch, first, end in delivery.runs:
                base = batch.base_offset
                if not is_claimed:
                    held.update(range(base + first, base + end))
                else:
                    self._claimed += end - first
                made = [Message(leased, batch, index) for index in range(first, end)]
                if stale:
                    made = [one for one in made if one.offset not in stale]
                    held.difference_update(stale)
                if self._gates is None or batch.key_hashes is None:
                    ready += made
                else:
                    ready += filter(self._enter_gate, made)
        assert self._runner is not None
        if self._is_stopping and not is_claimed:
            self._give_back(ready + self._drop_queue())
        else:
            self._runner.put(ready)

    def _enter_gate(self, message: Message) -> bool:
        key = message.key_hash
        assert self._gates is not None
        return not key or self._gates.enter(key, message)

    def _recalled(self, delivery: Delivery) -> set[Offset]:
        """The messages of a delivery whose lease is over: an earlier one of their key failed."""
        share = self._core.hard.share(self._consumer.subscription.id, delivery.partition)
        if share is None:
            return set()
        offsets = [
            batch.base_offset + index
            for batch, first, end in delivery.runs
            for index in range(first, end)
        ]
        found = share.find_refusals(
            self._core.clock.now(), {delivery.generation: offsets}, is_ack=False
        )
        return {offset for _, offset in found.invalid}

    def _shown(self, topic: str) -> str:
        return topic.removeprefix(names.topic_name(self._project, ""))

    # Private: settling, on the loop.

    def flush(self) -> None:
        """Settle what has an outcome."""
        self._is_flushing = False
        outcomes = self._outcomes
        subscription = self.subscription
        if subscription.is_at_most_once:
            self._finish_claimed()
            return
        acked: _Offsets = {}
        nacked: dict[Nack, _Offsets] = {}
        keys: list[int] = []
        told: list[tuple[Message, Future[None]]] = []
        last: Leased | None = None
        append: Callable[[Offset], None] | None = None
        while outcomes:
            message, nack, confirmed = outcomes.popleft()
            if nack is None:
                if message.leased is not last or append is None:
                    last = message.leased
                    some = acked.setdefault(last.partition, {}).setdefault(last.generation, [])
                    append = some.append
                append(message.offset)
                if confirmed is not None:
                    told.append((message, confirmed))
            else:
                leased = message.leased
                by_partition = nacked.setdefault(nack, {}).setdefault(leased.partition, {})
                by_partition.setdefault(leased.generation, []).append(message.offset)
                if message.key_hash and self._gates is not None:
                    keys.append(message.key_hash)
        if acked:
            self._follow_acks(self._settle_leased(acked, None), told)
        for nack, offsets in nacked.items():
            self._settle_leased(offsets, 0, nack)
        if keys:
            self._recalls += 1
            assert self._gates is not None
            for key in keys:
                self._gates.heard(key)
            self._give_back(self._gates.take_dropped())

    def _finish_claimed(self) -> None:
        """At most once: they are acknowledged, whatever came of them."""
        count = 0
        while self._outcomes:
            message, nack, confirmed = self._outcomes.popleft()
            count += 1
            if nack is not None and message.key_hash and self._gates is not None:
                self._gates.heard(message.key_hash)
            if confirmed is not None:
                confirmed.set_result(None)
        self._claimed -= count
        if self._feed is not None:
            self._feed.wake()

    def _settle_leased(
        self, offsets: _Offsets, seconds: float | None, nack: Nack = NACKED
    ) -> Settled:
        for partition, by_generation in offsets.items():
            for generation, some in by_generation.items():
                held = self._held.get((partition, generation))
                if held is not None:
                    held.difference_update(some)
                    if not held:
                        del self._held[(partition, generation)]
        return self._core.settle_leased(self.subscription, offsets, seconds, nack)

    def _held_offsets(self) -> _Offsets:
        offsets: _Offsets = {}
        for (partition, generation), some in self._held.items():
            offsets.setdefault(partition, {})[generation] = list(some)
        return offsets

    def _forget_ended(self) -> None:
        """Hold no longer what the core has taken back: with an earlier one of a key, or late."""
        for partition, by_generation in self._held_offsets().items():
            share = self._core.hard.share(self._consumer.subscription.id, partition)
            if share is None:
                gone = [(g, offset) for g, some in by_generation.items() for offset in some]
            else:
                now = self._core.clock.now()
                gone = share.find_refusals(now, by_generation, is_ack=False).invalid
            for generation, offset in gone:
                held = self._held[(partition, generation)]
                held.discard(offset)
                if not held:
                    del self._held[(partition, generation)]

    def _follow_acks(self, settled: Settled, told: list[tuple[Message, Future[None]]]) -> None:
        refused: set[tuple[PartitionId, int, Offset]] = set()
        if self.subscription.enable_exactly_once:
            refused = {
                (partition, generation, offset)
                for partition, decision in settled.decisions
                for generation, offset in (*decision.invalid, *decision.early)
            }
        if refused:
            log.warning(
                "action=ack_refused subscription=%s messages=%d; they are delivered again",
                *(self.subscription.name, len(refused)),
            )
        if told:
            committed = settled.committed or self._core.ledger.pending()
            task = self._loop.create_task(self._confirm(committed, told, refused))
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)

    async def _confirm(
        self,
        committed: asyncio.Future[None] | None,
        told: list[tuple[Message, Future[None]]],
        refused: set[tuple[PartitionId, int, Offset]],
    ) -> None:
        error: FanlogError | None = None
        try:
            if committed is not None:
                await committed
        except FanlogError as failed:
            error = failed
        for message, confirmed in told:
            if not confirmed.set_running_or_notify_cancel():
                continue
            leased = message.leased
            if error is not None:
                confirmed.set_exception(error)
            elif (leased.partition, leased.generation, message.offset) in refused:
                why = {message.id: INVALID_ACK_ID}
                confirmed.set_exception(
                    AckIdsRefused(f"message {message.id} is to be delivered again", why)
                )
            else:
                confirmed.set_result(None)

    def _drop_queue(self) -> list[Message]:
        # Those that wait for their key first: otherwise they would follow into the queue.
        waiting = [] if self._gates is None else self._gates.clear()
        found = [] if self._runner is None else self._runner.clear()
        for message in found:
            if self._gates is not None and message.key_hash:
                self._gates.leave(message.key_hash)
        return found + waiting

    def _give_back(self, messages: Sequence[Message]) -> None:
        offsets: _Offsets = {}
        for message in messages:
            message.is_settled = True
            leased = message.leased
            by_generation = offsets.setdefault(leased.partition, {})
            by_generation.setdefault(leased.generation, []).append(message.offset)
        if offsets:
            self._settle_leased(offsets, 0, UNSENT)

    def _wake(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self.flush)
        except RuntimeError:
            # The broker has stopped meanwhile.
            return False
        return True

    def refuse_outcomes(self) -> None:
        """The broker has stopped: a message whose callback ends now is delivered again."""
        while self._outcomes:
            try:
                message, _, confirmed = self._outcomes.popleft()
            except IndexError:
                # Another thread refuses them, too.
                return
            if confirmed is not None:
                why = {message.id: INVALID_ACK_ID}
                confirmed.set_exception(
                    AckIdsRefused(f"message {message.id}: the broker has stopped", why)
                )

    def _note_end(self) -> None:
        self._ended.set()
        if not self._is_stopping:
            log.warning(
                "action=callback_ended subscription=%s; it is gone, or was detached",
                self._consumer.name,
            )
