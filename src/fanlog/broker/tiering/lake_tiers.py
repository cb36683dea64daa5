"""The broker's side of tiering: the offsets that the lake is believed to have, and trims for it.

The broker believes the lake, not the archive. A report makes it open the table itself and compare
the offsets in its files with its own log, commit by commit; only then does `archived` move, in hard
state. Any difference is an *alarm*: no message that is to be archived is trimmed while there is
one, and it goes by itself when the lake is right again.

With a lake, the hot log lets go of messages that are archived and older than the hot retention,
also of those that cursors have not passed: they are served from the lake. The lake's own start
follows the retention of the topic, and no message that a subscription or a snapshot needs is left
out. Messages that are not archived stay.

A lake that does not come back can be given up, in part or whole, by `accept_loss` alone: the lost
messages are passed over then, and the archive goes on with the lake that is there.

Hard state: `LakeRecord`, an `ArchivedRecord` for each partition, and a `LostRecord` for those of
which something is lost. Soft state: the alarm, when the lake was looked at, which files turned out
to be damaged, how much sooner than usual the hot log lets go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pyroaring import BitMap64

from fanlog.broker.clock import Clock
from fanlog.broker.pacing import paced
from fanlog.broker.tiering import belief
from fanlog.broker.tiering.acceptance import hot_after, plan
from fanlog.broker.tiering.tiers import Acceptance
from fanlog.broker.transaction import Ledger
from fanlog.core.cursor import runs
from fanlog.core.records import ArchivedRecord, LakeRecord, Record
from fanlog.errors import FailedPrecondition, FanlogError, LakeUnavailable
from fanlog.lake.api import Content, LakeBeliefs, LakeStanding
from fanlog.lake.location import LakeError
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Bounds, Damaged, Trim
from fanlog.model.resources import Offset, PartitionId, Topic, TopicId

log = logging.getLogger("fanlog.lake")

#: How often a lake that is not as it should be is looked at again.
CHECK_S = 30.0
#: How often the start of a partition in the lake is moved, at most.
START_S = 60.0
#: From this part of `hot_size_bytes` on, archived messages are trimmed before their time.
PRESSURE = 0.8
#: Batches of the index that are looked at together.
STEP = 100
#: Places in damaged files that are remembered; others turn up once those are dealt with.
DAMAGE_MAX = 1_000


class LakeTiers(LakeBeliefs):
    """`Tiers` of a broker with a lake. `start` after the broker's own, `stop` before."""

    def __init__(
        self,
        ledger: Ledger,
        store: TieredLog,
        clock: Clock,
        *,
        hot_retention_s: float,
        hot_size_bytes: int = 0,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._hot = store.hot
        self._clock = clock
        self._hot_retention_s = hot_retention_s
        self._hot_size_bytes = hot_size_bytes
        self._uri = store.cold.uri
        self._lock = asyncio.Lock()
        self._checking: asyncio.Task[None] | None = None
        self._checked_s = float("-inf")
        self._lake_id = ""
        self._alarm = ""
        #: Why the last report of the archive was not believed; until one is.
        self._refused = ""
        #: Why the lake is not to be read; an alarm that is not about single files.
        self._trouble = "it has not been looked at yet"
        #: Halves the hot retention that often.
        self._haste = 0
        #: Messages that could not be read although they should be there, by partition and offset.
        self._damage: dict[tuple[PartitionId, Offset], Damaged] = {}
        self._horizons: dict[PartitionId, Offset] = {}
        self._moved_s: dict[PartitionId, float] = {}
        store.follow(self)

    # The port.

    @property
    def lake_uri(self) -> str:
        return self._uri

    @property
    def lake_id(self) -> str:
        return self._lake_id

    @property
    def alarm(self) -> str:
        return self._alarm or self._refused

    @property
    def archived_sequence(self) -> int:
        lake = self._ledger.hard.lake
        return 0 if lake is None else lake.sequence

    def start(self, partition: PartitionId) -> Offset:
        return self._store.bounds(partition).start

    def hot_start(self, partition: PartitionId) -> Offset:
        return self._hot.bounds(partition).start

    def archived(self, partition: PartitionId) -> Offset:
        record = self._ledger.hard.archived.get(partition)
        return self.start(partition) if record is None else record.end

    @property
    def damaged(self) -> Sequence[str]:
        return [_unreadable(one) for one in self._damage.values()]

    def keeps(self, topic: Topic) -> bool:
        return topic.is_archived

    # Beliefs, for the log and its lake.

    @property
    def trouble(self) -> str:
        return self._trouble

    def cold_bounds(self, partition: PartitionId) -> Bounds | None:
        record = self._ledger.hard.archived.get(partition)
        if record is None or record.start is None:
            return None
        return Bounds(record.start, record.end)

    def given_up(self, damaged: Damaged) -> int:
        """How many offsets, of those that the lake cannot give, may be passed over.

        Offsets that may not be are noted as damage.
        """
        lost = self._ledger.hard.lost.get(damaged.partition, _NOTHING)
        end = damaged.base_offset + damaged.count
        given_up = lost & BitMap64(range(damaged.base_offset, end))
        first = next(runs(given_up), (end, end))
        if first[0] == damaged.base_offset:
            return first[1] - first[0]
        if len(self._damage) < DAMAGE_MAX:
            self._damage.setdefault((damaged.partition, damaged.base_offset), damaged)
        if not self._alarm:
            self._raise_alarm(_unreadable(damaged), is_readable=True)
        return 0

    def topic_of(self, partition: PartitionId) -> TopicId:
        topic = self._ledger.hard.catalog.topic_of(partition)
        return TopicId(0) if topic is None else topic.id

    def is_right(self, lake_id: str, table_version: int) -> bool:
        believed = self._ledger.hard.lake
        return believed is None or (
            lake_id == believed.id and table_version >= believed.table_version
        )

    # Looking at the lake.

    def begin(self) -> None:
        """Look at the lake, for the first time, while the broker serves already."""
        self._checking = asyncio.get_running_loop().create_task(self.check())

    async def stop(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        await self._store.cold.close()

    async def check(self, *, again_after_s: float = 0.0) -> None:
        """Compare the lake with hard state; the alarm names the messages that it lacks.

        Not when it was looked at less than `again_after_s` ago.
        """
        async with self._lock:
            if self._clock.now() - self._checked_s < again_after_s:
                return
            self._checked_s = self._clock.now()
            try:
                await self._check()
            except FanlogError as error:
                self._raise_alarm(f"the lake at {self._uri} cannot be used: {error}")
            except OSError as error:
                self._raise_alarm(f"the lake at {self._uri} cannot be reached: {error}")

    async def _check(self) -> None:
        cold, hard = self._store.cold, self._ledger.hard
        if hard.lake is None:
            self._lake_id = await cold.ensure()
            await cold.refresh()
            self._fine()
            return
        found = await self._standing(hard.lake)
        self._lake_id = found.lake_id
        await cold.refresh()
        content = await cold.whole_content()
        await self._look_at_damage()
        self._judge(content)

    async def _standing(self, believed: LakeRecord | None) -> LakeStanding:
        """The lake as it is, when it is the lake that it should be.

        Raises:
            FailedPrecondition: It is not.
        """
        found = await self._store.cold.standing(self._store.identity.hex())
        if believed is None:
            return found
        if found.lake_id != believed.id:
            raise FailedPrecondition(
                f"it is lake {found.lake_id}; what is archived is in lake {believed.id}"
            )
        if found.table_version < believed.table_version or found.sequence < believed.sequence:
            raise FailedPrecondition(
                f"it is an older copy: its table is at version {found.table_version} and has "
                f"commits up to {found.sequence}; version {believed.table_version} was seen, with "
                f"commits up to {believed.sequence}"
            )
        return found

    async def _look_at_damage(self) -> None:
        """Forget damage that is repaired, or of messages that are not needed any more."""
        for (partition, offset), damaged in list(self._damage.items()):
            record = self._ledger.hard.archived.get(partition)
            is_wanted = record is not None and (record.start or 0) <= offset < record.end
            if is_wanted and offset not in self._ledger.hard.lost.get(partition, _NOTHING):
                end = Offset(offset + damaged.count)
                found = await self._store.cold.read(partition, offset, end=end, max_bytes=1)
                if any(isinstance(item, Damaged) for item in found):
                    continue
            self._damage.pop((partition, offset), None)

    def _judge(self, content: Content) -> None:
        for partition, record in self._ledger.hard.archived.items():
            assert record.start is not None
            lost = self._ledger.hard.lost.get(partition, _NOTHING)
            if not content.covers(partition, record.start, record.end, but=lost):
                missing = (
                    f"offsets {record.start} to {record.end} (exclusive) of partition {partition} "
                    "are not all in the lake"
                )
                if content.damaged:
                    self._raise_alarm(f"{missing}: {content.damaged[0]}", is_readable=True)
                else:
                    self._raise_alarm(missing)
                return
        for damaged in self._damage.values():
            self._raise_alarm(_unreadable(damaged), is_readable=True)
            return
        self._fine()

    def _raise_alarm(self, sentence: str, *, is_readable: bool = False) -> None:
        if sentence != self._alarm:
            log.error("action=lake_alarm reason=%s; nothing is trimmed", sentence)
        self._alarm = sentence
        self._trouble = "" if is_readable else sentence

    def _fine(self) -> None:
        if self._alarm:
            log.info("action=lake_alarm_over lake=%s", self._uri)
        self._alarm = self._trouble = ""

    # Giving up.

    async def accept_loss(self, *, confirm: bool) -> Acceptance:
        # With an alarm nothing moves meanwhile.
        await self.check()
        try:
            async with self._lock:
                found = await self._accept(confirm)
            if found.is_accepted:
                await self.check()
            return found
        except (LakeError, LakeUnavailable, OSError) as error:
            raise FailedPrecondition(
                f"the lake at {self._uri} cannot be looked at, so nobody knows what is lost: "
                f"{error}"
            ) from error

    async def _accept(self, confirm: bool) -> Acceptance:
        cold, believed = self._store.cold, self._ledger.hard.lake
        if believed is None:
            raise FailedPrecondition("nothing is archived yet, so nothing is lost")
        last = self._ledger.committed_sequence
        found, sequence, losses, records = await plan(
            self._ledger.hard,
            self._store,
            believed,
            damage=self._damage.values(),
            appended_after=lambda after: self._find_appended(after, last),
        )
        is_another = found.lake_id != believed.id
        is_older = found.table_version < believed.table_version or sequence < believed.sequence
        if confirm and (losses or is_another or is_older):
            if not found.lake_id:
                await cold.ensure()
                found = await cold.standing(self._store.identity.hex())
            # Hot messages will be trimmed one day on the strength of this.
            await cold.content_after(
                found.table_version,
                after_sequence=min(sequence, hot_after(self._store)),
                to_sequence=sequence,
                synced_version=0,
            )
            # Topics may have been deleted meanwhile.
            kept = [one for one in records if one.partition in self._ledger.hard.archived]
            lake = LakeRecord(found.lake_id, found.table_version, sequence)
            await self._ledger.commit([*kept, lake])
            self._lake_id, self._refused = found.lake_id, ""
            log.warning(
                "action=loss_accepted lake=%s before=%s messages=%d partitions=%d",
                *(found.lake_id, believed.id, sum(one.messages for one in losses), len(losses)),
            )
            return Acceptance(believed.id, found.lake_id, sequence, losses, is_accepted=True)
        return Acceptance(believed.id, found.lake_id, sequence, losses, is_accepted=False)

    # Reports of the archive.

    async def report_archived(self, lake_id: str, table_version: int, sequence: int) -> int:
        is_new = self._ledger.hard.lake is None and lake_id != self._lake_id
        if self._alarm or self._trouble or is_new:
            # The archive may have put it right.
            await self.check()
        elif sequence < self.archived_sequence:
            # Late, or of a lake that was replaced by an older copy.
            await self.check(again_after_s=CHECK_S)
        async with self._lock:
            hard = self._ledger.hard
            if lake_id != self._lake_id or (hard.lake is not None and lake_id != hard.lake.id):
                sentence = (
                    f"the archive writes to lake {lake_id!r}; this broker's is {self._lake_id!r}, "
                    f"at {self._uri}"
                )
                raise self._refusal(sentence)
            if self._trouble:
                raise FailedPrecondition(f"the lake is not as it should be: {self._trouble}")
            if sequence > self._ledger.committed_sequence:
                raise FailedPrecondition(
                    f"commit {sequence} is reported, which this log does not have yet"
                )
            if sequence <= self.archived_sequence:
                return self.archived_sequence
            try:
                await self._verify(table_version, sequence)
            except (LakeError, belief.LakeMismatch, OSError) as error:
                raise self._refusal(
                    f"archived up to commit {sequence} was reported, and is not so: {error}"
                ) from error
            self._refused = ""
            return self.archived_sequence

    def _refusal(self, sentence: str) -> FailedPrecondition:
        if sentence != self._refused:
            log.error("action=archive_refused reason=%s; nothing is trimmed", sentence)
        self._refused = sentence
        return FailedPrecondition(sentence)

    async def _verify(self, table_version: int, sequence: int) -> None:
        """Compare the commits not seen yet with the log, and believe those that are equal."""
        believed = self._ledger.hard.lake
        found = await self._standing(believed)
        if found.lake_id != self._lake_id:
            raise belief.LakeMismatch(f"the table is of lake {found.lake_id}")
        if table_version > found.table_version or sequence > found.sequence:
            raise belief.LakeMismatch(
                f"the table is at version {found.table_version}, with commits up to "
                f"{found.sequence}"
            )
        after = self.archived_sequence
        cold = self._store.cold
        content = await cold.content_after(
            table_version,
            after_sequence=after,
            to_sequence=sequence,
            synced_version=0 if believed is None else believed.table_version,
        )
        for sentence in (*content.damaged, *content.doubled):
            raise belief.LakeMismatch(sentence)
        expected = await self._find_appended(after, sequence)
        hard = self._ledger.hard
        records: list[Record] = []
        async for partition, bounds in paced(list(expected.items())):
            topic = hard.catalog.topic_of(partition)
            if topic is None:
                continue
            before, hot_start = hard.archived.get(partition), self.hot_start(partition)
            now = belief.archived_now(
                partition, topic, before, bounds, content, hot_start=hot_start
            )
            if now is not None:
                records.append(now)
        # The later of the two: files that are read below may have been compacted since.
        records.append(LakeRecord(self._lake_id, table_version, sequence))
        await cold.refresh()
        await self._ledger.commit(records)

    async def _find_appended(self, after: int, to: int) -> dict[PartitionId, Bounds]:
        """The offsets of each partition that some commits appended, as far as they are hot."""
        found: dict[PartitionId, Bounds] = {}
        at = after
        while at < to:
            positions = self._hot.positions(at, limit=STEP)
            if not positions:
                break
            for position in positions:
                if position.sequence <= to:
                    known = found.get(position.partition)
                    start = max(position.base_offset, self.hot_start(position.partition))
                    start = start if known is None else known.start
                    found[position.partition] = Bounds(start, position.end_offset)
            at = positions[-1].sequence
            await asyncio.sleep(0)
        return found

    # Letting go.

    async def look(self, now: float) -> None:
        if self._alarm or self._trouble:
            await self.check(again_after_s=CHECK_S)
        self._close_those_kept_out()
        self._hurry()
        retention_s = self._hot_retention_s / (1 << self._haste)
        horizons: dict[PartitionId, Offset] = {}
        async for partition, record in paced(list(self._ledger.hard.archived.items())):
            if record.end > self.hot_start(partition):
                time_ns = max(0, int((now - retention_s) * 1e9))
                horizons[partition] = await self._hot.offset_for_time(partition, time_ns)
        self._horizons = horizons
        if any(before > self.hot_start(partition) for partition, before in horizons.items()):
            await self._look_once_more()

    async def _look_once_more(self) -> None:
        """Before anything is let go of: is it still that lake?"""
        async with self._lock:
            try:
                await self._standing(self._ledger.hard.lake)
            except (FanlogError, OSError) as error:
                self._raise_alarm(f"the lake at {self._uri} cannot be used: {error}")

    def let_go(
        self, partition: PartitionId, keep: Offset, start: Offset
    ) -> tuple[Sequence[Record], Trim | None]:
        hard = self._ledger.hard
        record, topic = hard.archived.get(partition), hard.catalog.topic_of(partition)
        is_archived = topic is not None and topic.is_archived
        hot_start = self.hot_start(partition)
        if record is None or record.start == record.end:
            # None of it is in the lake: it waits for that, or need not.
            return (), None if is_archived else _trim(partition, hot_start, keep)
        if self.alarm:
            return (), None
        assert record.start is not None
        if keep > record.end and not (is_archived and record.is_open):
            # The lake's messages are not needed, and later ones do not follow on them.
            closed = ArchivedRecord(partition, 0, 0, is_open=False)
            return (closed,), _trim(partition, hot_start, record.end if is_archived else keep)
        if record.start > hot_start:
            # The messages before it were never archived.
            return (), _trim(partition, hot_start, min(keep, record.start))
        lake_start = max(record.start, min(keep, record.end))
        before = min(record.end, max(self._horizons.get(partition, 0), lake_start))
        records = self._move_start(record, lake_start)
        if before <= hot_start:
            return records, None
        return records, Trim(partition=partition, before=before, is_archived=True)

    def _move_start(self, record: ArchivedRecord, start: Offset) -> Sequence[Record]:
        """Move the start in the lake, now and then."""
        now = self._clock.now()
        moved_s = self._moved_s.get(record.partition, float("-inf"))
        if start == record.start or now - moved_s < START_S:
            return ()
        self._moved_s[record.partition] = now
        return (ArchivedRecord(record.partition, start, record.end, is_open=record.is_open),)

    def _close_those_kept_out(self) -> None:
        hard = self._ledger.hard
        records: list[Record] = []
        for topic in hard.catalog.topics():
            if not topic.is_archived:
                for partition in topic.partitions:
                    now = belief.close(partition, hard.archived.get(partition))
                    if now is not None:
                        records.append(now)
        if records:
            self._ledger.commit(records)

    def _hurry(self) -> None:
        """Let go sooner while the hot log is near its maximum."""
        if not self._hot_size_bytes:
            return
        stats = self._hot.stats()
        used = stats.file_bytes - stats.free_bytes
        if used > PRESSURE * self._hot_size_bytes:
            self._haste = min(self._haste + 1, 40)
        elif self._haste:
            self._haste -= 1


_NOTHING = BitMap64()


def _unreadable(damaged: Damaged) -> str:
    end = damaged.base_offset + damaged.count
    return (
        f"offsets {damaged.base_offset} to {end} (exclusive) of partition {damaged.partition} "
        f"cannot be read: {damaged.reason}"
    )


def _trim(partition: PartitionId, start: Offset, before: Offset) -> Trim | None:
    return Trim(partition=partition, before=before) if before > start else None
