"""Findings: what is wrong now, of the server and of all its resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.pacing import paced
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.alerting import Alerting
from fanlog.broker.verbs.server_look import ServerLook
from fanlog.broker.verbs.survey import Survey
from fanlog.broker.verbs.ticking import Ticking
from fanlog.core import problems
from fanlog.core.problems import Problem


@dataclass(eq=False)
class Findings:
    """The problems of one broker. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _ticking: Ticking
    _survey: Survey
    _server: ServerLook
    _alerting: Alerting

    def __post_init__(self) -> None:
        #: Topics without their schema, as of the last look at all of them.
        self._topics: tuple[Problem, ...] = ()
        self._topics_at_s = float("-inf")

    async def fresh(self) -> list[Problem]:
        """All problems, the worst first; of looks that are no older than some seconds."""
        await self._survey.whole(limits.ROWS_LOOKED_AT_S)
        await self.look_at_topics()
        return self.known()

    async def look_at_topics(self) -> None:
        """Look at all topics, unless that was done some seconds ago."""
        now = self._clock.now()
        if now - self._topics_at_s < limits.RATE_WINDOW_S:
            return
        self._topics_at_s = now
        found: list[Problem] = []
        async for topic in paced(list(self._ledger.hard.catalog.topics())):
            settings = topic.schema_settings
            if settings is not None and settings.schema_id is None:
                found.append(problems.of_topic(topic.name))
        self._topics = tuple(found)

    def known(self) -> list[Problem]:
        """All problems, the worst first, as they were found last."""
        return problems.by_rank(self._all())

    def _all(self) -> Iterator[Problem]:
        now, hard = self._clock.now(), self._ledger.hard
        yield from problems.of_server(self._server.facts(now), now)
        yield from self._survey.problems()
        for one in self._topics:
            if hard.catalog.find_topic(one.resource) is not None:
                yield one
        for name in self._ticking.troubled():
            trouble = self._ticking.trouble(name)
            if trouble is not None:
                yield problems.of_schedule(name, trouble.error, trouble.failed_s)
        for name in hard.alerts.holding():
            state = hard.alerts.state(name)
            yield problems.of_alert(name, state.sentence, state.since_s)
        for name, error in self._alerting.errors():
            yield problems.of_untold_alert(name, error)
        for job in hard.jobs.values():
            yield from problems.of_job(job, now)
