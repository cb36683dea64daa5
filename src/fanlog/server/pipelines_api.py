"""fanlog.v1.Pipelines, for any surface."""

from __future__ import annotations

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.server.methods import method
from fanlog.v1 import pipelines_pb2 as pb
from fanlog.wire.fields import duration
from fanlog.wire.pipelines import pipeline_pb, report_of


async def list_pipelines(broker: Broker, _: pb.ListPipelinesRequest) -> pb.ListPipelinesResponse:
    return pb.ListPipelinesResponse(pipelines=map(pipeline_pb, await broker.pipelines.list_all()))


async def report_pipeline(
    broker: Broker, request: pb.ReportPipelineRequest
) -> pb.ReportPipelineResponse:
    await broker.pipelines.report(report_of(request.pipeline), is_leaving=request.leaving)
    return pb.ReportPipelineResponse(again=duration(limits.PIPELINE_REPORT_S))


METHODS = (
    method(
        "ListPipelines",
        pb.ListPipelinesRequest,
        pb.ListPipelinesResponse,
        list_pipelines,
    ),
    method("ReportPipeline", pb.ReportPipelineRequest, pb.ReportPipelineResponse, report_pipeline),
)
