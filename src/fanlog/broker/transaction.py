"""The one road to state: the ledger, and the transactions that change it.

A verb decides records, and perhaps messages to append. It begins a `Transaction`, has it `apply`
the records, `append` the messages, `trim` partitions, and calls `commit`, all of it in one turn of
the loop: it awaits nothing in between. Records are applied to hard state at once, in the order they
were decided; the future of the commit is done when all of it is durable.

No other module changes hard state or hands anything to the writer. Invariants:

1. Hard state is the state of the log plus all records submitted to the writer since, in order.
2. An offset that `append` returns is the one its message has in the log.
3. After a failed commit, hard state is loaded from the log again: decisions on top of the failed
   commit never happened. Where another node owns the log by then it is not: the broker is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.committer import Committer
from fanlog.broker.events import Appended, Asking, Event
from fanlog.broker.gathering import Publication
from fanlog.broker.metrics import Metrics
from fanlog.broker.standby_state import ReadyState
from fanlog.broker.writer import Writer
from fanlog.core import shedding
from fanlog.core.hard_state import HardState
from fanlog.core.records import Record
from fanlog.core.records.sizes import state_bytes
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.core.sealing import Opening, Sealing
from fanlog.errors import CommitTooLarge, FanlogError, LoadShed
from fanlog.log.api import Log, Trim
from fanlog.log.batch import Body, stored_bytes_max
from fanlog.model.resources import Offset, PartitionId, TopicId
from fanlog.model.terms import Terms

log = logging.getLogger("fanlog.broker")

#: Gives hard state that is ready, given the log's last commit and when leases end at the latest.
TakeReady = Callable[[int, float], Awaitable[ReadyState | None]]


class Transaction:
    """Changes that become durable together. Begun, filled and committed in one turn of the loop."""

    __slots__ = (
        *("_ends", "_hard", "_ledger", "_publications", "_records", "_stored_bytes", "_trims"),
    )

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._hard = ledger.hard
        self._records: list[Record] = []
        self._publications: list[Publication] = []
        self._trims: Sequence[Trim] = ()
        #: At most so many are stored of it; of messages alone where the log has no bound.
        self._stored_bytes = 0
        #: End of each partition that this transaction appends to; None before it is asked for.
        self._ends: dict[PartitionId, Offset] | None = None

    def apply(self, records: Sequence[Record]) -> None:
        """Change hard state now; the records are part of the commit.

        Raises:
            CommitTooLarge: The log takes no such commit; nothing was applied.
        """
        self._stored_bytes += self._ledger.check_size(
            records, self._stored_bytes, is_begun=bool(self._records)
        )
        self._hard.apply_all(records)
        self._records += records

    def append(self, topic: TopicId, partition: PartitionId, body: Body) -> Offset:
        """Append messages to a partition; returns the offset of the first of them.

        Raises:
            CommitTooLarge: The log takes no such commit; nothing was applied.
        """
        if self._ledger.commit_bytes_max is None:
            self._stored_bytes += len(body.content)
        else:
            self._stored_bytes += stored_bytes_max(body)
            self._ledger.check_size((), self._stored_bytes, is_begun=bool(self._records))
        base = self.end(partition)
        self._publications.append((topic, partition, base, body))
        if body.terms is not None:
            self.apply(self._hard.agendas.add(partition, base, body.terms))
        if self._ends is not None:
            self._ends[partition] = base + body.count
        return base

    def end(self, partition: PartitionId) -> Offset:
        """The offset that the next message appended to a partition gets."""
        # Most transactions append once, and need no table.
        if self._publications:
            if self._ends is None:
                self._ends = {one: base + body.count for _, one, base, body in self._publications}
            if partition in self._ends:
                return self._ends[partition]
        return self._ledger._writer.assigned.get(partition, 0)

    @property
    def publications(self) -> Sequence[Publication]:
        """What it appends."""
        return self._publications

    def trim(self, trims: Sequence[Trim]) -> None:
        """Remove messages at the start of partitions."""
        assert not self._trims, "a transaction trims once"
        self._trims = trims

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be committed."""
        return not (self._records or self._publications or self._trims)

    def commit(self, *, can_wait: bool = False) -> asyncio.Future[None]:
        """Hand all of it to the writer. The future is done when it is durable.

        With `can_wait` it goes along with the next commit, or soon by itself. The future raises
        CommitFailed or DiskFull if the commit did not happen; an ignored future is fine, since hard
        state is loaded again in any case.
        """
        assert self._hard is self._ledger.hard, "hard state was loaded again meanwhile"
        if self._ledger.relief is not None and self._publications:
            self._ledger.relief(self)
        return self._ledger._writer.submit(
            self._records,
            self._publications,
            self._trims,
            stored_bytes=self._stored_bytes,
            can_wait=can_wait,
        )


class Ledger:
    """Hard state as of now, the ends of partitions, and the way to change them.

    Lives on one loop. `await start()` before anything else; readers take `hard` anew after every
    await, since a failed commit replaces it.
    """

    def __init__(
        self,
        store: Log,
        committer: Committer,
        clock: Clock,
        metrics: Metrics,
        *,
        disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES,
        hot_size_bytes: int = 0,
        seal_keys: SealKeys = NO_KEYS,
        take_ready: TakeReady | None = None,
    ) -> None:
        """`take_ready` spares the first load, where hard state is there already."""
        self._take_ready = take_ready
        self._store = store
        #: The most bytes of one commit; None for no bound.
        self.commit_bytes_max = store.features.commit_bytes_max
        self._committer = committer
        self._clock = clock
        self._sealing = Sealing(seal_keys)
        self.hard = HardState()
        #: A commit has appended messages to one partition.
        self.on_append: Event[Appended] = Event()
        #: A commit has appended messages that ask for something; before they are delivered.
        self.on_asked: Event[Asking] = Event()
        #: A commit is durable that appended messages to these partitions.
        self.on_commit: Event[Iterable[PartitionId]] = Event()
        #: The log is another node's by now: nothing may be answered from hard state any more.
        self.on_end: Event[FanlogError] = Event()
        #: Hard state was loaded: at the start, and after a failed commit. All shares are new.
        self.on_load: Event[HardState] = Event()
        self._writer = Writer(
            store,
            committer,
            clock,
            metrics,
            disk_reserve_bytes=disk_reserve_bytes,
            hot_size_bytes=hot_size_bytes,
            on_append=self.on_append,
            on_asked=self.on_asked,
            on_commit=self.on_commit,
            on_failure=self._recover,
            value_of=self._sealing.value_of,
        )
        #: Called with each transaction that appends, right before it is committed, to make room in
        #: the backlogs that it makes too long; None while no backlog has a limit.
        self.relief: Callable[[Transaction], None] | None = None
        #: Publishes that `check_room` refuses.
        self.refusals = self._writer.refusals
        #: Bytes that must be freed before so many can be published; see `Writer.shortage`.
        self.shortage = self._writer.shortage
        #: Whether so many can be published now, for certain; see `Writer.has_room`.
        self.has_room = self._writer.has_room

    # Life.

    async def start(self) -> None:
        """Load hard state, count this start, and seal secrets that are not, or with another key.

        Raises:
            DataLoss: Hard state cannot be read; nothing was changed.
            ConfigError: Secrets are sealed with a key that is not given; nothing was changed.
        """
        ready = None
        if self._take_ready is not None:
            ready = await self._take_ready(self._store.last_sequence, self._latest_deadline_s)
        stale = self.load() if ready is None else self._adopt(ready)
        await self.commit([*self.hard.catalog.boot(), *stale])
        if stale:
            key_id = self._sealing.key_id
            log.info("action=secrets_sealed records=%d seal_key=%s", len(stale), key_id)

    def load(self) -> Sequence[Record]:
        """Load hard state from the log; the records whose secrets are to be sealed anew."""
        opening = Opening(self._sealing)
        hard = HardState.load(
            self._store.state(), latest_deadline_s=self._latest_deadline_s, open_secrets=opening
        )
        return self._adopt(ReadyState(hard, opening.stale))

    def _adopt(self, loaded: ReadyState) -> Sequence[Record]:
        before, self.hard = self.hard, loaded.hard
        self.hard.agendas.adopt(before.agendas)
        self.on_load.tell(self.hard)
        return loaded.stale

    @property
    def _latest_deadline_s(self) -> float:
        """No lease ends later that was given until now."""
        return self._clock.now() + limits.ACK_DEADLINE_S_MAX

    async def drain(self) -> None:
        """Wait until no commit is under way."""
        await self._writer.drain()

    def close(self) -> None:
        self._committer.close()

    # Changing state.

    def begin(self) -> Transaction:
        return Transaction(self)

    def commit(self, records: Sequence[Record], *, can_wait: bool = False) -> asyncio.Future[None]:
        """Apply records and commit them: a transaction of records alone.

        Raises:
            CommitTooLarge: The log takes no such commit; nothing was applied.
        """
        stored_bytes = self.check_size(records, 0, is_begun=False)
        self.hard.apply_all(records)
        return self._writer.submit(records, stored_bytes=stored_bytes, can_wait=can_wait)

    def check_size(self, records: Sequence[Record], before_bytes: int, *, is_begun: bool) -> int:
        """The most bytes that records take in the log, beside others of their transaction.

        0 for a log without a bound. A transaction that has begun to change hard state can only fail
        whole: the log refuses it.

        Raises:
            CommitTooLarge: The log takes no such commit.
        """
        most = self.commit_bytes_max
        if most is None:
            # Such a log takes any commit, and each would pay for a sum that nothing depends on.
            return 0
        added_bytes = state_bytes(records, self._sealing.value_of)
        if before_bytes + added_bytes > most and not is_begun:
            raise CommitTooLarge(
                f"it changes up to {before_bytes + added_bytes} bytes in one commit, messages and "
                f"state, and the log of a cluster takes {most}; nothing changed"
            )
        return added_bytes

    def note(self, record: Record) -> None:
        """Apply a record without committing it: a load of hard state forgets it."""
        self.hard.apply_all((record,))

    # Waiting for commits.

    async def sync(self) -> None:
        """Return when everything submitted so far is durable; at once when no commit is under way.

        Raises:
            CommitFailed: A commit failed.
        """
        waiter = self._writer.pending()
        if waiter is not None:
            await waiter

    def pending(self) -> asyncio.Future[None] | None:
        """The future of everything submitted so far; None when all of it is durable."""
        return self._writer.pending()

    # Positions.

    def end(self, partition: PartitionId) -> Offset:
        """Committed end of a partition: deliveries stop here."""
        return self._writer.ends.get(partition, 0)

    def assigned_end(self, partition: PartitionId) -> Offset:
        """End of a partition with all that is submitted; equal to `end` when all is durable."""
        return self._writer.assigned.get(partition, 0)

    def start_of(self, partition: PartitionId) -> Offset:
        """First offset of a partition that no trim, committed or submitted, has removed."""
        return self._writer.start_of(partition)

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        """First offset published at or after a time; the assigned end for a time ahead of all."""
        offset = await self._store.offset_for_time(partition, max(0, time_ns))
        # Messages that wait for the disk are published now, or no earlier than the last one was.
        latest_ns = max(self._clock.wall_ns(), self._store.last_publish_time_ns)
        if offset < self.end(partition) or time_ns <= latest_ns:
            return offset
        return self.assigned_end(partition)

    @property
    def committed_sequence(self) -> int:
        """Sequence of the last commit that is durable."""
        return self._writer.committed_sequence

    @property
    def last_commit(self) -> tuple[float, float]:
        """When the last commit that is durable began and ended."""
        return self._writer.last_commit

    def ends(self) -> dict[PartitionId, Offset]:
        """The end of each partition, all as of the last commit that is durable."""
        return dict(self._writer.ends)

    def upcoming_sequence(self) -> int:
        """The sequence of the commit that a transaction committed now will be in."""
        return self._writer.upcoming_sequence()

    # Room.

    def check_room(self, size_bytes: int) -> None:
        """Refuse a publish that would use up the disk's reserve, or a full hot log or backlog.

        Raises:
            DiskFull: Publishing resumes by itself when there is room.
            HotLogFull: As soon as the archive has come further.
            WriterBacklogFull: Too much waits for the disk already.
        """
        self.refusals.check(size_bytes)

    def check_pressure(self, shed_at: float, terms: Terms | None) -> None:
        """Refuse a publish of low priority while the writer or the disk is behind.

        Raises:
            LoadShed: See `fanlog.core.shedding`.
        """
        commit_s = self._writer.commit_s
        found = shedding.pressure(self._writer.waiting_bytes, commit_s)
        try:
            shedding.check(shed_at, terms, found, commit_s)
        except LoadShed as refusal:
            self.refusals.count(refusal)
            raise

    def forget_room(self) -> None:
        """Some messages were freed: measure the room again when it is next asked for."""
        self._writer.forget_room()

    def _recover(self, error: FanlogError) -> None:
        """A commit failed: decisions on top of it never happened."""
        if self._writer.is_over:
            log.warning("action=log_lost error=%s; nothing is committed here any more", error)
            self.on_end.tell(error)
            return
        log.error("action=commit_failed error=%s; loading hard state again", error)
        self.load()
