"""fanlog.v1.Jobs, for any surface."""

from __future__ import annotations

import json
import secrets
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.errors import InvalidArgument
from fanlog.log.batch import Body
from fanlog.model import jobs, names
from fanlog.model.jobs import Job
from fanlog.server.calls import Unary, parsed
from fanlog.v1 import jobs_pb2
from fanlog.wire import paging, types
from fanlog.wire.jobs import job_pb, report_of, values_of
from fanlog.wire.publish import parse_publish

JOBS = "fanlog.v1.Jobs"


def methods(broker: Broker) -> dict[str, Unary]:
    """Every method of the service: bytes to bytes."""
    api = JobsApi(broker)
    return {
        "CreateJob": parsed(jobs_pb2.CreateJobRequest, api.create),
        "GetJob": parsed(jobs_pb2.GetJobRequest, api.get),
        "ListJobs": parsed(jobs_pb2.ListJobsRequest, api.list),
        "CancelJob": parsed(jobs_pb2.CancelJobRequest, api.cancel),
        "DeleteJob": parsed(jobs_pb2.DeleteJobRequest, api.delete),
        "ReportJob": parsed(jobs_pb2.ReportJobRequest, api.report),
    }


class JobsApi:
    def __init__(self, broker: Broker) -> None:
        self._jobs = broker.jobs

    async def create(self, request: Any) -> Any:
        project = names.parse_project(request.parent, field="parent")
        name = names.job_name(project, request.job_id or f"job-{secrets.token_hex(6)}")
        names.parse_job(name, field="job_id")
        arguments = values_of(request.arguments, "arguments")
        arguments = jobs.checked_arguments(project, request.kind, arguments)
        job = Job(name=name, kind=request.kind, arguments=arguments)
        return job_pb(await self._jobs.create(job, _message))

    async def get(self, request: Any) -> Any:
        return job_pb(await self._jobs.get(names.parse_job(request.name)))

    async def list(self, request: Any) -> Any:
        project = names.parse_project(request.parent, field="parent")
        page = paging.parse_page(f"jobs of {request.parent}", request.page_size, request.page_token)
        found = await self._jobs.list_all(project, page.after, page.size + 1)
        shown, token = page.filled(found, lambda job: job.name, job_pb)
        return jobs_pb2.ListJobsResponse(jobs=shown, next_page_token=token)

    async def cancel(self, request: Any) -> Any:
        return job_pb(await self._jobs.cancel(names.parse_job(request.name)))

    async def delete(self, request: Any) -> Any:
        await self._jobs.delete(names.parse_job(request.name))
        return jobs_pb2.DeleteJobResponse()

    async def report(self, request: Any) -> Any:
        name = names.parse_job(request.name)
        if not request.worker:
            raise InvalidArgument("worker: empty; say who reports")
        if request.attempt == 0:
            return job_pb(await self._jobs.claim(name, request.worker))
        return job_pb(await self._jobs.report(name, report_of(request)))


def _message(job: Job) -> Body:
    """What a worker gets: enough to know whether it can do it; the rest it asks for."""
    data = json.dumps({"job": job.name, "kind": job.kind, "arguments": dict(job.arguments)})
    message = types.PubsubMessage(data=data.encode(), attributes={"job": job.name})
    request = types.PublishRequest(topic=jobs.TOPIC, messages=[message])
    return parse_publish(request.SerializeToString()).body
