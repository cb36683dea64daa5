"""The verbs of `fanlog.v1` over HTTP, written as Google's are: one table."""

from __future__ import annotations

from fanlog.server.rest import google_json
from fanlog.server.rest.binding import HttpBinding
from fanlog.server.rest.json_schema import STRING
from fanlog.server.rest.route import Route

_JOB = "projects/*/jobs/*"
_SCHEDULE = "projects/*/schedules/*"
_SUBSCRIPTION = "/v1/{subscription=projects/*/subscriptions/*}"

BINDINGS = (
    HttpBinding("POST", "/v1/{parent=projects/*}/jobs", "Jobs.CreateJob", "*"),
    HttpBinding("GET", "/v1/{parent=projects/*}/jobs", "Jobs.ListJobs"),
    HttpBinding("GET", f"/v1/{{name={_JOB}}}", "Jobs.GetJob"),
    HttpBinding("POST", f"/v1/{{name={_JOB}}}:cancel", "Jobs.CancelJob"),
    HttpBinding("POST", f"/v1/{{name={_JOB}}}:report", "Jobs.ReportJob", "*"),
    HttpBinding("DELETE", f"/v1/{{name={_JOB}}}", "Jobs.DeleteJob"),
    HttpBinding(
        "POST", "/v1/{parent=projects/*}/schedules", "Schedules.CreateSchedule", "schedule"
    ),
    HttpBinding("GET", "/v1/{parent=projects/*}/schedules", "Schedules.ListSchedules"),
    HttpBinding("GET", f"/v1/{{name={_SCHEDULE}}}", "Schedules.GetSchedule"),
    HttpBinding(
        "PATCH",
        f"/v1/{{schedule.name={_SCHEDULE}}}",
        "Schedules.UpdateSchedule",
        "*",
        {"update_mask": STRING},
    ),
    HttpBinding("POST", f"/v1/{{name={_SCHEDULE}}}:pause", "Schedules.PauseSchedule", "*"),
    HttpBinding("POST", f"/v1/{{name={_SCHEDULE}}}:resume", "Schedules.ResumeSchedule", "*"),
    HttpBinding("POST", f"/v1/{{name={_SCHEDULE}}}:run", "Schedules.RunSchedule", "*"),
    HttpBinding("DELETE", f"/v1/{{name={_SCHEDULE}}}", "Schedules.DeleteSchedule"),
    HttpBinding("POST", "/v1/catalog:describeTopics", "Catalog.DescribeTopics", "*"),
    HttpBinding("POST", "/v1/catalog:describeSubscriptions", "Catalog.DescribeSubscriptions", "*"),
    HttpBinding("POST", "/v1/catalog:describeSchema", "Catalog.DescribeSchema", "*"),
    HttpBinding("GET", "/v1/lake", "Lake.GetLake"),
    HttpBinding("POST", "/v1/lake:acceptLoss", "Lake.AcceptLoss", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}:reopen", "Replay.Reopen", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}:redrive", "Replay.Redrive", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}:discard", "Replay.Discard", "*"),
    HttpBinding("GET", f"{_SUBSCRIPTION}/deadLetters", "Replay.ListDeadLetters"),
    HttpBinding("GET", f"{_SUBSCRIPTION}:peek", "Inspection.Peek"),
    HttpBinding("POST", f"{_SUBSCRIPTION}:purge", "Inspection.Purge", "*"),
    HttpBinding("GET", f"{_SUBSCRIPTION}/backlog", "Inspection.GetBacklog"),
    HttpBinding("GET", "/v1/{project=projects/*}/backlogs", "Inspection.ListBacklogs"),
    HttpBinding("GET", "/v1/messages/{message_id=*}:trace", "Inspection.Trace"),
    HttpBinding("GET", f"{_SUBSCRIPTION}/consumers", "Catalog.DescribeConsumers"),
    # The path form.
    HttpBinding("GET", f"{_SUBSCRIPTION}/peek", "Inspection.Peek"),
    HttpBinding("POST", f"{_SUBSCRIPTION}/purge", "Inspection.Purge", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}/reopen", "Replay.Reopen", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}/redrive", "Replay.Redrive", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}/discard", "Replay.Discard", "*"),
)


def routes() -> list[Route]:
    """The routes of the table."""
    return [google_json.route(binding) for binding in BINDINGS]
