"""The verbs of a sink: many tasks stage rows, one commit publishes them, once.

Staged rows were checked as a publish is; a commit only appends them. An epoch that fits is one
commit, with the record that it is done. A larger one is decided first, by a record that names its
stages, and then published part by part, each with how far it is: whatever happens in between, it
is taken up from there, by the same broker or the next, until it is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanlog import limits
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.spool import MemorySpool, Spool, Stage
from fanlog.broker.verbs.schemas import Contents
from fanlog.broker.verbs.staging import Staging
from fanlog.broker.writer import Publication
from fanlog.core.records import Committing, EpochProgress, Record
from fanlog.core.sinks import StageKey
from fanlog.errors import (
    DataLoss,
    FailedPrecondition,
    ResourceExhausted,
    Unavailable,
)
from fanlog.log.batch import Batch, Body
from fanlog.model.resources import PartitionId, TopicId

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker

log = logging.getLogger("fanlog.sink")

#: How long an epoch that cannot go on waits before it tries again.
RETRY_S = 1.0
#: Queries forgotten in one sweep.
SWEEP_QUERIES_MAX = 1_000


class Sink:
    """Sink verbs of one broker."""

    def __init__(self, broker: Broker, clock: Clock, contents: Contents | None) -> None:
        self._broker = broker
        self._clock = clock
        self._contents = contents
        #: Set before `start` where stages are to survive the process.
        self.spool: Spool = MemorySpool(limits.STAGED_MEMORY_BYTES_MAX)
        #: Names a stage; no two are ever the same.
        self.new_id: Callable[[], str] = lambda: os.urandom(16).hex()
        #: Every stage there is, and the one that counts under each key.
        self._by_id: dict[str, Stage] = {}
        self._stages: dict[StageKey, Stage] = {}
        self._staged_bytes = 0
        #: Commits under way, by query; one at a time.
        self._commits: dict[str, asyncio.Task[int]] = {}
        #: Stages that a commit under way reads.
        self._held: set[str] = set()

    # Life.

    async def start(self) -> None:
        """Find what was staged, and go on with epochs that were being published."""
        table = self._broker.hard.sinks
        named = {stage for one in table.all_committing() for stage in one.stages}
        over: list[Stage] = []
        for stage in await self.spool.load():
            if stage.id not in named and (table.is_over(stage.key) or self._is_expired(stage)):
                over.append(stage)
            else:
                self._by_id[stage.id] = self._stages[stage.key] = stage
                self._staged_bytes += stage.size_bytes
        await self.spool.remove(over)
        for committing in list(table.all_committing()):
            log.info("action=epoch_resumed query=%s epoch=%d", committing.query, committing.epoch)
            self._begin(committing.query, self._resumed(committing))

    async def stop(self) -> None:
        """Leave what is under way to the next start."""
        tasks = list(self._commits.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Forget stages that nobody committed in time, and queries that are long over."""
        hard = self._broker.hard
        named = {stage for one in hard.sinks.all_committing() for stage in one.stages}
        over = [
            stage
            for stage in self._by_id.values()
            if self._is_expired(stage) and stage.id not in named | self._held
        ]
        if over:
            log.info("action=stages_expired count=%d", len(over))
            await self._remove(over)
        before_s = self._clock.now() - limits.QUERY_LIFE_S
        records = hard.sinks.forget_idle(before_s, limit=SWEEP_QUERIES_MAX)
        if records:
            self._broker.begin_commit(records)

    # Verbs.

    async def stage(self, key: StageKey) -> Staging:
        """Begin to stage rows; whoever gets this finishes or discards it.

        Raises:
            FailedPrecondition: A later epoch of the query is committed.
        """
        self._broker.check_serving()
        self._broker.hard.sinks.check_epoch(key.query, key.epoch)
        stage_id = self.new_id()
        return Staging(self, self._broker, key, stage_id, await self.spool.draft(stage_id))

    async def commit(self, query: str, epoch: int, keys: Sequence[StageKey]) -> tuple[int, bool]:
        """Publish what was staged under some keys, once; durable when this returns.

        Returns how many messages that were, and whether it had been done before. It goes on when
        whoever called it goes away.

        Raises:
            FailedPrecondition: Nothing is staged under a key, its topic is gone, or a later epoch
                is committed; nothing was published.
            DiskFull: Only the reserve is left; nothing was published.
            DataLoss: What was staged is damaged.
        """
        self._broker.check_serving()
        while (under_way := self._commits.get(query)) is not None:
            await asyncio.wait([under_way])
        self._broker.check_serving()
        table = self._broker.hard.sinks
        last = table.query(query)
        if last is not None and last.epoch == epoch:
            await self._broker.writer.settled()
            await self._remove(self._of(query, epoch))
            return last.messages, True
        table.check_epoch(query, epoch)
        committing = table.committing(query)
        if committing is not None:
            # It could not go on; perhaps it can now.
            messages = await _outcome(self._begin(query, self._resumed(committing)))
            if committing.epoch == epoch:
                return messages, True
            return await self.commit(query, epoch, keys)
        stages = self._named(keys)
        return await _outcome(self._begin(query, self._published(query, epoch, stages))), False

    async def abort(self, query: str, epoch: int) -> None:
        """Forget what was staged for an epoch.

        Raises:
            FailedPrecondition: It is being published.
        """
        if query in self._commits:
            raise FailedPrecondition(f"query {query!r} is being committed")
        table = self._broker.hard.sinks
        committing = table.committing(query)
        if committing is not None and committing.epoch == epoch:
            # It could not go on, for a stage is damaged or gone: what is published stays.
            log.error("action=epoch_given_up query=%s epoch=%d", query, epoch)
            await self._broker.commit(table.give_up(query))
        await self._remove(self._of(query, epoch))

    async def last_epoch(self, query: str) -> int:
        """The last epoch a query has committed; -1 for none."""
        last = self._broker.hard.sinks.query(query)
        await self._broker.writer.settled()
        return -1 if last is None else last.epoch

    # For `Staging`.

    def reserve(self, size_bytes: int) -> None:
        """Make room for what is about to be staged.

        Raises:
            ResourceExhausted: As much is staged as may be.
            DiskFull: Only the reserve is left.
        """
        if self._staged_bytes + size_bytes > self.spool.size_bytes_max:
            raise ResourceExhausted(
                f"{self._staged_bytes} bytes are staged and not committed; "
                f"at most {self.spool.size_bytes_max} may be"
            )
        self._broker.writer.check_room(size_bytes)
        self._staged_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        self._staged_bytes -= size_bytes

    async def finished(self, stage: Stage) -> None:
        """A stage is durable; one that was there under the same key gives way."""
        before = self._stages.get(stage.key)
        self._by_id[stage.id] = self._stages[stage.key] = stage
        if before is not None and before.id not in self._held:
            await self._remove([before])

    @property
    def now(self) -> float:
        return self._clock.now()

    # Private.

    async def _remove(self, stages: Iterable[Stage]) -> None:
        gone = [stage for stage in stages if self._by_id.pop(stage.id, None) is not None]
        for stage in gone:
            self._staged_bytes -= stage.size_bytes
            if self._stages.get(stage.key) is stage:
                del self._stages[stage.key]
        await self.spool.remove(gone)

    def _is_expired(self, stage: Stage) -> bool:
        return self._clock.now() - stage.staged_s > limits.STAGE_LIFE_S

    def _of(self, query: str, epoch: int) -> list[Stage]:
        return [s for k, s in self._stages.items() if (k.query, k.epoch) == (query, epoch)]

    def _named(self, keys: Sequence[StageKey]) -> list[Stage]:
        """The stages of some keys, in order of their partitions."""
        unknown = [key for key in keys if key not in self._stages]
        if unknown:
            more = f" ({len(unknown)} such)" if len(unknown) > 1 else ""
            raise FailedPrecondition(
                f"nothing is staged as {unknown[0]}{more}; it may have expired, or never arrived"
            )
        return [self._stages[key] for key in sorted(keys, key=lambda key: key.partition)]

    def _begin(self, query: str, work: Coroutine[Any, Any, int]) -> asyncio.Task[int]:
        task = asyncio.get_running_loop().create_task(work)
        self._commits[query] = task

        def done(task: asyncio.Task[int]) -> None:
            del self._commits[query]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("action=epoch_failed query=%s error=%s", query, error)

        task.add_done_callback(done)
        return task

    async def _published(self, query: str, epoch: int, stages: list[Stage]) -> int:
        """Publish an epoch that was not begun yet; the messages it has."""
        ids = {stage.id for stage in stages}
        self._held |= ids
        try:
            self._check_topics(stages)
            if sum(stage.size_bytes for stage in stages) <= limits.EPOCH_WHOLE_BYTES_MAX:
                messages = await self._publish_whole(query, epoch, stages)
            else:
                messages = await self._publish_parts(query, epoch, stages)
        finally:
            self._held -= ids
            # One that was staged anew meanwhile has given way.
            await self._remove([s for s in stages if self._stages.get(s.key) is not s])
        await self._remove([*stages, *self._of(query, epoch)])
        return messages

    async def _publish_whole(self, query: str, epoch: int, stages: list[Stage]) -> int:
        rows = [one async for batches in self._read_all(stages) for one in batches]
        size_bytes = sum(len(one.body.content) for one in rows)
        await self._broker.room.made(size_bytes)
        hard, writer = self._broker.hard, self._broker.writer
        # From here on nobody else is let in until all of it is submitted.
        self._check_topics(stages)
        writer.check_room(size_bytes)
        publications, records, messages = self._appended(rows)
        done = hard.sinks.commit(query, epoch, messages, self._clock.now())
        hard.apply_all(done)
        await writer.submit_all(records=[*records, *done], publications=publications)
        return messages

    async def _publish_parts(self, query: str, epoch: int, stages: list[Stage]) -> int:
        # What is damaged must be found before anything is decided.
        async for _ in self._read_all(stages):
            pass
        self._check_topics(stages)
        committing = Committing(query, epoch, tuple(s.id for s in stages if s.size_bytes))
        await self._broker.commit(self._broker.hard.sinks.begin(committing))
        return await self._finish(committing)

    async def _resumed(self, committing: Committing) -> int:
        missing = [one for one in committing.stages if one not in self._by_id]
        if missing:
            raise DataLoss(
                f"epoch {committing.epoch} of query {committing.query!r} is published in part, and "
                f"{len(missing)} of its stages are gone; AbortEpoch gives the rest up"
            )
        stages = [self._by_id[one] for one in committing.stages]
        messages = await self._finish(committing)
        await self._remove([*stages, *self._of(committing.query, committing.epoch)])
        return messages

    async def _finish(self, committing: Committing) -> int:
        """Publish the rest of an epoch that was begun, however long it takes."""
        stages = [self._by_id[one] for one in committing.stages]
        while self._broker.hard.sinks.committing(committing.query) == committing:
            try:
                await self._publish_part(committing, stages)
            except (Unavailable, ResourceExhausted) as error:
                log.warning(
                    "action=epoch_waits query=%s epoch=%d error=%s; trying again in %d s",
                    *(committing.query, committing.epoch, error, RETRY_S),
                )
                await sleep(self._clock, RETRY_S)
        last = self._broker.hard.sinks.query(committing.query)
        assert last is not None
        return last.messages

    async def _publish_part(self, committing: Committing, stages: Sequence[Stage]) -> None:
        query = committing.query
        before = self._broker.hard.sinks.progress(query)
        stage = stages[before.stage]
        rows, end = await self._read(stage, before.position)
        size_bytes = sum(len(one.body.content) for one in rows)
        await self._broker.room.made(size_bytes)
        hard, writer = self._broker.hard, self._broker.writer
        if hard.sinks.progress(query) != before:
            return  # A commit failed meanwhile, and what was decided on top of it with it.
        writer.check_room(size_bytes)
        publications, records, count = self._appended(rows)
        messages = before.messages + count
        done: Sequence[Record]
        if end < stage.size_bytes:
            done = hard.sinks.advance(query, EpochProgress(before.stage, end, messages))
        elif before.stage + 1 < len(stages):
            done = hard.sinks.advance(query, EpochProgress(before.stage + 1, 0, messages))
        else:
            done = hard.sinks.commit(query, committing.epoch, messages, self._clock.now())
        hard.apply_all(done)
        await writer.submit_all(records=[*records, *done], publications=publications)

    async def _read_all(self, stages: Iterable[Stage]) -> AsyncIterator[list[_Rows]]:
        for stage in stages:
            position = 0
            while position < stage.size_bytes:
                rows, position = await self._read(stage, position)
                yield rows

    async def _read(self, stage: Stage, position: int) -> tuple[list[_Rows], int]:
        """Staged rows from a position on, ready to be appended, and where they end."""
        batches, end = await self.spool.read(stage, position, limits.EPOCH_PART_BYTES)
        return await asyncio.to_thread(_rows, batches, self._contents), end

    def _check_topics(self, stages: Iterable[Stage]) -> None:
        catalog = self._broker.hard.catalog
        for stage in stages:
            for topic_id in stage.topics:
                if catalog.topic_by_id(TopicId(topic_id)) is None:
                    raise FailedPrecondition(
                        f"a topic was deleted since rows for it were staged as {stage.key}"
                    )

    def _appended(self, rows: Iterable[_Rows]) -> tuple[list[Publication], list[Record], int]:
        """What appends staged rows, and records that go with it, which are applied already."""
        hard, writer = self._broker.hard, self._broker.writer
        publications: list[Publication] = []
        records: list[Record] = []
        added: dict[PartitionId, int] = {}
        messages = 0
        for one in rows:
            body = one.body
            messages += body.count
            topic = hard.catalog.topic_by_id(one.topic)
            if topic is None:
                # Deleted while the epoch is being published: nobody could read them.
                continue
            partition = topic.partitions[0]
            if one.dedup_ids is not None:
                admission = hard.dedup_on(partition).admit(
                    one.dedup_ids,
                    base_offset=writer.assigned_end(partition) + added.get(partition, 0),
                    now=self._clock.now(),
                    window_s=topic.dedup_window_s,
                    most=limits.DEDUP_IDS_MAX,
                )
                self._broker.metrics.deduplicated += body.count - len(admission.fresh)
                hard.apply_all(admission.records)
                records += admission.records
                if not admission.fresh:
                    continue
                body = body.only(admission.fresh)
            publications.append(Publication(topic.id, partition, body))
            added[partition] = added.get(partition, 0) + body.count
        return publications, records, messages


@dataclass(frozen=True, slots=True)
class _Rows:
    """Staged rows for one topic."""

    topic: TopicId
    body: Body
    dedup_ids: Sequence[str] | None


def _rows(batches: Iterable[Batch], contents: Contents | None) -> list[_Rows]:
    """Called in a thread: dedup ids are looked for in every byte."""
    found: list[_Rows] = []
    for batch in batches:
        body = Body(
            content=batch.content,
            starts=batch.starts,
            key_hashes=batch.key_hashes,
            attributes=batch.attributes,
        )
        dedup_ids = None if contents is None else contents.dedup_ids(body)
        found.append(_Rows(TopicId(batch.topic), body, dedup_ids))
    return found


async def _outcome(task: asyncio.Task[int]) -> int:
    """What a commit comes to; it goes on when whoever waits for it goes away."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise Unavailable("the broker is stopping; commit the epoch again") from None
        raise
