"""`ReplicatedLog`: the log of a node of a cluster, on a partition that several machines keep.

A commit is one record of the partition. The owner appends it, and applies it to its cache when its
acknowledgement says that it lies where it should; the nodes that follow apply the same bytes. See
`api.py` for the life cycle, `story.py` for what counts, `steps.py` for what is done when an
acknowledgement says something else.

One lock is held while something is appended or read, so one record at a time is under way. The
standing is a value that is replaced, and never waits for that lock.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fanlog import limits
from fanlog.errors import (
    CommitFailed,
    CommitTooLarge,
    ConfigError,
    DataLoss,
    FanlogError,
    Fenced,
    OutcomeUnknown,
)
from fanlog.log.api import (
    Bounds,
    Commit,
    Damaged,
    Extent,
    Features,
    Log,
    LogPosition,
    LogStats,
    StoredBatch,
    check_commit,
)
from fanlog.log.batch import Batch
from fanlog.log.encoded import EncodedCommit, encode_commit
from fanlog.log.memory import MemoryLog
from fanlog.log.replicated import steps
from fanlog.log.replicated.api import NO_TERM, Member, ReplicaClock, Standing
from fanlog.log.replicated.bodies import (
    Body,
    HandOver,
    Renewal,
    StageEnd,
    StagePiece,
    StagesRemoved,
)
from fanlog.log.replicated.cache import ReplicaCache, machine_boot_id
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.follower import Follower
from fanlog.log.replicated.partition import (
    OffsetGone,
    Partition,
    PartitionUnavailable,
    RecordTooLarge,
)
from fanlog.log.replicated.payloads import CARD_BYTES_MAX, IDENTITY_BYTES, MEMBERS_MAX, NONCE_BYTES
from fanlog.log.replicated.replica import WAIT_S, Replica
from fanlog.log.replicated.state_feed import StateListener
from fanlog.log.replicated.steps import AppendOutcome
from fanlog.log.replicated.story import StoryBroken, ToldEntry
from fanlog.log.replicated.upkeep import Upkeep
from fanlog.model.resources import Offset, PartitionId

log = logging.getLogger("fanlog.replica")

#: A node whose wall clock is further than this from the partition's does not serve.
CLOCK_TOLERANCE_S = 5.0
#: A record tells how far a clock is off if it was appended so shortly before it was read, at most:
#: behind a pause, of Kafka or of this node, it may be old.
FRESH_S = 2.0
#: How often the partition's end is asked for, to know a fresh record where they never cease.
END_LOOK_S = 5.0
#: How precisely that is to be known before a term begins, and how often it is tried.
CLOCK_READING_S = 0.5
CLOCK_READINGS = 5
#: How long the follower waits for records at a time: a take-over waits for that to end.
FOLLOW_WAIT_S = 0.05
#: How long the outcome of an append is looked for while the partition cannot be asked.
PATIENCE_S = 10.0

_NEVER_S = float("-inf")
#: An offset that no record reaches.
_NEVER_READ = 1 << 63

#: Errors after which a node cannot go on from where it is.
_TROUBLE = (FanlogError, StoryBroken, OffsetGone, PartitionUnavailable)


class SeenEnd(NamedTuple):
    """Records from `offset` on were appended after `seen_s`."""

    offset: int
    seen_s: float


class ReplicatedLog:
    """A `ReplicatedEngine` on a partition, with a cache in a folder.

    Args:
        cache_dir: Folder of the cache; made if need be, held until `close`, and emptied when its
            content cannot be trusted.
        open_partition: Called on the thread that first needs the partition, and again if it raised
            `PartitionUnavailable`.
        card: Who this node is, in bytes that other nodes understand; at most 4 KiB.
        on_change: See `ReplicatedEngine`.
        clock: Defaults to the machine's.
        pace: Of checkpoints, snapshots and passes.
        boot_id: Of the machine; the cache of another boot is discarded. Defaults to the machine's.
        patience_s: How long the outcome of an append is looked for, before this node steps down.
        listener: Hears the hard state while this node follows.

    Raises:
        DataFolderInUse: Another process holds the folder.
        ConfigError: The folder cannot be used.
    """

    features = Features(
        durable=True, total_order=True, commit_bytes_max=limits.REPLICATED_COMMIT_BYTES_MAX
    )

    def __init__(
        self,
        cache_dir: Path,
        open_partition: Callable[[], Partition],
        card: bytes,
        *,
        on_change: Callable[[], None],
        clock: ReplicaClock | None = None,
        pace: UpkeepPace | None = None,
        boot_id: str | None = None,
        patience_s: float = PATIENCE_S,
        listener: StateListener | None = None,
    ) -> None:
        assert 0 < len(card) <= CARD_BYTES_MAX
        self._card = card
        self._on_change = on_change
        self._clock = clock or MachineClock()
        #: Held while the partition is asked or the cache changed.
        self._lock = threading.Lock()
        cache = ReplicaCache(cache_dir, boot_id=machine_boot_id() if boot_id is None else boot_id)
        self._replica = Replica(
            cache, open_partition, self._clock, patience_s=patience_s, listener=listener
        )
        self._upkeep = Upkeep(self._replica, pace or UpkeepPace(), self._clock)
        self._follower: Follower | None = None
        self._is_closed = False
        #: Whether the sentence says that the cache fails, for the follower alone.
        self._is_troubled = False
        self._seen_end = SeenEnd(_NEVER_READ, _NEVER_S)
        #: Stands for the cache before there is one.
        self._nothing = MemoryLog(identity=b"")
        #: Held for a moment, to replace the standing.
        self._changing = threading.Lock()
        facts = cache.facts
        self._standing = Standing(
            role="following",
            sentence="",
            term=NO_TERM if facts is None else facts.term,
            owner=None if facts is None else facts.card,
            successor=None if facts is None else facts.successor,
            members=(),
            applied_offset=0 if facts is None else facts.next_offset,
            end_offset=0,
            sequence=0 if facts is None else facts.sequence,
            is_whole=False,
            heard_s=_NEVER_S,
            fetched_s=_NEVER_S,
            renewed_s=_NEVER_S,
            clock_ahead_s=None,
            started_over=0,
        )

    # The life cycle.

    @property
    def standing(self) -> Standing:
        return self._standing

    def start_following(self) -> None:
        assert self._standing.role != "owning", "step down first"
        if self._follower is None and not self._is_closed:
            self._change(role="following", sentence="")
            self._replica.feed.turn_on()
            self._follower = Follower(
                self._follow,
                begin_again=self._replica.forget,
                distrust=self._replica.distrust,
                on_trouble=self._note_trouble,
                on_broken=lambda sentence: self._change(role="failed", sentence=sentence),
            )
            self._follower.start()

    def stop_following(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.stop()

    def take_over(self) -> bool:
        if self._standing.role == "owning":
            return True
        was_following = self._follower is not None
        self.stop_following()
        with self._lock:
            before = self._replica.cache.facts
            sentence = self._try_take_over()
            after = self._replica.cache.facts
        if not sentence:
            return True
        if after is not None and (before is None or after.last_offset != before.last_offset):
            # Another node's take-over, perhaps: it has just begun.
            self._change(heard_s=self._clock.boottime_s())
        log.warning("action=take_over_failed reason=%r", sentence)
        if self._standing.role == "following" and was_following:
            self.start_following()
        self._change(sentence=sentence)
        return False

    def renew(self, members: Sequence[Member]) -> None:
        with self._lock:
            self._try_append(Renewal(members=tuple(members[:MEMBERS_MAX])))
            self._do_chores()
        self._upkeep.trim()

    def hand_over(self, successor: str) -> bool:
        with self._lock:
            if self._standing.role != "owning":
                return False
            # Where a new node may begin to read, without all that this term wrote.
            self._try_append(self._upkeep.checkpoint())
            happened = self._try_append(HandOver(successor=successor))
            self._stop_owning("it handed the log over")
        return happened

    def step_down(self) -> None:
        if self._standing.role == "owning":
            self._stop_owning("it was told to")

    def distrust(self, reason: str) -> None:
        self._replica.distrust(reason)

    # Stages.

    @property
    def stages_dir(self) -> Path:
        return self._replica.cache.stages.place

    def unfinished_stages(self) -> list[str]:
        return self._replica.cache.stages.draft_ids()

    def write_stage(self, stage_id: str, position: int, content: bytes) -> None:
        self._append_or_raise(StagePiece(stage_id=stage_id, position=position, content=content))

    def end_stage(self, stage_id: str, position: int, said: bytes) -> None:
        self._append_or_raise(StageEnd(stage_id=stage_id, position=position, said=said))

    def remove_stages(self, stage_ids: Sequence[str]) -> None:
        marks = self._replica.cache.marks
        known = {} if marks is None else marks.stages
        gone = tuple(stage_id for stage_id in stage_ids if stage_id in known)
        if gone:
            self._append_or_raise(StagesRemoved(stage_ids=gone))

    # The log.

    def commit(self, commit: Commit) -> None:
        self._require_owner()
        check_commit(self, commit)
        body = _whole(commit)
        self._append_or_raise(body)

    def prepare(self) -> None:
        with self._lock:
            self._do_chores()

    @property
    def identity(self) -> bytes:
        return self._cached.identity

    @property
    def last_sequence(self) -> int:
        return self._cached.last_sequence

    @property
    def last_publish_time_ns(self) -> int:
        return self._cached.last_publish_time_ns

    @property
    def has_garbage(self) -> bool:
        return self._cached.has_garbage

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        return await self._cached.read(partition, offset, max_bytes=max_bytes)

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        return await self._cached.read_stored(partition, offset, end=end, max_bytes=max_bytes)

    def sequence_of(self, partition: PartitionId, offset: Offset) -> int | None:
        return self._cached.sequence_of(partition, offset)

    def bounds(self, partition: PartitionId) -> Bounds:
        return self._cached.bounds(partition)

    def partitions(self) -> Mapping[PartitionId, Bounds]:
        return self._cached.partitions()

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        return await self._cached.offset_for_time(partition, time_ns)

    async def extents(
        self, partition: PartitionId, offset: Offset, *, step_bytes: int, limit: int
    ) -> list[Extent]:
        return await self._cached.extents(partition, offset, step_bytes=step_bytes, limit=limit)

    def state(self) -> Iterator[tuple[bytes, bytes]]:
        return self._cached.state()

    def positions(self, after: int, *, limit: int) -> list[LogPosition]:
        return self._cached.positions(after, limit=limit)

    def stats(self) -> LogStats:
        return self._cached.stats()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._replica.give_up()
        self.stop_following()
        self.step_down()
        with self._lock:
            self._replica.close()

    @property
    def _cached(self) -> Log:
        return self._replica.cache.log or self._nothing

    # Following.

    def _follow(self) -> None:
        """Called by the follower, again and again."""
        with self._lock:
            replica = self._replica
            try:
                replica.open()
            except ConfigError as error:
                raise StoryBroken(str(error)) from error
            if self._clock.boottime_s() - self._seen_end.seen_s >= END_LOOK_S:
                self._look_at_end()
            seen_end = self._seen_end
            told = replica.follow(wait_s=FOLLOW_WAIT_S)
            replica.tell_state()
            if replica.is_at_end:
                self._seen_end = SeenEnd(replica.story.facts.next_offset, replica.fetched_s)
        self._hear(told, seen_end)

    def _look_at_end(self) -> None:
        asked_s = self._clock.boottime_s()
        # If this is not answered, following goes on, and it is asked again later.
        self._seen_end = SeenEnd(_NEVER_READ, asked_s)
        self._seen_end = SeenEnd(self._replica.partition.bounds(wait_s=WAIT_S).end, asked_s)

    def _note_trouble(self, sentence: str) -> None:
        self._is_troubled = True
        self._change(sentence=sentence)

    def _hear(self, told: Sequence[ToldEntry], end: SeenEnd) -> None:
        changes: dict[str, Any] = {}
        now_s = self._clock.boottime_s()
        if self._is_troubled:
            self._is_troubled = False
            changes["sentence"] = ""
        if any(not one.void for one in told):
            changes["heard_s"] = now_s
        if told and told[-1].offset >= end.offset and now_s - end.seen_s < FRESH_S:
            ahead_ns = self._clock.wall_ns() - told[-1].append_time_ms * 1_000_000
            changes["clock_ahead_s"] = ahead_ns / 1e9
        self._change(**changes)

    # Owning.

    def _try_take_over(self) -> str:
        """Why this node does not own; empty if it does."""
        replica = self._replica
        if self._is_closed:
            return "the log is closed"
        try:
            replica.open()
            story = replica.story
            if replica.cache.log is not None:
                # A disk that is full is found before a term begins that nobody can serve.
                replica.cache.apply((), story)
            if not story.is_whole:
                return "this node has not read a whole snapshot of the log yet"
            wall_ns = self._clock.wall_ns()
            nonce = os.urandom(NONCE_BYTES)
            identity = os.urandom(IDENTITY_BYTES)
            append_time_ms = replica.drive(
                steps.take_over(story, card=self._card, identity=identity, nonce=nonce)
            )
        except _TROUBLE as error:
            return f"the log cannot be taken over: {error}"
        if append_time_ms is None:
            return "another node was faster, or the take-over was lost"
        return self._begin_term(append_time_ms, wall_ns)

    def _begin_term(self, append_time_ms: int, begun_ns: int) -> str:
        """Own, unless the wall clock is off: it was between `begun_ns` and now at the append."""
        now_ns = self._clock.wall_ns()
        for _ in range(CLOCK_READINGS):
            if abs(now_ns - begun_ns) <= CLOCK_READING_S * 1e9:
                break
            # This node stood still, or the partition was slow: the time between the two is too
            # long to say by how much the clock is off, and deadlines would be off by it.
            begun_ns = self._clock.wall_ns()
            if not self._append_quietly(Renewal(members=tuple(self._replica.members))):
                return "the term was over before it began"
            append_time_ms = self._replica.story.facts.append_time_ms
            now_ns = self._clock.wall_ns()
        append_ns, tolerance_ns = append_time_ms * 1_000_000, int(CLOCK_TOLERANCE_S * 1e9)
        ahead_s = (now_ns - append_ns) / 1e9
        if not begun_ns - tolerance_ns <= append_ns <= now_ns + tolerance_ns:
            # Nothing is handed over: the owner before may answer still, and whoever takes a log
            # over that was left to it answers at once. The others wait for this term's silence.
            self._change(clock_ahead_s=ahead_s)
            return (
                f"the node's clock is {ahead_s:+.1f} s from the partition's, "
                f"and at most {CLOCK_TOLERANCE_S:.0f} s are allowed: set it"
            )
        self._upkeep.begin_term()
        self._replica.feed.turn_off()
        # The broker of the term counts its time from there.
        self._change(
            role="owning", sentence="", renewed_s=self._replica.sent_s, clock_ahead_s=ahead_s
        )
        log.info("action=took_over term=%d", self._standing.term)
        return ""

    def _do_chores(self) -> None:
        if self._standing.role == "owning":
            try:
                self._upkeep.run(self._try_append)
            except DataLoss as error:
                # What is damaged here is whole in the partition, which stays as it is.
                log.error("action=upkeep_stopped error=%s; the partition is not trimmed", error)

    def _require_owner(self) -> None:
        if self._standing.role != "owning":
            raise Fenced("this node does not own the log; nothing changed")

    def _try_append(self, body: Body) -> bool:
        """Append an entry that nobody waits for; whether it happened.

        The one before may have shown that the term is over: the term that was read is another's.
        """
        return self._standing.role == "owning" and self._append_quietly(body)

    def _append_quietly(self, body: Body) -> bool:
        try:
            return self._append(body) is AppendOutcome.HAPPENED
        except CommitFailed as error:
            log.warning("action=append_failed entry=%s error=%s", type(body).__name__, error)
            return False

    def _append_or_raise(self, body: Body) -> None:
        with self._lock:
            self._require_owner()
            outcome = self._append(body)
        if outcome is AppendOutcome.FENCED:
            raise Fenced("another node took the log over; nothing changed")
        if outcome is AppendOutcome.UNKNOWN:
            raise OutcomeUnknown("whether it happened cannot be told; this node steps down")

    def _append(self, body: Body) -> AppendOutcome:
        """Append an entry, and step down if that does not go as it should.

        Raises:
            CommitTooLarge: Nothing changed.
            OutcomeUnknown: The entry is there, or may be; this node cannot go on.
        """
        replica, term = self._replica, self._replica.story.facts.term
        try:
            outcome = replica.drive(steps.append(replica.story, body))
        except RecordTooLarge as error:
            raise CommitTooLarge(f"the partition refuses the record: {error}") from error
        except _TROUBLE as error:
            self._stop_owning(str(error))
            raise OutcomeUnknown(f"this node cannot go on, and steps down: {error}") from error
        if outcome is not AppendOutcome.HAPPENED:
            self._stop_owning(f"an append was {outcome.value}")
        elif replica.story.facts.term != term:
            self._stop_owning("another node took the log over")
        else:
            self._change(renewed_s=replica.sent_s)
        return outcome

    def _stop_owning(self, reason: str) -> None:
        if self._standing.role == "owning":
            log.info("action=stepped_down term=%d reason=%r", self._standing.term, reason)
            now = self._clock.boottime_s()
            self._change(role="following", sentence=reason, heard_s=now)

    def _change(self, **changes: Any) -> None:
        """Replace the standing, with what the cache has by now and with `changes`."""
        replica = self._replica
        facts = replica.cache.facts
        if facts is not None:
            changes.update(
                term=facts.term,
                owner=facts.card,
                successor=facts.successor,
                applied_offset=facts.next_offset,
                sequence=facts.sequence,
            )
        with self._changing:
            before = self._standing
            after = before._replace(
                end_offset=replica.end_offset,
                members=replica.members,
                is_whole=replica.is_whole,
                fetched_s=replica.fetched_s,
                started_over=replica.started_over,
                stray_records=replica.stray_records,
                stray_sentence=replica.stray_sentence,
                **changes,
            )
            if after.role != "owning":
                after = after._replace(renewed_s=_NEVER_S)
            self._standing = after
        if (after.role, after.term, after.successor) != (
            before.role,
            before.term,
            before.successor,
        ):
            self._on_change()


class MachineClock:
    """The machine's clocks."""

    def boottime_s(self) -> float:
        return time.clock_gettime(_BOOTTIME)

    def wall_ns(self) -> int:
        return time.time_ns()


#: Elsewhere than on Linux, the monotonic clock goes on while the machine sleeps, or never sleeps.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _whole(commit: Commit) -> EncodedCommit:
    """The encoded commit, not lazy.

    Raises:
        CommitTooLarge: It is larger than the partition takes.
    """
    lazy = encode_commit(commit)
    encoded = lazy._replace(batches=list(lazy.batches), state=list(lazy.state))
    size_bytes = sum(len(batch.value) for batch in encoded.batches)
    size_bytes += sum(len(key) + len(value or b"") for key, value in encoded.state)
    if size_bytes > limits.REPLICATED_COMMIT_BYTES_MAX:
        raise CommitTooLarge(
            f"commit {commit.sequence} has {size_bytes} bytes, messages and state; at most "
            f"{limits.REPLICATED_COMMIT_BYTES_MAX} are allowed"
        )
    return encoded
