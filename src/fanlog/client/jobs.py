"""Jobs over a `Client`: ask for one, see how far it is, wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fanlog.client.client import Client
from fanlog.errors import JobFailed
from fanlog.v1 import jobs_pb2

_SERVICE = "fanlog.v1.Jobs"
ENDED = frozenset({"DONE", "FAILED", "CANCELLED"})
_POLL_S = 0.5


class Jobs:
    """The jobs of one server; names are full, `projects/p/jobs/j`. Errors as of `Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self, project: str, kind: str, arguments: Mapping[str, Any], *, job_id: str = ""
    ) -> Any:
        """Ask for a job in `projects/p`; with a `job_id`, asking twice is asking once."""
        request = jobs_pb2.CreateJobRequest(parent=project, kind=kind, job_id=job_id)
        request.arguments.update(dict(arguments))
        return self._call("CreateJob", request)

    def get(self, name: str) -> Any:
        return self._call("GetJob", jobs_pb2.GetJobRequest(name=name))

    def listed(self, project: str) -> Iterator[Any]:
        request = jobs_pb2.ListJobsRequest(parent=project)
        while True:
            page = self._client.call(f"{_SERVICE}/ListJobs", request, jobs_pb2.ListJobsResponse)
            yield from page.jobs
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def cancel(self, name: str) -> Any:
        return self._call("CancelJob", jobs_pb2.CancelJobRequest(name=name))

    def delete(self, name: str) -> None:
        request = jobs_pb2.DeleteJobRequest(name=name)
        self._client.call(f"{_SERVICE}/DeleteJob", request, jobs_pb2.DeleteJobResponse)

    def claim(self, name: str, worker: str) -> Any:
        """Take a job up, as a worker."""
        return self.report(name, worker, 0, "RUNNING")

    def report(self, name: str, worker: str, attempt: int, state: str, **said: Any) -> Any:
        """Say how far an attempt is; `said` has done, total, phase, error, result."""
        result = said.pop("result", None)
        request = jobs_pb2.ReportJobRequest(
            name=name,
            worker=worker,
            attempt=attempt,
            state=state,
            **said,
        )
        if result:
            request.result.update(result)
        return self._call("ReportJob", request)

    def wait(
        self,
        name: str,
        *,
        on_progress: Callable[[Any], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Any:
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

    def _call(self, method: str, request: Any) -> Any:
        return self._client.call(f"{_SERVICE}/{method}", request, jobs_pb2.Job)


def state_of(job: Any) -> str:
    """The state of a job as a word."""
    return str(jobs_pb2.Job.State.Name(job.state))
