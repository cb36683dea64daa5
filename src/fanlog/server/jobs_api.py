"""fanlog.v1.Jobs, for any surface."""

from __future__ import annotations

import json
import secrets

from fanlog.broker.broker import Broker
from fanlog.errors import InvalidArgument
from fanlog.log.batch import Body
from fanlog.model import jobs, names
from fanlog.model.jobs import Job
from fanlog.server.methods import method
from fanlog.v1 import jobs_pb2 as pb
from fanlog.wire import paging, types
from fanlog.wire.jobs import job_pb, report_of, values_of
from fanlog.wire.publish import parse_publish


async def create_job(broker: Broker, request: pb.CreateJobRequest) -> pb.Job:
    project = names.parse_project(request.parent, field="parent")
    name = names.job_name(project, request.job_id or f"job-{secrets.token_hex(6)}")
    names.parse_job(name, field="job_id")
    given = values_of(request.arguments, "arguments")
    arguments = jobs.check_arguments(project, request.kind, given)
    job = Job(name=name, kind=request.kind, arguments=arguments)
    return job_pb(await broker.jobs.create(job, _make_message))


async def get_job(broker: Broker, request: pb.GetJobRequest) -> pb.Job:
    return job_pb(await broker.jobs.get(names.parse_job(request.name)))


async def list_jobs(broker: Broker, request: pb.ListJobsRequest) -> pb.ListJobsResponse:
    project = names.parse_project(request.parent, field="parent")
    page = paging.read_page(f"jobs of {request.parent}", request)
    found = await broker.jobs.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, lambda job: job.name, job_pb)
    return pb.ListJobsResponse(jobs=shown, next_page_token=token)


async def cancel_job(broker: Broker, request: pb.CancelJobRequest) -> pb.Job:
    return job_pb(await broker.jobs.cancel(names.parse_job(request.name)))


async def delete_job(broker: Broker, request: pb.DeleteJobRequest) -> pb.DeleteJobResponse:
    await broker.jobs.delete(names.parse_job(request.name))
    return pb.DeleteJobResponse()


async def report_job(broker: Broker, request: pb.ReportJobRequest) -> pb.Job:
    name = names.parse_job(request.name)
    if not request.worker:
        raise InvalidArgument("worker: empty; say who reports")
    if request.attempt == 0:
        return job_pb(await broker.jobs.claim(name, request.worker))
    return job_pb(await broker.jobs.report(name, report_of(request)))


def _make_message(job: Job) -> Body:
    """The message of a job: enough for a worker to know whether it can do the job."""
    data = json.dumps({"job": job.name, "kind": job.kind, "arguments": dict(job.arguments)})
    message = types.PubsubMessage(data=data.encode(), attributes={"job": job.name})
    request = types.PublishRequest(topic=jobs.TOPIC, messages=[message])
    return parse_publish(request.SerializeToString()).body


METHODS = (
    method("CreateJob", pb.CreateJobRequest, pb.Job, create_job),
    method("GetJob", pb.GetJobRequest, pb.Job, get_job),
    method("ListJobs", pb.ListJobsRequest, pb.ListJobsResponse, list_jobs),
    method("CancelJob", pb.CancelJobRequest, pb.Job, cancel_job),
    method("DeleteJob", pb.DeleteJobRequest, pb.DeleteJobResponse, delete_job),
    method("ReportJob", pb.ReportJobRequest, pb.Job, report_job),
)
