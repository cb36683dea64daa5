"""Group commit: changes that are submitted while a commit runs are gathered into the next one.

There is one commit under way at a time, so the slower the disk, the larger the commits. Where
publishes come close together one waits a moment for the next; see `Crowd`. Offsets and the order of
records are fixed when a transaction is submitted, on the loop; the commit's sequence and publish
time when it is started. `fanlog.broker.transaction` is the only caller.

When a commit fails, everything submitted after it fails too (it was decided on top of it), and the
ledger loads hard state from the log again. A log that another node owns by now takes no commits any
more, and everything that is submitted fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from fanlog import limits
from fanlog.broker.clock import Clock, Timer
from fanlog.broker.committer import Committer
from fanlog.broker.events import Appended, Asking, Event
from fanlog.broker.gathering import COMPANY_S, Crowd, Gathering, Publication
from fanlog.broker.metrics import Metrics
from fanlog.broker.refusals import Refusals
from fanlog.core.records import Record
from fanlog.errors import (
    CommitFailed,
    DiskFull,
    FanlogError,
    Fenced,
    HotLogFull,
    OutcomeUnknown,
    WriterBacklogFull,
)
from fanlog.log.api import Append, Commit, Log, Trim
from fanlog.log.batch import Body, stored_bytes
from fanlog.model.resources import Offset, PartitionId, TopicId

#: How long a reading of the free disk space is believed.
ROOM_AGE_S = 0.25
#: How long something that can wait does, when no other commit comes along.
WAIT_S = 0.005


class Writer:
    """The only way into the log. Lives on the loop; the committer does the blocking."""

    def __init__(
        self,
        log: Log,
        committer: Committer,
        clock: Clock,
        metrics: Metrics,
        *,
        disk_reserve_bytes: int,
        hot_size_bytes: int = 0,
        on_append: Event[Appended],
        on_asked: Event[Asking],
        on_commit: Event[Iterable[PartitionId]],
        on_failure: Callable[[FanlogError], None],
        value_of: Callable[[Record], bytes | None],
    ) -> None:
        """`value_of` gives the value of a record in the log."""
        self._log = log
        self._committer = committer
        self._clock = clock
        self._metrics = metrics
        self._disk_reserve_bytes = disk_reserve_bytes
        self._hot_size_bytes = hot_size_bytes
        self._on_append = on_append
        self._on_asked = on_asked
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._value_of = value_of
        self._gatherings: deque[Gathering] = deque()
        self._running: Gathering | None = None
        self._is_scheduled = False
        #: Why nothing can be committed any more; None while it can.
        self._over: FanlogError | None = None
        #: Of the commit that was started last.
        self._sequence = log.last_sequence
        #: Of the last commit that is done: `ends` are as of it.
        self.committed_sequence = log.last_sequence
        self._timer: Timer | None = None
        #: When the commit that is done last began and ended.
        self.last_commit = (0.0, 0.0)
        #: The same for a publish that waits for another: of the loop, as its turns are.
        self._company: asyncio.TimerHandle | None = None
        self._crowd = Crowd()
        self._waiting_bytes = 0
        self._room_bytes = 0
        self._used_bytes = 0
        self._room_read_s = float("-inf")
        #: Publishes that were refused for lack of room, and whether they still would be.
        self.refusals = Refusals(self._check_room)
        #: End of each partition with all that is submitted.
        self.assigned: dict[PartitionId, Offset] = {}
        #: Trims that are submitted; kept a little longer, which does no harm.
        self._trimmed: dict[PartitionId, Offset] = {}
        #: First offset that is not committed, per partition: deliveries stop here.
        self.ends: dict[PartitionId, Offset] = {}
        self._load_ends()

    @property
    def waiting_bytes(self) -> int:
        """Published bytes that are not on the disk yet."""
        return self._waiting_bytes

    @property
    def commit_s(self) -> float:
        """How long the commit under way has taken; 0 when there is none."""
        running = self._running
        return 0.0 if running is None else self._clock.now() - running.started_s

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._gatherings

    def start_of(self, partition: PartitionId) -> Offset:
        """First offset of a partition that no trim, committed or submitted, has removed."""
        return max(self._log.bounds(partition).start, self._trimmed.get(partition, 0))

    def _check_room(self, size_bytes: int) -> None:
        disk_short, hot_short = self._shortages(size_bytes)
        if disk_short > 0:
            raise DiskFull(
                f"the disk has {self._room_bytes} bytes left and the last "
                f"{self._disk_reserve_bytes} are kept for acknowledgements and deletions; "
                "publishing resumes when there is room"
            )
        if hot_short > 0:
            raise HotLogFull(
                f"the hot log has {self._used_bytes} bytes, at most {self._hot_size_bytes} are "
                "allowed, and what is not archived cannot be let go of; publishing resumes when "
                "the archive has come further"
            )
        if self._waiting_bytes + size_bytes > limits.WRITER_BACKLOG_BYTES_MAX:
            raise WriterBacklogFull(
                f"{self._waiting_bytes} bytes wait for the disk; try again in a moment"
            )

    def has_room(self, size_bytes: int) -> bool:
        """Whether so many bytes can be published, and no refusal is there to be ended by it."""
        disk_short, hot_short = self._shortages(size_bytes)
        return (
            disk_short <= 0
            and hot_short <= 0
            and self._waiting_bytes + size_bytes <= limits.WRITER_BACKLOG_BYTES_MAX
            and not self.refusals.has_refused
        )

    def shortage(self, size_bytes: int) -> int:
        """Bytes that must be freed before so many can be published; 0 for none.

        The writer's backlog does not count here: freeing messages does not shorten it.
        """
        return max(0, *self._shortages(size_bytes))

    def forget_room(self) -> None:
        """Some messages were freed: measure the room again when it is next asked for."""
        self._room_read_s = float("-inf")

    def _shortages(self, size_bytes: int) -> tuple[int, int]:
        """Bytes that are lacking on the disk above its reserve, and in the hot log."""
        now = self._clock.now()
        if now - self._room_read_s >= ROOM_AGE_S:
            self._room_read_s = now
            stats = self._log.stats()
            self._room_bytes = stats.room_bytes
            self._used_bytes = stats.file_bytes - stats.free_bytes
        room_bytes = self._room_bytes - self._waiting_bytes - size_bytes
        hot_bytes = self._used_bytes + self._waiting_bytes - self._hot_size_bytes
        return self._disk_reserve_bytes - room_bytes, hot_bytes if self._hot_size_bytes else 0

    def upcoming_sequence(self) -> int:
        """The sequence of the commit that records submitted next will be in."""
        last = self._gatherings[-1] if self._gatherings else None
        opens = last is None or last.stored_bytes > limits.COMMIT_BYTES_MAX
        if last is not None and not opens:
            last.is_promised = True
        return self._sequence + len(self._gatherings) + opens

    def submit(
        self,
        records: Sequence[Record] = (),
        publications: Sequence[Publication] = (),
        trims: Sequence[Trim] = (),
        *,
        stored_bytes: int,
        can_wait: bool = False,
    ) -> asyncio.Future[None]:
        """Put all of it into one commit; the records are applied already.

        At most `stored_bytes` are stored of it; commits are bounded by them.

        With `can_wait` no commit is started for it: it goes along with the next one, or soon by
        itself. The future raises CommitFailed or DiskFull if the commit did not happen. An ignored
        future is fine: failures reach `on_failure`.
        """
        if self._over is not None:
            return _failed(self._over)
        gathering = self._gather(stored_bytes, has_messages=bool(publications))
        gathering.stored_bytes += stored_bytes
        for record in records:
            gathering.records[record.key()] = record
        for publication in publications:
            self._append(gathering, *publication)
        if trims:
            gathering.trims += trims
            for trim in trims:
                if not trim.is_archived:
                    self._trimmed[trim.partition] = trim.before
        waiter = asyncio.get_running_loop().create_future()
        gathering.waiters.append(waiter)
        if publications and not can_wait:
            running = 0 if self._running is None else self._running.publish_count
            self._crowd.come(running + gathering.publish_count)
            gathering.publish_count += 1
        elif not can_wait:
            gathering.is_urgent = True
        self._schedule()
        return waiter

    def pending(self) -> asyncio.Future[None] | None:
        """The future of everything submitted so far; None when all of it is durable."""
        last = self._gatherings[-1] if self._gatherings else self._running
        if last is None:
            return None
        waiter = asyncio.get_running_loop().create_future()
        last.waiters.append(waiter)
        last.is_urgent = True
        self._schedule()
        return waiter

    async def drain(self) -> None:
        """Wait until no commit is under way; for shutting down."""
        while (waiter := self.pending()) is not None:
            try:
                await waiter
            except FanlogError:
                # Of a log that is another's now; its owner has been told.
                if self._over is None:
                    raise

    def _gather(self, stored_bytes: int, *, has_messages: bool) -> Gathering:
        """The commit that so much more goes into: the one that is gathered last, if it fits."""
        last = self._gatherings[-1] if self._gatherings else None
        if last is not None and last.is_promised and not has_messages:
            last.is_promised = False
        elif last is None or last.stored_bytes + stored_bytes > limits.COMMIT_BYTES_MAX:
            last = Gathering()
            self._gatherings.append(last)
        return last

    def _append(
        self,
        gathering: Gathering,
        topic: TopicId,
        partition: PartitionId,
        base: Offset,
        body: Body,
    ) -> None:
        count, size_bytes = body.count, len(body.content)
        assert base == self.assigned.get(partition, 0)
        self.assigned[partition] = gathering.ends[partition] = base + count
        if partition not in gathering.bodies:
            gathering.bodies[partition] = []
            gathering.bases[partition] = (topic, base)
        gathering.bodies[partition].append(body)
        if body.terms is not None:
            gathering.asking.append((partition, base, body))
        gathering.size_bytes += size_bytes
        gathering.count += count
        self._waiting_bytes += size_bytes

    def _schedule(self) -> None:
        """Start the next commit: in this turn of the loop, or when it has waited long enough."""
        if self._running is not None or self._is_scheduled:
            return
        first = self._gatherings[0]
        is_urgent = first.is_urgent or len(self._gatherings) > 1
        if not is_urgent and self._company is not None:
            if not self._crowd.is_enough(first.publish_count):
                return
        elif not is_urgent and self._crowd.try_wait(first.publish_count):
            loop = asyncio.get_running_loop()
            self._company = loop.call_later(COMPANY_S, self._start_next)
            return
        if is_urgent or first.publish_count:
            # Not at once: later submissions of this turn of the loop belong to the same commit.
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._start_next)
        elif self._timer is None:
            self._timer = self._clock.call_at(self._clock.now() + WAIT_S, self._start_next)

    def _start_next(self) -> None:
        self._is_scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._company is not None:
            self._company.cancel()
            self._company = None
        if self._running is not None or not self._gatherings:
            return
        gathering = self._running = self._gatherings.popleft()
        gathering.started_s = self._clock.now()
        self._sequence = self._log.last_sequence + 1
        gathering.publish_time_ns = _whole_us(
            max(self._clock.wall_ns() // 1_000 * 1_000, self._log.last_publish_time_ns)
        )
        commit = Commit(
            sequence=self._sequence,
            publish_time_ns=gathering.publish_time_ns,
            appends=[
                Append(
                    topic=gathering.bases[partition][0],
                    partition=partition,
                    base_offset=gathering.bases[partition][1],
                    bodies=bodies,
                )
                for partition, bodies in gathering.bodies.items()
            ],
            state={key: self._value_of(record) for key, record in gathering.records.items()},
            trims=gathering.trims,
        )
        self._committer.start(commit, self._finish)

    def _finish(self, error: FanlogError | None) -> None:
        gathering, self._running = self._running, None
        assert gathering is not None
        if error is not None:
            self._fail(gathering, error)
            return
        self.committed_sequence = self._sequence
        self._waiting_bytes -= gathering.size_bytes
        self._room_bytes -= gathering.size_bytes
        for partition, bodies in gathering.bodies.items():
            base, end = gathering.bases[partition][1], gathering.ends[partition]
            self.ends[partition] = end
            self._metrics.count_append(partition, end - base, bodies)
            if self._on_append.is_heard:
                size_bytes, time_ns = stored_bytes(bodies), gathering.publish_time_ns
                self._on_append.tell(Appended(partition, base, end, size_bytes, time_ns))
        for partition, base, body in gathering.asking:
            self._on_asked.tell(Asking(partition, base, body, gathering.publish_time_ns))
        for trim in gathering.trims:
            if self._trimmed.get(trim.partition) == trim.before:
                del self._trimmed[trim.partition]
            if trim.dropped:
                self._metrics.forget_partition(trim.partition)
                self.ends.pop(trim.partition, None)
                self.assigned.pop(trim.partition, None)
        if self._gatherings:
            self._schedule()
        ended_s = self._clock.now()
        self.last_commit = gathering.started_s, ended_s
        self._metrics.count_commit(
            gathering.size_bytes, gathering.count, ended_s - gathering.started_s
        )
        for waiter in gathering.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._on_commit.tell(gathering.bodies)

    def _fail(self, gathering: Gathering, error: FanlogError) -> None:
        failed = [gathering, *self._gatherings]
        if isinstance(error, Fenced | OutcomeUnknown):
            self._over = error
        self._gatherings.clear()
        self._waiting_bytes = 0
        self._sequence = self._log.last_sequence
        self._room_read_s = float("-inf")
        self._load_ends()
        self._metrics.commits_failed += 1
        self._on_failure(error)
        for one in failed:
            for waiter in one.waiters:
                if not waiter.done():
                    told: FanlogError = error
                    if one is not gathering:
                        told = CommitFailed("the commit before this one failed; nothing changed")
                    waiter.set_exception(told)
                    # A future that is not awaited must not warn; the failure was reported above.
                    waiter.exception()

    @property
    def is_over(self) -> bool:
        """Whether the log is another's now: nothing can be committed any more."""
        return self._over is not None

    def _load_ends(self) -> None:
        self.ends = {p: bounds.end for p, bounds in self._log.partitions().items()}
        self.assigned = dict(self.ends)
        self._trimmed = {}


def _failed(error: FanlogError) -> asyncio.Future[None]:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    # One that is not awaited must not warn.
    future.exception()
    return future


def _whole_us(time_ns: int) -> int:
    """Whole microseconds, as tables hold them; rounded up, for logs that earlier builds wrote."""
    return -(-time_ns // 1_000) * 1_000
