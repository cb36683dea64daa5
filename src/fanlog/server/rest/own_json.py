"""The verbs of `fanlog.v1` over HTTP, written as Google's are: one table."""

from __future__ import annotations

from fanlog.server.rest import google_json
from fanlog.server.rest.google_json import Binding
from fanlog.server.rest.route import Route

_JOB = "projects/*/jobs/*"
_SUBSCRIPTION = "/v1/{subscription=projects/*/subscriptions/*}"

BINDINGS = (
    Binding("POST", "/v1/{parent=projects/*}/jobs", "Jobs.CreateJob", "*"),
    Binding("GET", "/v1/{parent=projects/*}/jobs", "Jobs.ListJobs"),
    Binding("GET", f"/v1/{{name={_JOB}}}", "Jobs.GetJob"),
    Binding("POST", f"/v1/{{name={_JOB}}}:cancel", "Jobs.CancelJob"),
    Binding("POST", f"/v1/{{name={_JOB}}}:report", "Jobs.ReportJob", "*"),
    Binding("DELETE", f"/v1/{{name={_JOB}}}", "Jobs.DeleteJob"),
    Binding("POST", "/v1/catalog:describeTopics", "Catalog.DescribeTopics", "*"),
    Binding("POST", "/v1/catalog:describeSubscriptions", "Catalog.DescribeSubscriptions", "*"),
    Binding("POST", "/v1/catalog:describeSchema", "Catalog.DescribeSchema", "*"),
    Binding("GET", "/v1/lake", "Lake.GetLake"),
    Binding("POST", "/v1/lake:acceptLoss", "Lake.AcceptLoss", "*"),
    Binding("POST", f"{_SUBSCRIPTION}:reopen", "Replay.Reopen", "*"),
    Binding("POST", f"{_SUBSCRIPTION}:redrive", "Replay.Redrive", "*"),
    Binding("POST", f"{_SUBSCRIPTION}:discard", "Replay.Discard", "*"),
    Binding("GET", f"{_SUBSCRIPTION}/deadLetters", "Replay.ListDeadLetters"),
    # The path form.
    Binding("POST", f"{_SUBSCRIPTION}/reopen", "Replay.Reopen", "*"),
    Binding("POST", f"{_SUBSCRIPTION}/redrive", "Replay.Redrive", "*"),
    Binding("POST", f"{_SUBSCRIPTION}/discard", "Replay.Discard", "*"),
)


def routes() -> list[Route]:
    """The routes of the table."""
    return [google_json.route(binding) for binding in BINDINGS]
