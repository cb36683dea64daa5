"""Pipelines tell the server of themselves, and everybody who may can see them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from commands import invoke
from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.model.pipelines import FlowReport, PipelineReport
from fanlog.pipeline.heartbeat import Heartbeat
from fanlog.v1 import pipelines_pb2 as pb
from fanlog.wire.pipelines import report_pb

FLOW = FlowReport(
    name="archive", state="RESTING", started_s=5.0, batch=7, batch_s=6.0, failures=2,
    failed_s=8.5, error="the lake is read-only",
)  # fmt: skip
REPORT = PipelineReport(
    name="host-1", version="1", spark_version="4.0.1", master="local[2]", parallelism=2,
    started_s=4.0, flows=(FLOW,), job="projects/p/jobs/j",
)  # fmt: skip


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def client(server):
    with Client(server.endpoint) as client:
        yield client


def shown(client: Client) -> list[pb.Pipeline]:
    request = pb.ListPipelinesRequest()
    return list(
        client.call(
            "fanlog.v1.Pipelines/ListPipelines", request, pb.ListPipelinesResponse
        ).pipelines
    )


def report(client: Client, pipeline: pb.Pipeline, **more: Any) -> pb.ReportPipelineResponse:
    return client.call(
        "fanlog.v1.Pipelines/ReportPipeline",
        pb.ReportPipelineRequest(pipeline=pipeline, **more),
        pb.ReportPipelineResponse,
    )


def test_a_report_is_shown_as_it_was_told(server, client):
    assert shown(client) == []
    assert report(client, report_pb(REPORT)).again.ToSeconds() == limits.PIPELINE_REPORT_S
    [found] = shown(client)
    assert found.silent.ToSeconds() < limits.PIPELINE_MISSED_S
    assert not found.missed
    found.ClearField("silent")
    assert found == report_pb(REPORT)
    with urllib.request.urlopen(server.http("/v1/pipelines"), timeout=10) as answer:
        [row] = json.load(answer)["pipelines"]
    assert row["flows"][0]["error"] == "the lake is read-only"
    told = invoke(["job", "workers", "--endpoint", server.endpoint]).output
    assert "4.0.1 on local[2]" in told
    assert "the lake is read-only" in told


def test_a_pipeline_that_leaves_is_forgotten_at_once(client):
    beat = Heartbeat(lambda: client, lambda: REPORT)
    beat.tell(client)
    assert [one.name for one in shown(client)] == ["host-1"]
    beat.tell(client, leaving=True)
    assert shown(client) == []


def test_a_pipeline_that_is_silent_is_missed_and_then_forgotten(still_server):
    server = still_server
    with Client(server.endpoint) as client:
        report(client, report_pb(REPORT))
        server.advance(limits.PIPELINE_MISSED_S + 1)
        [found] = shown(client)
        assert found.missed
        server.advance(limits.PIPELINE_KEPT_S)
        assert shown(client) == []


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (pb.Pipeline(), "pipeline.name: is required"),
        (pb.Pipeline(name="a", missed=True), "set by the server"),
        (pb.Pipeline(name="a" * 9999), "more than"),
        (pb.Pipeline(name="a", flows=[pb.PipelineFlow(name="f")]), "pipeline.flows.state"),
        (pb.Pipeline(name="a", flows=[pb.PipelineFlow(state="RUNNING")]), "pipeline.flows.name"),
        (pb.Pipeline(name="a", flows=[pb.PipelineFlow()] * 51), "at most 50"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused(client, pipeline, words):
    with pytest.raises(CallFailed, match=words) as refused:
        report(client, pipeline)
    assert refused.value.status == "INVALID_ARGUMENT"


def test_there_are_no_more_than_may_be(client):
    for number in range(limits.PIPELINES_MAX):
        report(client, pb.Pipeline(name=f"p{number}"))
    with pytest.raises(CallFailed, match="as many as may be"):
        report(client, pb.Pipeline(name="one more"))
    # One that is known goes on.
    report(client, pb.Pipeline(name="p0"))
