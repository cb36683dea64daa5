"""Rows of one attempt of one task, on their way into the spool.

They are checked as a publish is. One that cannot be published is refused by its number, with the
reason; the others are staged without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.keying import Keying
from fanlog.broker.retention.room import Room
from fanlog.broker.spool import Draft, Stage
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.schemas import Schemas
from fanlog.broker.verbs.stages import Stages
from fanlog.core import asking, dependencies
from fanlog.core.sinks import StageKey
from fanlog.errors import FailedPrecondition, InvalidArgument, SchemaMismatch
from fanlog.log import batch as codec
from fanlog.log.batch import Body
from fanlog.model import names
from fanlog.model.resources import PartitionId, Topic

#: In the header of staged batches: partitions are chosen when the epoch is committed.
_NO_PARTITION = PartitionId(0)


@dataclass(frozen=True, slots=True)
class StagingTools:
    """The parts of the broker that rows are checked and kept by."""

    ledger: Ledger
    clock: Clock
    access: Access
    room: Room
    schemas: Schemas
    keying: Keying
    stages: Stages


@dataclass(frozen=True, slots=True)
class StagingAnswer:
    """The rows of one attempt that were staged, counted, and those that were refused."""

    messages: int
    #: Rows that cannot be published, each with the reason.
    refused: Sequence[tuple[int, str]]


class Staging:
    """Rows of one attempt on their way into the spool."""

    def __init__(self, tools: StagingTools, key: StageKey, stage_id: str, draft: Draft) -> None:
        self._tools = tools
        self._stages = tools.stages
        self._key = key
        self._id = stage_id
        self._draft = draft
        #: A run of bodies for one topic that is not written yet.
        self._topic: Topic | None = None
        self._bodies: list[Body] = []
        self._waiting_bytes = 0
        self._topics: set[int] = set()
        self._messages = 0
        self._size_bytes = 0
        self._refused: list[tuple[int, str]] = []
        self._is_over = False

    def refuse(self, row: int, reason: str) -> None:
        """A row cannot be published; the others can.

        Raises:
            InvalidArgument: There are too many such rows.
        """
        self._refused.append((row, reason))
        if len(self._refused) > limits.STAGE_REFUSED_MAX:
            first_row, first_reason = self._refused[0]
            raise InvalidArgument(
                f"more than {limits.STAGE_REFUSED_MAX} rows cannot be published; the first is row "
                f"{first_row}: {first_reason}"
            )

    async def add(self, topic_name: str, body: Body, rows: Sequence[int]) -> None:
        """Stage messages for a topic; `rows` are their numbers, should one be refused.

        Raises:
            ResourceExhausted: As much is staged as may be, or the disk is full.
        """
        self._tools.access.check_serving()
        names.refuse_system(topic_name)
        topic = self._tools.ledger.hard.catalog.find_topic(topic_name)
        if topic is None:
            for row in rows:
                self.refuse(row, f"topic {topic_name!r} does not exist")
            return
        body, rows = self._keyed(topic, body, rows)
        if not rows:
            return
        if body.terms is not None:
            fine = self._check_terms(topic, body, rows)
            if len(fine) < body.count:
                if not fine:
                    return
                body, rows = body.only(fine), [rows[index] for index in fine]
        if topic.schema_settings is not None:
            checked = await self._check(topic, body, rows)
            if checked is None:
                return
            topic, body = checked
        if self._topic is not None and self._topic.id != topic.id:
            await self._flush()
        self._topic = topic
        self._topics.add(topic.id)
        self._bodies.append(body)
        self._waiting_bytes += len(body.content)
        if self._waiting_bytes >= limits.STAGE_WRITE_BYTES:
            await self._flush()

    async def finish(self) -> StagingAnswer:
        """Make all of it a stage; durable when this returns."""
        await self._flush()
        stage = Stage(
            id=self._id,
            key=self._key,
            messages=self._messages,
            size_bytes=self._size_bytes,
            topics=tuple(sorted(self._topics)),
            staged_s=self._tools.clock.now(),
        )
        await self._draft.finish(stage)
        self._is_over = True
        await self._stages.add(stage)
        return StagingAnswer(self._messages, self._refused)

    async def discard(self) -> None:
        """Forget all of it, unless it is finished."""
        if not self._is_over:
            self._is_over = True
            self._stages.release(self._size_bytes)
            await self._draft.discard()

    def _keyed(self, topic: Topic, body: Body, rows: Sequence[int]) -> tuple[Body, Sequence[int]]:
        """The messages that can stand in the order of the topic, with its keys, and their rows."""
        keying = self._tools.keying
        try:
            return keying.keyed(topic, body), rows
        except InvalidArgument:
            pass
        fine: list[int] = []
        for index, row in enumerate(rows):
            try:
                keying.keyed(topic, body.only([index]))
                fine.append(index)
            except InvalidArgument as error:
                self.refuse(row, error.message.removeprefix("messages[0]").lstrip(".: "))
        if not fine:
            return body, []
        return keying.keyed(topic, body.only(fine)), [rows[index] for index in fine]

    def _check_terms(self, topic: Topic, body: Body, rows: Sequence[int]) -> list[int]:
        """The indexes of the messages that ask for nothing, or for what can be done."""
        assert body.terms is not None
        hard, now_ms = self._tools.ledger.hard, self._tools.clock.wall_ns() // 1_000_000
        asking.check_room(body.terms, hard.agendas.pending)
        fine: list[int] = []
        for index, row in enumerate(rows):
            terms = body.terms.part(index, index + 1)
            shares = (share for one in topic.partitions for share in hard.shares_on(one))
            try:
                if terms is not None:
                    asking.check(terms, topic, shares, now_ms)
                    dependencies.check(terms, topic, self._tools.ledger.end)
                fine.append(index)
            except InvalidArgument as error:
                self.refuse(row, error.message.removeprefix("messages[0]").lstrip(".: "))
        return fine

    async def _check(
        self, topic: Topic, body: Body, rows: Sequence[int]
    ) -> tuple[Topic, Body] | None:
        """The messages that conform to the topic's schema, as they are stored; None for none."""
        schemas = self._tools.schemas
        try:
            return await schemas.check(topic, body)
        except SchemaMismatch:
            pass
        except FailedPrecondition as error:
            for row in rows:
                self.refuse(row, error.message)
            return None
        fine: list[int] = []
        for index, row in enumerate(rows):
            try:
                await schemas.check(topic, body.only([index]))
                fine.append(index)
            except (SchemaMismatch, FailedPrecondition) as error:
                self.refuse(row, error.message.removeprefix("messages[0]").lstrip(".: "))
            await asyncio.sleep(0)
        return await schemas.check(topic, body.only(fine)) if fine else None

    async def _flush(self) -> None:
        if self._topic is None:
            return
        topic, bodies = self._topic, self._bodies
        self._topic, self._bodies, self._waiting_bytes = None, [], 0
        values = [
            value
            for _, value in codec.encode(
                bodies,
                sequence=0,
                topic=topic.id,
                partition=_NO_PARTITION,
                base_offset=self._messages,
                publish_time_ns=0,
            )
        ]
        size_bytes = sum(map(len, values))
        await self._tools.room.make(size_bytes)
        self._stages.reserve(size_bytes)
        self._size_bytes += size_bytes
        self._messages += sum(body.count for body in bodies)
        await self._draft.write(values)
