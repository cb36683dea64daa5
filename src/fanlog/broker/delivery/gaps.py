"""Gaps in the numbers of publishers: messages behind one are held back, and placed when it ends.

A gap ends with the message that was missing, in its commit, or when a message has waited behind it
for the time-out of its topic. Then a commit says so, before anybody gets the message: a number that
was given up is refused from then on. The times are hard state, so a restart makes no wait longer.
"""

from __future__ import annotations

from fanlog.broker.clock import Clock, Timer
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.hard_state import HardState
from fanlog.core.publishers import Placing, Publishers
from fanlog.model.resources import PartitionId

#: Timers do not sleep for longer: a time-out may be made shorter.
_NAP_S = 30.0
_NAP_S_MIN = 0.005


class Gaps:
    """Holds messages back behind gaps, and lets them go. Lives on the loop."""

    def __init__(self, ledger: Ledger, clock: Clock, metrics: Metrics, feeds: Feeds) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._feeds = feeds
        self._timer: Timer | None = None
        self._timer_due_s = float("inf")
        ledger.on_load.listen(self._load)

    @property
    def held(self) -> int:
        """Messages that are held back."""
        return self._ledger.hard.agendas.held

    def stop(self) -> None:
        self._cancel()

    def place(self, transaction: Transaction, partition: PartitionId, placing: Placing) -> None:
        """Hold messages back, and place those that are not held back any more."""
        agendas = self._ledger.hard.agendas
        for anchor, offsets in placing.behind.items():
            transaction.apply([agendas.place(partition, anchor, offsets)])
        if placing.held or placing.released:
            transaction.apply(agendas.hold(partition, placing.held, placing.released))
        if placing.held:
            self._watch(partition)

    def look(self) -> None:
        """Give up gaps that messages have waited behind for too long."""
        now, hard = self._clock.now(), self._ledger.hard
        for publishers in hard.publishers:
            timeout_s = self._timeout_s(publishers)
            end = self._ledger.assigned_end(publishers.partition)
            records, placing, gaps = publishers.give_up(now, timeout_s, end)
            if records:
                self._metrics.gaps_given_up += gaps
                transaction = self._ledger.begin()
                transaction.apply(records)
                self.place(transaction, publishers.partition, placing)
                transaction.commit()
                for share in hard.shares_on(publishers.partition):
                    has_some = share.has_some(self._ledger.end(publishers.partition))
                    self._feeds.wake_for(share, has_some=has_some)
            self._watch(publishers.partition)

    def _timeout_s(self, publishers: Publishers) -> float:
        topic = self._ledger.hard.catalog.topic_of(publishers.partition)
        return 0.0 if topic is None else topic.gap_timeout_s

    def _load(self, hard: HardState) -> None:
        self._cancel()
        for publishers in hard.publishers:
            self._watch(publishers.partition)

    def _watch(self, partition: PartitionId) -> None:
        publishers = self._ledger.hard.publishers.on(partition)
        due_s = publishers.next_deadline(self._timeout_s(publishers))
        if due_s is None:
            return
        now = self._clock.now()
        due_s = min(max(due_s, now + _NAP_S_MIN), now + _NAP_S)
        if due_s < self._timer_due_s:
            self._cancel()
            self._timer_due_s = due_s
            self._timer = self._clock.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_due_s = None, float("inf")
        self.look()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due_s = None, float("inf")
