"""Due times: pending messages are let go when they are due, never before. Soft state.

The agendas of partitions (`fanlog.core.agenda`) say which messages are pending, and when each is
due; here they get the times, from commits as they happen and from the log after a start, and the
shares of a partition are told when some are due. The wall clock decides, as it does on publish
times: a time that a publisher gave is one of the day. Timers run on the steady clock, in naps, so
that a correction of the machine's clock is noticed.
"""

from __future__ import annotations

import heapq
import logging

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.clock import Clock, Timer
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.events import Asking
from fanlog.broker.transaction import Ledger
from fanlog.core.agenda import Agenda
from fanlog.core.hard_state import HardState
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.resources import PartitionId
from fanlog.model.terms import TIMED, Terms

log = logging.getLogger("fanlog.delivery")

_NAP_S = 30.0


class DueTimes:
    """Lets go of pending messages of all partitions. Lives on the loop."""

    def __init__(self, ledger: Ledger, store: Log, clock: Clock, feeds: Feeds) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._feeds = feeds
        #: When some message of a partition is due; some entries are left over from before.
        self._heap: list[tuple[int, PartitionId]] = []
        self._timer: Timer | None = None
        self._timer_due_s = float("inf")
        ledger.on_asked.listen(self._note)
        ledger.on_load.listen(self._load)

    @property
    def pending(self) -> int:
        """Messages that wait for the time they are to be delivered at."""
        return self._ledger.hard.agendas.pending

    @property
    def is_behind(self) -> bool:
        """Whether a sweep has something to do."""
        return any(agenda.is_settling for agenda in self._ledger.hard.agendas)

    async def start(self) -> None:
        """Read the times of all pending messages; nothing is delivered before that."""
        for agenda in self._ledger.hard.agendas:
            await self._read(agenda)

    def stop(self) -> None:
        self._heap.clear()
        self._cancel()

    async def sweep(self) -> None:
        """Read times that could not be read before; forget messages that are due long since."""
        for agenda in self._ledger.hard.agendas:
            if agenda.unread and self._ledger.end(agenda.partition) > agenda.unread.min():
                await self._read(agenda)
        records = [one for agenda in self._ledger.hard.agendas for one in agenda.settle()]
        if records:
            self._ledger.commit(records, can_wait=True)

    def check(self, batch: Batch) -> None:
        """Note messages of a batch that are not due, where hard state lost that they are pending.

        Their batch says so, too; a folder that was salvaged may have lost the rest.
        """
        terms, now_ms = batch.terms, self._clock.wall_ns() // 1_000_000
        assert terms is not None
        agenda = self._ledger.hard.agendas.find(batch.partition)
        known = BitMap64() if agenda is None else agenda.pending
        early = {
            index
            for index, due_ms in terms.dues_ms(batch.publish_time_ns)
            if due_ms > now_ms and batch.base_offset + index not in known
        }
        lost = Terms.of(
            sorted(
                (index, kind, value)
                for kind, index, value in terms
                if index in early and kind in TIMED
            )
        )
        if lost is not None:
            agendas = self._ledger.hard.agendas
            self._ledger.commit(agendas.add(batch.partition, batch.base_offset, lost))
            agenda = agendas.find(batch.partition)
            assert agenda is not None
            dues_ms = list(lost.dues_ms(batch.publish_time_ns))
            agenda.schedule(batch.base_offset, dues_ms, batch.key_hashes)
            self._watch(agenda)

    def _note(self, asked: Asking) -> None:
        """A commit has messages that ask for something: note when they are due."""
        terms = asked.body.terms
        assert terms is not None
        agenda = self._ledger.hard.agendas.find(asked.partition)
        if agenda is not None and terms.is_timed:
            agenda.schedule(asked.base, list(terms.dues_ms(asked.time_ns)), asked.body.key_hashes)
            self._watch(agenda)

    def _load(self, _: HardState) -> None:
        """Hard state was loaded again; times that were known still are."""
        self._heap.clear()
        self._cancel()
        for agenda in self._ledger.hard.agendas:
            self._watch(agenda)

    async def _read(self, agenda: Agenda) -> None:
        """Read the times of pending messages that are not known."""
        partition = agenda.partition
        while agenda.unread:
            offset = agenda.unread.min()
            if offset >= self._ledger.end(partition):
                return
            try:
                found = await self._store.read(
                    partition, offset, max_bytes=limits.ROUTE_READ_BYTES_MAX
                )
            except LakeUnavailable as error:
                # They stay pending: late is allowed, early is not.
                log.warning("action=due_times_wait partition=%d error=%s", partition, error)
                return
            if self._ledger.hard.agendas.find(partition) is not agenda:
                return
            # Without any, all that is left was trimmed meanwhile.
            position = self._ledger.end(partition)
            for item in found:
                position = item.base_offset + item.count
                if not isinstance(item, Damaged) and item.terms is not None:
                    dues_ms = list(item.terms.dues_ms(item.publish_time_ns))
                    agenda.schedule(item.base_offset, dues_ms, item.key_hashes)
            # A damaged batch has no time to wait for: its messages are found out in their turn.
            # Those before the first batch were trimmed.
            rest = agenda.unread & BitMap64(range(offset, position))
            if rest:
                self._tell(agenda, *agenda.give_up(rest))
        self._watch(agenda)

    def _watch(self, agenda: Agenda) -> None:
        due_ms = agenda.next_due_ms()
        if due_ms is not None:
            heapq.heappush(self._heap, (due_ms, agenda.partition))
            self._arm(self._seconds_until(self._heap[0][0]))

    def _seconds_until(self, due_ms: int) -> float:
        return max(0.0, (due_ms * 1_000_000 - self._clock.wall_ns()) / 1e9)

    def _arm(self, wait_s: float) -> None:
        due_s = self._clock.now() + min(wait_s, _NAP_S)
        if due_s < self._timer_due_s:
            self._cancel()
            self._timer_due_s = due_s
            self._timer = self._clock.call_at(due_s, self._fire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due_s = None, float("inf")

    def _fire(self) -> None:
        self._timer, self._timer_due_s = None, float("inf")
        now_ms = self._clock.wall_ns() // 1_000_000
        most = limits.DUE_MESSAGES_MAX
        while self._heap and self._heap[0][0] <= now_ms and most > 0:
            _, partition = heapq.heappop(self._heap)
            agenda = self._ledger.hard.agendas.find(partition)
            due_ms = None if agenda is None else agenda.next_due_ms()
            if agenda is None or due_ms is None:
                continue
            if due_ms <= now_ms:
                found, keyed = agenda.take_due(now_ms, most)
                most -= max(1, len(found))
                self._tell(agenda, found, keyed)
                due_ms = agenda.next_due_ms()
            if due_ms is not None:
                heapq.heappush(self._heap, (due_ms, partition))
        if self._heap:
            self._arm(max(limits.DUE_PAUSE_S, self._seconds_until(self._heap[0][0])))

    def _tell(self, agenda: Agenda, found: BitMap64, keyed: BitMap64) -> None:
        """Tell the shares of a partition that some messages are pending no longer."""
        if not found:
            return
        end = self._ledger.end(agenda.partition)
        for share in self._ledger.hard.shares_on(agenda.partition):
            if share.come_due(found, keyed):
                self._feeds.wake_for(share, has_some=share.has_some(end))
