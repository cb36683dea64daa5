"""Jobs, `fanlog.v1.Jobs`, over a `Connection`: ask for one, see how far it is, wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from fanlog.client.connection import Connection
from fanlog.errors import JobFailed
from fanlog.v1 import jobs_pb2

_SERVICE: Final = "fanlog.v1.Jobs"
ENDED: Final = frozenset({"DONE", "FAILED", "CANCELLED"})
_POLL_S: Final = 0.5


class JobClient:
    """The jobs of one server; names are full, `projects/p/jobs/j`. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(
        self, project: str, kind: str, arguments: Mapping[str, Any], *, job_id: str = ""
    ) -> jobs_pb2.Job:
        """Ask for a job in `projects/p`; with a `job_id`, asking twice is asking once."""
        request = jobs_pb2.CreateJobRequest(parent=project, kind=kind, job_id=job_id)
        request.arguments.update(dict(arguments))
        return self._call("CreateJob", request)

    def get(self, name: str) -> jobs_pb2.Job:
        return self._call("GetJob", jobs_pb2.GetJobRequest(name=name))

    def list_jobs(self, project: str) -> Iterator[jobs_pb2.Job]:
        """Yield every job of `projects/p`."""
        request = jobs_pb2.ListJobsRequest(parent=project)
        method = f"{_SERVICE}/ListJobs"
        for page in self._connection.pages(method, request, jobs_pb2.ListJobsResponse):
            yield from page.jobs

    def cancel(self, name: str) -> jobs_pb2.Job:
        return self._call("CancelJob", jobs_pb2.CancelJobRequest(name=name))

    def delete(self, name: str) -> None:
        request = jobs_pb2.DeleteJobRequest(name=name)
        self._connection.call(f"{_SERVICE}/DeleteJob", request, jobs_pb2.DeleteJobResponse)

    def claim(self, name: str, worker: str) -> jobs_pb2.Job:
        """Take a job up, as a worker."""
        return self.report(name, worker, 0, "RUNNING")

    def report(
        self,
        name: str,
        worker: str,
        attempt: int,
        state: str,
        *,
        done: int = 0,
        total: int = 0,
        phase: str = "",
        error: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> jobs_pb2.Job:
        """Say how far an attempt is, or how it ended."""
        request = jobs_pb2.ReportJobRequest(
            name=name,
            worker=worker,
            attempt=attempt,
            state=state,
            done=done,
            total=total,
            phase=phase,
            error=error,
        )
        if result:
            request.result.update(dict(result))
        return self._call("ReportJob", request)

    def wait(
        self,
        name: str,
        *,
        on_progress: Callable[[jobs_pb2.Job], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> jobs_pb2.Job:
        """Give the job when it is done, or was cancelled.

        Raises:
            JobFailed: It failed; the sentence says why.
        """
        while True:
            job = self.get(name)
            on_progress(job)
            state = state_of(job)
            if state == "FAILED":
                raise JobFailed(f"job {name} failed: {job.error}")
            if state in ENDED:
                return job
            sleep(_POLL_S)

    def _call(self, method: str, request: Message) -> jobs_pb2.Job:
        return self._connection.call(f"{_SERVICE}/{method}", request, jobs_pb2.Job)


def state_of(job: jobs_pb2.Job) -> str:
    """The state of a job as a word."""
    return str(jobs_pb2.Job.State.Name(job.state))
