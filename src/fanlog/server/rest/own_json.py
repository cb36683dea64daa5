"""The verbs of `fanlog.v1` over HTTP, written as Google's are: one table."""

from __future__ import annotations

from fanlog.server.rest import google_json
from fanlog.server.rest.binding import HttpBinding
from fanlog.server.rest.json_schema import STRING
from fanlog.server.rest.route import Route

_JOB = "projects/*/jobs/*"
_ALERT = "projects/*/alerts/*"
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
    HttpBinding("POST", "/v1/{parent=projects/*}/alerts", "Alerts.CreateAlert", "alert"),
    HttpBinding("GET", "/v1/{parent=projects/*}/alerts", "Alerts.ListAlerts"),
    HttpBinding("GET", f"/v1/{{name={_ALERT}}}", "Alerts.GetAlert"),
    HttpBinding(
        "PATCH", f"/v1/{{alert.name={_ALERT}}}", "Alerts.UpdateAlert", "*", {"update_mask": STRING}
    ),
    HttpBinding("DELETE", f"/v1/{{name={_ALERT}}}", "Alerts.DeleteAlert"),
    HttpBinding("POST", "/v1/catalog:describeTopics", "Catalog.DescribeTopics", "*"),
    HttpBinding("POST", "/v1/catalog:describeSubscriptions", "Catalog.DescribeSubscriptions", "*"),
    HttpBinding("POST", "/v1/catalog:describeSchema", "Catalog.DescribeSchema", "*"),
    HttpBinding("GET", "/v1/cluster", "Cluster.DescribeCluster"),
    HttpBinding("POST", "/v1/cluster:move", "Cluster.MoveCluster", "*"),
    HttpBinding("GET", "/v1/lake", "Lake.GetLake"),
    HttpBinding("GET", "/v1/lake/tables", "Lake.ListTables"),
    HttpBinding("GET", "/v1/pipelines", "Pipelines.ListPipelines"),
    HttpBinding("POST", "/v1/pipelines:report", "Pipelines.ReportPipeline", "*"),
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
    HttpBinding("GET", f"{_SUBSCRIPTION}/delivery", "Inspection.GetDelivery"),
    HttpBinding("POST", "/v1/acts:estimate", "Inspection.Estimate", "*"),
    HttpBinding("GET", f"{_SUBSCRIPTION}/deadLetters:count", "Replay.CountDeadLetters"),
    HttpBinding("POST", "/v1/messages:browse", "Browse.Messages", "*"),
    HttpBinding("GET", "/v1/{topic=projects/*/topics/*}/messages", "Browse.Messages"),
    HttpBinding("POST", "/v1/filters:parse", "Browse.ParseFilter", "*"),
    HttpBinding("POST", "/v1/filters:try", "Browse.TryFilter", "*"),
    HttpBinding("GET", "/v1/server", "Overview.GetServer"),
    HttpBinding("GET", "/v1/problems", "Overview.ListProblems"),
    HttpBinding("GET", "/v1/{project=projects/*}/topics:search", "Overview.SearchTopics"),
    HttpBinding(
        "GET", "/v1/{project=projects/*}/subscriptions:search", "Overview.SearchSubscriptions"
    ),
    HttpBinding("GET", "/v1/whoami", "Auth.WhoAmI"),
    HttpBinding("POST", "/v1/access:check", "Auth.CheckAccess", "*"),
    HttpBinding("GET", "/v1/roles", "Auth.ListRoles"),
    HttpBinding("GET", "/v1/accounts", "Auth.ListAccounts"),
    HttpBinding("POST", "/v1/accounts", "Auth.CreateAccount", "*"),
    HttpBinding("GET", "/v1/accounts/{name=*}", "Auth.GetAccount"),
    HttpBinding("DELETE", "/v1/accounts/{name=*}", "Auth.DeleteAccount"),
    HttpBinding("POST", "/v1/accounts/{account=*}:addKey", "Auth.AddKey", "*"),
    HttpBinding("POST", "/v1/accounts/{account=*}:revokeKey", "Auth.RevokeKey", "*"),
    HttpBinding("POST", "/v1/accounts/{account=*}:createToken", "Auth.CreateToken", "*"),
    HttpBinding("POST", "/v1/accounts/{account=*}:revokeToken", "Auth.RevokeToken", "*"),
    HttpBinding("GET", "/v1/policies", "Auth.GetPolicy"),
    HttpBinding("PUT", "/v1/policies", "Auth.SetPolicy", "*"),
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
