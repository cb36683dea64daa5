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
from fanlog.core.publish_rates import PublishRates
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
    _rates: PublishRates
    #: From which pressure on publishes are refused by priority; 0 for never.
    _shed_at: float = 0.0

    def admit_plain(self, topic_name: str, body: Body) -> Topic | None:
        """As `admit` where nobody asks for anything, as mostly; None where `admit` is to look.

        All that makes a publish more than an append is decided here: there is a topic, and neither
        it nor a message asks for anything, no backlog has limits, and there is room.

        Raises:
            Unavailable: The broker is stopping.
        """
        self._access.check_serving()
        if body.terms is not None or self._shed_at or self._pressure.has_bounds:
            return None
        topic = self._ledger.hard.catalog.find_topic(topic_name)
        if topic is None or not topic.is_plain or not self._ledger.has_room(len(body.content)):
            return None
        return topic

    async def admit(self, topic_name: str, body: Body) -> tuple[Topic, Body]:
        """A topic, and messages as they are appended to it: checked, and with room for them.

        That is so until the caller awaits anything. What it takes of the topic's rate is taken.

        Raises as `check` does, and:
            RateExceeded: The topic takes no more just now.
            LoadShed: The disk is behind, and others go first.
            ResourceExhausted: There is no room, see `Ledger.check_room`; or a subscription pushes
                back.
        """
        self._access.check_serving()
        if self._pressure.has_bounds:
            await self._pressure.admit(topic_name, len(body.content))
        while True:
            topic, checked = await self._check(topic_name, body, is_now=True)
            if checked.terms is not None:
                asking.check_room(checked.terms, self._ledger.hard.agendas.pending)
            size_bytes = len(checked.content)
            if not self._ledger.shortage(size_bytes) or not await self._room.make(size_bytes):
                self._ledger.check_room(size_bytes)
                if self._shed_at:
                    self._ledger.check_pressure(self._shed_at, checked.terms)
                if topic.labels and topic.is_rated:
                    # Last: what is refused for another reason costs nothing.
                    now = self._clock.now()
                    self._rates.take(topic, body.count, len(body.content), now)
                return topic, checked

    async def check(self, topic_name: str, body: Body) -> tuple[Topic, Body]:
        """As `admit`, but whether there is room now is not asked.

        Raises:
            InvalidArgument: What a message asks for cannot be done, or it cannot stand in the order
                of the topic, or there are more than the topic takes at once.
            TopicNotFound: There is no such topic.
            SchemaMismatch: A message does not conform to the topic's schema.
        """
        return await self._check(topic_name, body, is_now=False)

    async def _check(self, topic_name: str, body: Body, *, is_now: bool) -> tuple[Topic, Body]:
        """As `check`; or also whether the topic's rate allows it now."""
        topic, checked = self._ledger.hard.catalog.topic(topic_name), body
        if topic.labels and topic.is_rated:
            # First: what must wait costs no checks that take long.
            self._rates.check_size(topic, body.count, len(body.content))
            if is_now:
                self._rates.check(topic, body.count, len(body.content), self._clock.now())
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
