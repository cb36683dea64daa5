"""The verbs of jobs. A job is hard state, and a message on a topic that workers share.

Both are one commit: a job that is known waits for a worker, and a worker never meets a message of a
job that is not. Progress alone is soft state: a worker says it again.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from fanlog import limits
from fanlog.broker import parts
from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.subscriptions import Subscriptions
from fanlog.broker.verbs.topics import Topics
from fanlog.core.records import JobRecord, Record
from fanlog.errors import AlreadyExists, FailedPrecondition, JobNotFound
from fanlog.log.batch import Body
from fanlog.model import jobs, names
from fanlog.model.jobs import Job, JobReport
from fanlog.model.quotas import Quotas, Usage
from fanlog.model.specs import SubscriptionSpec, TopicSpec


@dataclass(eq=False)
class Jobs:
    """Job verbs of one broker."""

    _ledger: Ledger
    _clock: Clock
    _topics: Topics
    _subscriptions: Subscriptions
    _quotas: Quotas

    async def create(self, job: Job, body: Callable[[Job], Body]) -> Job:
        """Ask for a job; it is durable, and on its way to a worker, when this returns.

        `body` makes the message that workers get. Asking again for the same is asking once.

        Raises:
            AlreadyExists: There is another job of that name.
        """
        await self._prepare()
        present = self._ledger.hard.jobs.get(job.name)
        if present is not None:
            if (present.kind, present.arguments) != (job.kind, job.arguments):
                raise AlreadyExists(f"job {job.name!r} exists, and is another")
            await self._ledger.sync()
            return present
        self._check_quota(job)
        now = self._clock.now()
        job = replace(job, created_s=now, updated_s=now)
        topic = self._ledger.hard.catalog.topic(jobs.TOPIC)
        transaction = self._ledger.begin()
        transaction.apply([*self._records_to_forget(), JobRecord(job.name, job)])
        parts.append(transaction, topic, body(job))
        await transaction.commit()
        return job

    async def get(self, name: str) -> Job:
        """Raises JobNotFound."""
        job = self._job(name)
        await self._ledger.sync()
        return job

    async def list_all(self, project: str, after: str, limit: int) -> list[Job]:
        """Jobs of a project by name, after one of them."""
        prefix = names.job_name(project, "")
        found = (
            name for name in self._ledger.hard.jobs if name.startswith(prefix) and name > after
        )
        listed = [self._ledger.hard.jobs[name] for name in heapq.nsmallest(limit, found)]
        await self._ledger.sync()
        return listed

    async def cancel(self, name: str) -> Job:
        """Ask a job to stop; one that waits for a worker has ended at once.

        Raises:
            JobNotFound: There is no such job.
            FailedPrecondition: It has ended.
        """
        return await self._put(self._job(name).cancel(self._clock.now()))

    async def delete(self, name: str) -> None:
        """Forget a job that has ended.

        Raises:
            JobNotFound: There is no such job.
            FailedPrecondition: It has not ended.
        """
        job = self._job(name)
        if not job.has_ended:
            raise FailedPrecondition(f"job {name!r} is {job.state}; cancel it first")
        await self._ledger.commit([JobRecord(name, None)])

    async def claim(self, name: str, worker: str) -> Job:
        """Take a job up, as a worker.

        Raises:
            JobNotFound: There is no such job.
            FailedPrecondition: It has ended, perhaps just now: it was cancelled, or given up.
        """
        job = await self._put(self._job(name).claim(worker, self._clock.now()))
        if job.has_ended:
            raise FailedPrecondition(f"job {name!r} has ended: {job.state}")
        return job

    async def report(self, name: str, report: JobReport) -> Job:
        """Say how far a job is.

        Raises:
            JobNotFound: There is no such job.
            Aborted: Another worker has it.
        """
        before = self._job(name)
        job = before.report(report, self._clock.now())
        if job.state == before.state and not job.has_ended:
            # Applied, not committed: after a restart the worker says it again.
            self._ledger.note(JobRecord(name, job))
            return job
        return await self._put(job)

    async def _put(self, job: Job) -> Job:
        await self._ledger.commit([JobRecord(job.name, job)])
        return job

    def _job(self, name: str) -> Job:
        job = self._ledger.hard.jobs.get(name)
        if job is None:
            raise JobNotFound(f"job {name!r} does not exist")
        return job

    def _check_quota(self, job: Job) -> None:
        """Jobs that wait are never forgotten to make room: too many of them are refused."""
        usage = Usage()
        for one in self._ledger.hard.jobs.values():
            if not one.has_ended:
                usage.change(names.project_of(one.name), {"waiting_jobs": 1}, 1)
        self._quotas.check("waiting_jobs", names.project_of(job.name), usage)

    def _records_to_forget(self) -> list[Record]:
        """Room for one more: the oldest that have ended."""
        known = self._ledger.hard.jobs
        excess = len(known) + 1 - limits.JOBS_MAX
        if excess <= 0:
            return []
        ended = (job for job in known.values() if job.has_ended)
        oldest = heapq.nsmallest(excess, ended, key=lambda job: job.ended_s)
        return [JobRecord(job.name, None) for job in oldest]

    async def _prepare(self) -> None:
        """The topic and the subscription that jobs travel on, from the first job on."""
        catalog = self._ledger.hard.catalog
        if catalog.find_topic(jobs.TOPIC) is None:
            await _unless_there(self._topics.create(TopicSpec(name=jobs.TOPIC)))
        if not catalog.has_subscription(jobs.SUBSCRIPTION):
            spec = SubscriptionSpec(
                name=jobs.SUBSCRIPTION,
                topic=jobs.TOPIC,
                ack_deadline_s=limits.JOB_SILENCE_S,
                message_retention_s=limits.JOB_RETENTION_S,
                expiration_ttl_s=None,
            )
            await _unless_there(self._subscriptions.create(spec))


async def _unless_there(made: Awaitable[object]) -> None:
    with suppress(AlreadyExists):
        await made
