"""The system project: callers read there, and change nothing, through no method."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import Forbidden

from fanlog.client import CallFailed, Client
from fanlog.client.jobs import JobClient
from fanlog.model import jobs, names
from fanlog.server.services import METHODS, SERVICES
from server.rest.http import Http

#: Methods that change nothing outside their caller's own resources, or that a pipeline needs.
#: Publish is refused by name; Acknowledge, ModifyAckDeadline and the methods of jobs, exports,
#: sinks and the lake are how a pipeline does its work; the catalog is only read.
OTHERS = {
    "Publisher": {
        "Publish",
        "GetTopic",
        "ListTopics",
        "ListTopicSubscriptions",
        "ListTopicSnapshots",
    },
    "Subscriber": {
        "GetSubscription",
        "ListSubscriptions",
        "ModifyAckDeadline",
        "Acknowledge",
        "Pull",
        "GetSnapshot",
        "ListSnapshots",
    },
    "SchemaService": {
        "GetSchema",
        "ListSchemas",
        "ListSchemaRevisions",
        "ValidateSchema",
        "ValidateMessage",
    },
    "IAMPolicy": {"GetIamPolicy", "TestIamPermissions"},
    "Replay": {"ListDeadLetters", "CountDeadLetters"},
    "Alerts": {"GetAlert", "ListAlerts"},
    "Schedules": {"GetSchedule", "ListSchedules"},
    "Inspection": {"Peek", "GetBacklog", "ListBacklogs", "Trace", "GetDelivery", "Estimate"},
    # A report is soft state, of the server and of no project.
    "Pipelines": {"ListPipelines", "ReportPipeline"},
    "Browse": {"Messages", "ParseFilter", "TryFilter"},
    "Overview": {"ListProblems", "SearchTopics", "SearchSubscriptions", "GetServer"},
}
OWN = {"Jobs", "Log", "Lake", "Sink", "Exports", "Catalog", "Auth", "Cluster"}
TOPIC = jobs.TOPIC
CHANGES = {name: method for name, method in METHODS.items() if method.changes}


@pytest.fixture
def server(start_server):
    server = start_server("memory")
    with Client(server.endpoint) as client:
        JobClient(client).create("projects/test", "expire", {})
    return server


def test_every_method_is_listed(server):
    """A new method says whether it changes something, or this fails."""
    for service in SERVICES:
        short = service.short_name
        if short in OWN:
            continue
        listed = {name.partition(".")[2] for name in CHANGES if name.startswith(f"{short}.")}
        assert listed | OTHERS[short] == {method.name for method in service.methods}, short
        assert not listed & OTHERS[short]


def _message(request_type, path, value):
    request = request_type()
    part = request
    *heads, last = path.split(".")
    for head in heads:
        part = getattr(part, head)
    setattr(part, last, value)
    return request


@pytest.mark.parametrize(
    ("method", "path"),
    [(name, path) for name, method in CHANGES.items() for path in method.changes],
)
def test_every_change_is_refused(server, method, path):
    service, name = method.split(".")
    [full] = [one.name for one in SERVICES if one.short_name == service]
    value = "topic:" + TOPIC if path.endswith("push_endpoint") else TOPIC
    request = _message(CHANGES[method].request, path, value)
    with Client(server.endpoint) as client, pytest.raises(CallFailed) as refused:
        client.call(f"{full}/{name}", request, type(request))
    assert refused.value.status == "PERMISSION_DENIED"
    assert path in str(refused.value)


def test_publishing_there_is_refused_on_every_surface(server):
    with pytest.raises(Forbidden, match="fanlog-system"):
        server.publish(TOPIC, b"not json")
    http = Http(server)
    body = {"messages": [{"data": "eA=="}]}
    assert "fanlog-system" in http.refused(403, "POST", f"/v1/{TOPIC}:publish", body)
    event = {"specversion": "1.0", "id": "1", "source": "/x", "type": "jobs"}
    headers = {"content-type": "application/cloudevents+json"}
    said = http.refused(403, "POST", "/v1/projects/fanlog-system/events", event, headers=headers)
    assert "fanlog-system" in said
    http.close()


def test_names_that_only_look_alike_are_free(server):
    names.refuse_system("projects/fanlog-systems/topics/x")
    names.refuse_system("projects/fanlog-system-2/topics/x")


def test_reading_goes_on(server):
    assert server.publisher.get_topic(request={"topic": TOPIC}).name == TOPIC
    [job] = server.pull(jobs.SUBSCRIPTION)
    server.ack(jobs.SUBSCRIPTION, [job])
