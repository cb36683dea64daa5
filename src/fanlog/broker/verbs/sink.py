"""The verbs of a sink: many tasks stage rows, one commit publishes them, once.

Staged rows were checked as a publish is; a commit only appends them. An epoch that fits is one
commit, with the record that it is done. A larger one is decided first, by a record that names its
stages, and then published part by part, each with how far it is: after a failure it is taken up
from there, by the same broker or the next, until it is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.keying import Keying
from fanlog.broker.metrics import Metrics
from fanlog.broker.parts import parts_of
from fanlog.broker.ports import Contents
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.retention.room import Room
from fanlog.broker.spool import Stage
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.schemas import Schemas
from fanlog.broker.verbs.stages import Stages
from fanlog.broker.verbs.staging import Staging, StagingTools
from fanlog.core.records import Committing, EpochProgress, Record
from fanlog.core.sinks import StageKey
from fanlog.errors import DataLoss, FailedPrecondition, ResourceExhausted, Unavailable
from fanlog.log.batch import Batch, Body
from fanlog.model.resources import Topic, TopicId

log = logging.getLogger("fanlog.sink")

#: How long an epoch that cannot go on waits before it tries again.
RETRY_S = 1.0
#: Queries forgotten in one sweep.
SWEEP_QUERIES_MAX = 1_000


class Sink:
    """Sink verbs of one broker."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        access: Access,
        room: Room,
        pressure: Pressure,
        schemas: Schemas,
        keying: Keying,
        stages: Stages,
        contents: Contents | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._access = access
        self._room = room
        self._pressure = pressure
        self._stages = stages
        self._contents = contents
        self._tools = StagingTools(ledger, clock, access, room, schemas, keying, stages)
        #: Commits under way, by query; one at a time.
        self._commits: dict[str, asyncio.Task[int]] = {}

    # Life.

    async def start(self) -> None:
        """Find the stages of before, and go on with epochs that were being published."""
        await self._stages.load()
        for committing in list(self._ledger.hard.sinks.all_committing()):
            log.info("action=epoch_resumed query=%s epoch=%d", committing.query, committing.epoch)
            self._begin(committing.query, self._resume(committing))

    async def stop(self) -> None:
        """Leave epochs under way to the next start."""
        tasks = list(self._commits.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Forget stages that were not committed in time, and queries that are long over."""
        expired = await self._stages.remove_expired()
        if expired:
            log.info("action=stages_expired count=%d", expired)
        before_s = self._clock.now() - limits.QUERY_LIFE_S
        records = self._ledger.hard.sinks.forget_idle(before_s, limit=SWEEP_QUERIES_MAX)
        if records:
            self._ledger.commit(records)

    # Verbs.

    async def stage(self, key: StageKey) -> Staging:
        """Begin to stage rows; the caller finishes or discards the result.

        Raises:
            FailedPrecondition: A later epoch of the query is committed.
        """
        self._access.check_serving()
        self._ledger.hard.sinks.check_epoch(key.query, key.epoch)
        stage_id, draft = await self._stages.draft()
        return Staging(self._tools, key, stage_id, draft)

    async def commit(self, query: str, epoch: int, keys: Sequence[StageKey]) -> tuple[int, bool]:
        """Publish the rows staged under some keys, once; durable when this returns.

        Returns how many messages that were, and whether it had been done before. It goes on when
        the caller goes away.

        Raises:
            FailedPrecondition: Nothing is staged under a key, its topic is gone, or a later epoch
                is committed; nothing was published.
            DiskFull: Only the reserve is left; nothing was published.
            DataLoss: A stage is damaged.
        """
        self._access.check_serving()
        while (under_way := self._commits.get(query)) is not None:
            await asyncio.wait([under_way])
        self._access.check_serving()
        table = self._ledger.hard.sinks
        last = table.query(query)
        if last is not None and last.epoch == epoch:
            await self._ledger.sync()
            await self._stages.remove(self._stages.of_epoch(query, epoch))
            return last.messages, True
        table.check_epoch(query, epoch)
        committing = table.committing(query)
        if committing is not None:
            # It could not go on; perhaps it can now.
            messages = await _shielded(self._begin(query, self._resume(committing)))
            if committing.epoch == epoch:
                return messages, True
            return await self.commit(query, epoch, keys)
        stages = self._stages.of_keys(keys)
        return await _shielded(self._begin(query, self._publish(query, epoch, stages))), False

    async def abort(self, query: str, epoch: int) -> None:
        """Forget the rows staged for an epoch.

        Raises:
            FailedPrecondition: It is being published.
        """
        if query in self._commits:
            raise FailedPrecondition(f"query {query!r} is being committed")
        table = self._ledger.hard.sinks
        committing = table.committing(query)
        if committing is not None and committing.epoch == epoch:
            # It could not go on, for a stage is damaged or gone; published parts stay.
            log.error("action=epoch_given_up query=%s epoch=%d", query, epoch)
            await self._ledger.commit(table.give_up(query))
        await self._stages.remove(self._stages.of_epoch(query, epoch))

    async def last_epoch(self, query: str) -> int:
        """The last epoch a query has committed; -1 for none."""
        last = self._ledger.hard.sinks.query(query)
        await self._ledger.sync()
        return -1 if last is None else last.epoch

    # Private.

    def _begin(self, query: str, work: Coroutine[object, None, int]) -> asyncio.Task[int]:
        task = asyncio.get_running_loop().create_task(work)
        self._commits[query] = task

        def done(task: asyncio.Task[int]) -> None:
            del self._commits[query]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("action=epoch_failed query=%s error=%s", query, error)

        task.add_done_callback(done)
        return task

    async def _publish(self, query: str, epoch: int, stages: list[Stage]) -> int:
        """Publish an epoch that was not begun yet; the messages it has."""
        self._stages.hold(stages)
        try:
            self._check_topics(stages)
            if sum(stage.size_bytes for stage in stages) <= limits.EPOCH_WHOLE_BYTES_MAX:
                messages = await self._publish_whole(query, epoch, stages)
            else:
                messages = await self._publish_parts(query, epoch, stages)
        finally:
            await self._stages.let_go(stages)
        await self._stages.remove([*stages, *self._stages.of_epoch(query, epoch)])
        return messages

    async def _publish_whole(self, query: str, epoch: int, stages: list[Stage]) -> int:
        rows = [one async for batches in self._read_all(stages) for one in batches]
        size_bytes = sum(len(one.body.content) for one in rows)
        await self._room.make(size_bytes)
        self._check_topics(stages)
        self._check_pressure(stages)
        self._ledger.check_room(size_bytes)
        transaction = self._ledger.begin()
        messages = self._append(transaction, rows)
        sinks = self._ledger.hard.sinks
        transaction.apply(sinks.commit(query, epoch, messages, self._clock.now()))
        await transaction.commit()
        return messages

    async def _publish_parts(self, query: str, epoch: int, stages: list[Stage]) -> int:
        # A damaged stage must be found before anything is decided.
        async for _ in self._read_all(stages):
            pass
        self._check_topics(stages)
        committing = Committing(query, epoch, tuple(s.id for s in stages if s.size_bytes))
        await self._ledger.commit(self._ledger.hard.sinks.begin(committing))
        return await self._finish(committing)

    async def _resume(self, committing: Committing) -> int:
        stages = [self._stages.find(one) for one in committing.stages]
        missing = [stage for stage in stages if stage is None]
        if missing:
            raise DataLoss(
                f"epoch {committing.epoch} of query {committing.query!r} is published in part, and "
                f"{len(missing)} of its stages are gone; AbortEpoch gives the rest up"
            )
        messages = await self._finish(committing)
        done = [stage for stage in stages if stage is not None]
        of_epoch = self._stages.of_epoch(committing.query, committing.epoch)
        await self._stages.remove([*done, *of_epoch])
        return messages

    async def _finish(self, committing: Committing) -> int:
        """Publish the rest of an epoch that was begun, however long it takes."""
        found = [self._stages.find(one) for one in committing.stages]
        stages = [stage for stage in found if stage is not None]
        assert len(stages) == len(found)
        while self._ledger.hard.sinks.committing(committing.query) == committing:
            try:
                await self._publish_part(committing, stages)
            except (Unavailable, ResourceExhausted) as error:
                log.warning(
                    "action=epoch_waits query=%s epoch=%d error=%s; trying again in %d s",
                    *(committing.query, committing.epoch, error, RETRY_S),
                )
                await sleep(self._clock, RETRY_S)
        last = self._ledger.hard.sinks.query(committing.query)
        assert last is not None
        return last.messages

    async def _publish_part(self, committing: Committing, stages: Sequence[Stage]) -> None:
        query = committing.query
        before = self._ledger.hard.sinks.progress(query)
        stage = stages[before.stage]
        rows, end = await self._read(stage, before.position)
        size_bytes = sum(len(one.body.content) for one in rows)
        await self._room.make(size_bytes)
        sinks = self._ledger.hard.sinks
        if sinks.progress(query) != before:
            return  # A commit failed meanwhile, and with it the decisions on top of it.
        self._check_pressure([stage])
        self._ledger.check_room(size_bytes)
        transaction = self._ledger.begin()
        messages = before.messages + self._append(transaction, rows)
        done: Sequence[Record]
        if end < stage.size_bytes:
            done = sinks.advance(query, EpochProgress(before.stage, end, messages))
        elif before.stage + 1 < len(stages):
            done = sinks.advance(query, EpochProgress(before.stage + 1, 0, messages))
        else:
            done = sinks.commit(query, committing.epoch, messages, self._clock.now())
        transaction.apply(done)
        await transaction.commit()

    async def _read_all(self, stages: Iterable[Stage]) -> AsyncIterator[list[_Rows]]:
        for stage in stages:
            position = 0
            while position < stage.size_bytes:
                rows, position = await self._read(stage, position)
                yield rows

    async def _read(self, stage: Stage, position: int) -> tuple[list[_Rows], int]:
        """Staged rows from a position on, ready to be appended, and where they end."""
        batches, end = await self._stages.read(stage, position, limits.EPOCH_PART_BYTES)
        return await asyncio.to_thread(_rows, batches, self._contents), end

    def _check_topics(self, stages: Iterable[Stage]) -> None:
        catalog = self._ledger.hard.catalog
        for stage in stages:
            for topic_id in stage.topics:
                if catalog.topic_by_id(TopicId(topic_id)) is None:
                    raise FailedPrecondition(
                        f"a topic was deleted since rows for it were staged as {stage.key}"
                    )

    def _check_pressure(self, stages: Iterable[Stage]) -> None:
        """Raises BacklogFull: A subscription pushes back on a topic of the stages."""
        for stage in stages:
            for topic_id in stage.topics:
                topic = self._ledger.hard.catalog.topic_by_id(TopicId(topic_id))
                if topic is not None:
                    self._pressure.check(topic)

    def _append(self, transaction: Transaction, rows: Iterable[_Rows]) -> int:
        """Append staged rows to their topics; returns how many rows there are."""
        messages = 0
        for one in rows:
            messages += one.body.count
            topic = self._ledger.hard.catalog.topic_by_id(one.topic)
            # Rows for a topic that was deleted since the epoch was begun have no reader.
            if topic is not None:
                self._append_rows(transaction, topic, one)
        return messages

    def _append_rows(self, transaction: Transaction, topic: Topic, rows: _Rows) -> None:
        for partition, body, indexes in parts_of(topic.partitions, rows.body, rows.dedup_ids):
            if rows.dedup_ids is not None:
                ids = rows.dedup_ids
                admission = self._ledger.hard.dedup_on(partition).admit(
                    ids if indexes is None else [ids[index] for index in indexes],
                    base_offset=transaction.end(partition),
                    now=self._clock.now(),
                    window_s=topic.dedup_window_s,
                    most=limits.DEDUP_IDS_MAX,
                )
                self._metrics.deduplicated += body.count - len(admission.fresh)
                transaction.apply(admission.records)
                if not admission.fresh:
                    continue
                body = body.only(admission.fresh)
            transaction.append(topic.id, partition, body)


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
            terms=batch.terms,
        )
        dedup_ids = None if contents is None else contents.dedup_ids(body)
        found.append(_Rows(TopicId(batch.topic), body, dedup_ids))
    return found


async def _shielded(task: asyncio.Task[int]) -> int:
    """The messages of a commit; it goes on when the task that waits for it goes away."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise Unavailable("the broker is stopping; commit the epoch again") from None
        raise
