"""Alerting: every few seconds the condition of each rule is looked at, while there are rules.

A rule that begins or ends to hold is told of by one message. The message and the record that the
rule does so are one commit: a broker that is killed at any point has either both or neither. So no
message comes twice, and one that could not be published is tried again at the next look, as long as
its condition says the same. `fanlog.core.alerts.next_state` is the rule of what is next.

How long a condition lasts already is hard state too: a broker that restarts again and again does
not begin to count anew each time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from fanlog import limits, times
from fanlog.broker import parts
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Contents
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.broker.verbs.server_look import ServerLook
from fanlog.broker.verbs.survey import Reads, Survey
from fanlog.broker.verbs.topics import Topics
from fanlog.core import alerts
from fanlog.core.alerts import ConditionFinding
from fanlog.core.hard_state import HardState
from fanlog.core.problems import Problem
from fanlog.core.records.alerts import state_record
from fanlog.errors import AlreadyExists, FanlogError
from fanlog.log.batch import Body
from fanlog.model import ids
from fanlog.model.alerts import Alert, AlertState, topic_of
from fanlog.model.attributes import (
    ALERT,
    ALERT_CONDITION,
    ALERT_NUMBER,
    ALERT_RESOURCE,
    ALERT_STATE,
    ALERT_TIME,
)
from fanlog.model.specs import TopicSpec

log = logging.getLogger("fanlog.alerts")


class Alerting:
    """Looks at the rules of one broker. Lives on the loop."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        admission: PublishAdmission,
        topics: Topics,
        survey: Survey,
        server: ServerLook,
        contents: Contents | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._admission = admission
        self._topics = topics
        self._survey = survey
        self._server = server
        self._contents = contents
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        #: Held while rules are looked at.
        self._looking = asyncio.Lock()
        #: Why the message of a rule could not be published at the last look. Soft state.
        self._errors: dict[str, str] = {}
        ledger.on_load.listen(self._load)

    # Life.

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look_for_ever())

    def drain(self) -> None:
        """Begin nothing more; messages that were begun are committed all the same."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self.drain()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # Rules.

    def watch(self, name: str) -> None:
        """A rule was made, changed or deleted."""
        self._errors.pop(name, None)
        self._asked.set()

    def error(self, name: str) -> str:
        """Why the message of a rule could not be published at the last look; empty for none."""
        return self._errors.get(name, "")

    def errors(self) -> list[tuple[str, str]]:
        """The rules whose message could not be published at the last look, and why."""
        return list(self._errors.items())

    async def ensure_topic(self, project: str) -> None:
        """Make the topic of a project's alerts when there is none. Raises as a creation does."""
        name = topic_of(project)
        if self._ledger.hard.catalog.find_topic(name) is None:
            with suppress(AlreadyExists):
                await self._topics.create(TopicSpec(name=name))

    async def look(self) -> None:
        """Look at all rules now; come back when what was begun is durable."""
        async with self._looking:
            for name in self._ledger.hard.alerts.names():
                try:
                    await self._look_at(name)
                except FanlogError as error:
                    self._fail(name, error)
                # There may be many: others are let in between.
                await asyncio.sleep(0)

    # Private.

    def _load(self, hard: HardState) -> None:
        self._errors = {n: e for n, e in self._errors.items() if hard.alerts.find(n) is not None}
        self._asked.set()

    async def _look_for_ever(self) -> None:
        while True:
            self._asked.clear()
            if not len(self._ledger.hard.alerts):
                await self._asked.wait()
                continue
            await self.look()
            await sleep(self._clock, limits.ALERT_LOOK_S)

    async def _look_at(self, name: str) -> None:
        alert = self._ledger.hard.alerts.find(name)
        if alert is None:
            return
        reading = await self._read(alert)
        if self._ledger.hard.alerts.find(name) != alert:
            return
        before, now = self._ledger.hard.alerts.state(name), self._clock.now()
        after = alerts.next_state(alert, before, reading.value, now)
        if after.number != before.number:
            await self._tell(alert, before, after, reading)
            return
        self._errors.pop(name, None)
        if after != before:
            # Goes along with the next commit: a count that is lost begins a little later.
            self._ledger.commit([state_record(name, after)], can_wait=True)

    async def _tell(
        self, alert: Alert, before: AlertState, after: AlertState, reading: ConditionFinding
    ) -> None:
        """Publish that a rule begins or ends to hold, in one commit with its state."""
        name, sentence = alert.name, f"{_short(alert)}: {reading.sentence}"
        if not after.is_holding:
            sentence = f"{_short(alert)} is over: {reading.sentence}"
        body = self._body(alert, after, sentence)
        await self.ensure_topic(alert.topic.split("/")[1])
        topic, body = await self._admission.check(alert.topic, body)
        if alert.kind.has_subscription:
            # An alert of the server may use the disk's reserve: it tells that there is no room.
            self._ledger.check_room(len(body.content))
        table = self._ledger.hard.alerts
        if table.find(name) != alert or table.state(name) != before:
            return
        transaction = self._ledger.begin()
        [(partition, [offset, *_], _)] = parts.append(transaction, topic, body)
        message_id = ids.message_id(partition, offset)
        stored = replace(after, last_message_id=message_id, sentence=sentence)
        transaction.apply([state_record(name, stored)])
        await transaction.commit()
        self._errors.pop(name, None)
        self._metrics.alerts_told += 1
        word = "began" if after.is_holding else "ended"
        log.warning("action=alert_%s alert=%s message=%s", word, name, message_id)

    def _fail(self, name: str, error: FanlogError) -> None:
        self._metrics.alerts_failed += 1
        if name not in self._errors:
            log.warning("action=alert_failed alert=%s error=%s; trying again", name, error)
        self._errors[name] = error.message

    def _body(self, alert: Alert, state: AlertState, sentence: str) -> Body:
        """The message: data that hooks of chat systems take as it is; the facts as attributes."""
        assert self._contents is not None, "a broker with alerts needs to write messages"
        attributes = {
            ALERT: alert.name,
            ALERT_STATE: "began" if state.is_holding else "ended",
            ALERT_CONDITION: alert.condition,
            ALERT_NUMBER: str(state.number),
            ALERT_TIME: times.of_ns(int(state.since_s) * 1_000_000_000),
        }
        if alert.subscription:
            attributes[ALERT_RESOURCE] = alert.subscription
        data = json.dumps({"text": sentence}, ensure_ascii=False).encode()
        return self._contents.body(data, attributes, "")

    # Conditions.

    async def _read(self, alert: Alert) -> ConditionFinding:
        if alert.kind.has_subscription:
            return await self._read_subscription(alert)
        return alerts.of_server(alert, self._server.facts(self._clock.now()))

    async def _read_subscription(self, alert: Alert) -> ConditionFinding:
        catalog, short = self._ledger.hard.catalog, alert.subscription.rpartition("/")[2]
        if not catalog.has_subscription(alert.subscription):
            return ConditionFinding(0, f"there is no subscription {short}")
        subscription = catalog.subscription(alert.subscription)
        found = await self._survey.look(subscription, Reads(limits.SURVEY_READS_MAX))
        return alerts.of_subscription(
            alert,
            messages=found.messages,
            age_s=found.age_s(self._clock.now()),
            consumers=None if subscription.detached else self._survey.consumers_of(subscription),
            problems=_by_code(found.problems),
        )


def _by_code(found: tuple[Problem, ...]) -> Mapping[str, str]:
    return {one.code: one.sentence for one in found}


def _short(alert: Alert) -> str:
    return alert.name.rpartition("/")[2]
