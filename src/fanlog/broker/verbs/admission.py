"""Admission: messages that are to be published are checked, and have room, before they are.

Every way of publishing goes through it: callers' requests, and the ticks of schedules.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.keying import Keying
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.retention.room import Room
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.schemas import Schemas
from fanlog.core import asking, dependencies
from fanlog.log.batch import Body
from fanlog.model.resources import Topic
from fanlog.model.terms import Terms


@dataclass(eq=False)
class PublishAdmission:
    """Admission to the topics of one broker."""

    _ledger: Ledger
    _clock: Clock
    _access: Access
    _schemas: Schemas
    _keying: Keying
    _room: Room
    _pressure: Pressure

    async def admit(self, topic_name: str, body: Body) -> tuple[Topic, Body]:
        """A topic, and messages as they are appended to it: checked, and with room for them.

        That is so until the caller awaits anything.

        Raises as `check` does, and:
            ResourceExhausted: There is no room, see `Ledger.check_room`; or a subscription pushes
                back.
        """
        self._access.check_serving()
        if self._pressure.has_bounds:
            await self._pressure.admit(topic_name, len(body.content))
        while True:
            topic, checked = await self.check(topic_name, body)
            if checked.terms is not None:
                asking.check_room(checked.terms, self._ledger.hard.agendas.pending)
            size_bytes = len(checked.content)
            if not self._ledger.shortage(size_bytes) or not await self._room.make(size_bytes):
                self._ledger.check_room(size_bytes)
                return topic, checked

    async def check(self, topic_name: str, body: Body) -> tuple[Topic, Body]:
        """As `admit`, but whether there is room now is not asked.

        Raises:
            InvalidArgument: What a message asks for cannot be done, or it cannot stand in the order
                of the topic.
            TopicNotFound: There is no such topic.
            SchemaMismatch: A message does not conform to the topic's schema.
        """
        topic, checked = self._ledger.hard.catalog.topic(topic_name), body
        if topic.schema_settings is not None:
            topic, checked = await self._schemas.check(topic, body)
        checked = self._keying.keyed(topic, checked)
        if checked.terms is not None:
            self._check_terms(topic, checked.terms)
        return topic, checked

    def _check_terms(self, topic: Topic, terms: Terms) -> None:
        hard = self._ledger.hard
        shares = (share for one in topic.partitions for share in hard.shares_on(one))
        asking.check(terms, topic, shares, self._clock.wall_ns() // 1_000_000)
        dependencies.check(terms, topic, self._ledger.end)
