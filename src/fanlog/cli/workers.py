"""`fanlog job workers`: the pipelines that work for a server."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog.cli import options
from fanlog.cli.output import Output, note, resource
from fanlog.v1 import pipelines_pb2 as pb


def workers(endpoint: options.Endpoint = None, json: options.AsJson = False) -> None:
    """Show the pipelines that work for the server: their Spark, their flows and what failed."""
    with options.connect(endpoint) as client:
        found = client.call(
            "fanlog.v1.Pipelines/ListPipelines",
            pb.ListPipelinesRequest(),
            pb.ListPipelinesResponse,
        )
    output = Output(is_json=json)
    for one in found.pipelines:
        if json:
            output.line(resource(one))
            continue
        heard = f"heard of {one.silent.ToMilliseconds() / 1e3:.0f} s ago"
        output.fields(
            {
                "pipeline": one.name,
                "state": f"missed, {heard}" if one.missed else heard,
                "spark": f"{one.spark_version} on {one.master}, {one.parallelism} tasks at a time",
                "job": one.job or "none",
            }
        )
        rows = list(_rows(one))
        if rows:
            output.rows(list(rows[0]), rows)
    if not found.pipelines:
        note("no pipeline was heard of in the last ten minutes; `fanlog pipeline` starts one")


def _rows(one: pb.Pipeline) -> Iterator[dict[str, object]]:
    for flow in one.flows:
        yield {
            "flow": flow.name,
            "state": pb.PipelineFlow.State.Name(flow.state).lower(),
            "batch": flow.batch if flow.HasField("batch") else "",
            "failures": flow.failures,
            "last error": flow.error,
        }
