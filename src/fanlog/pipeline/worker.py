"""A worker: takes jobs from the system topic, one at a time, and sees that they come to an end.

While a job runs, a second thread renews its lease and says how far it is. If the lease is lost all
the same, another worker claims the job, and the reports of this one are refused: it stops.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson

from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model import jobs, names
from fanlog.pipeline.jobs.work import JobResult, Stopped, Work
from fanlog.pipeline.spark_errors import cause_of
from fanlog.v1 import jobs_pb2
from fanlog.wire import types
from fanlog.wire.jobs import values_of

log = logging.getLogger("fanlog.pipeline")

#: How long one pull waits, and how long a worker rests when the broker does not answer.
PULL_S = 5.0
REST_S = 1.0
#: How often a job's lease is renewed and its progress told: many times within a lease.
BEAT_S = 2.0

#: Does a job of one kind, and gives its result.
JobRunner = Callable[[Work], JobResult]


class Worker:
    """Runs jobs of the kinds it knows. Stop it with `stop`, from any thread."""

    def __init__(
        self,
        connect: Callable[[], Client],
        kinds: Mapping[str, JobRunner],
        *,
        name: str,
        beat_s: float = BEAT_S,
        pull_s: float = PULL_S,
    ) -> None:
        self._connect = connect
        self._kinds = kinds
        self._name = name
        self._beat_s = beat_s
        self._pull_s = pull_s
        self._stopping = threading.Event()
        self._work: Work | None = None
        #: Messages on the topic of jobs that were none.
        self.malformed = 0

    @property
    def job(self) -> str:
        """Full name of the job under way; empty for none."""
        work = self._work
        return "" if work is None else work.name

    def stop(self) -> None:
        """End after the present job, which is asked to stop; another worker will take it up."""
        self._stopping.set()
        work = self._work
        if work is not None:
            work.stop()

    def run(self) -> None:
        """Take jobs until stopped. A broker that is away is waited for."""
        with self._connect() as client:
            while not self._stopping.is_set():
                try:
                    self.run_one(client, wait_s=self._pull_s)
                except CallFailed as error:
                    # Before the first job there is no topic of jobs.
                    if error.status != "NOT_FOUND":
                        log.warning("action=jobs_unreachable error=%s", error)
                    self._stopping.wait(REST_S)

    def run_one(self, client: Client, *, wait_s: float = 0.0) -> bool:
        """Take one job, if there is one, and do it.

        Raises:
            CallFailed: The broker cannot be asked.
        """
        received = client.pull(jobs.SUBSCRIPTION, max_messages=1, wait_s=wait_s)
        if not received:
            return False
        [message] = received
        taken = _job_of(message)
        if taken is None:
            # Left unacknowledged it would come back to every worker, for as long as it is kept.
            self.malformed += 1
            log.warning(
                "action=job_malformed message_id=%s malformed=%d; it is not a job of the broker's",
                message.message.message_id,
                self.malformed,
            )
        if taken is None or self._do(client, taken):
            client.acknowledge(jobs.SUBSCRIPTION, [message.ack_id])
        return True

    def _do(self, client: Client, taken: _Taken) -> bool:
        """Do a job; whether its message can go."""
        asking = JobClient(client)
        try:
            job = asking.claim(taken.name, self._name)
        except CallFailed as error:
            # Ended, cancelled, forgotten: nothing is left to do. Otherwise a worker tries again.
            return error.status in ("FAILED_PRECONDITION", "NOT_FOUND")
        log.info("action=job_started job=%s kind=%s attempt=%d", job.name, job.kind, job.attempt)
        # The broker's record of the job counts, not the arguments in the message.
        work = self._work = Work(job.name, job.kind, values_of(job.arguments, "arguments"))
        beat = _Beat(client, self._name, job.attempt, taken.ack_id, work, self._beat_s)
        try:
            return self._finish(asking, job, work, beat)
        finally:
            self._work = None

    def _finish(self, asking: JobClient, job: jobs_pb2.Job, work: Work, beat: _Beat) -> bool:
        result: JobResult = {}
        reason = ""
        with beat:
            try:
                work.arguments = jobs.check_arguments(work.project, work.kind, work.arguments)
                result = self._kinds[job.kind](work)
                state = "DONE"
            except Stopped:
                state = "CANCELLED"
            except Exception as error:
                # Of any kind: one job's failure is that job's, and the worker takes the next. Our
                # own errors are answers, and reported as such; the log has all others.
                if not isinstance(error, FanlogError):
                    log.warning("action=job_failed job=%s error=%r", job.name, error)
                state, reason = "FAILED", cause_of(error)
        if state == "CANCELLED" and not beat.is_cancelled:
            log.info("action=job_left job=%s", job.name)
            return False
        asking.report(
            job.name,
            self._name,
            job.attempt,
            state,
            done=work.done,
            total=work.total,
            error=reason,
            result=result,
        )
        log.info("action=job_ended job=%s state=%s", job.name, state)
        return True


class _Taken(NamedTuple):
    """A job's name, and the lease of its message."""

    name: str
    ack_id: str


def _job_of(received: types.ReceivedMessage) -> _Taken | None:
    """The job that a message names; None when it names none."""
    try:
        name = names.parse_job(orjson.loads(received.message.data)["job"])
    except (ValueError, LookupError, TypeError, AttributeError, InvalidArgument):
        return None
    return _Taken(name, received.ack_id)


class _Beat:
    """Renews the lease and tells progress, until the job has ended one way or another."""

    def __init__(
        self, client: Client, worker: str, attempt: int, ack_id: str, work: Work, beat_s: float
    ) -> None:
        self._client = client
        self._worker = worker
        self._attempt = attempt
        self._ack_id = ack_id
        self._work = work
        self._beat_s = beat_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="job-beat", daemon=True)
        #: Whether the user stopped it.
        self.is_cancelled = False

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat_on(self) -> None:
        while not self._ended.wait(self._beat_s):
            try:
                self._beat()
            except CallFailed as error:
                if error.status in ("ABORTED", "NOT_FOUND", "FAILED_PRECONDITION"):
                    log.warning("action=job_lost job=%s error=%s", self._work.name, error)
                    self._work.stop()
                    return
                # The broker may be back before the lease is over.

    def _beat(self) -> None:
        work = self._work
        job = JobClient(self._client).report(
            work.name,
            self._worker,
            self._attempt,
            "RUNNING",
            done=work.done,
            total=work.total,
            phase=work.phase,
        )
        if state_of(job) == "CANCELLING":
            self.is_cancelled = True
            work.stop()
        self._client.modify_ack_deadline(jobs.SUBSCRIPTION, [self._ack_id], limits.JOB_SILENCE_S)
