"""fanlog.v1.Exports, for any surface: the pipeline's side of export subscriptions."""

from __future__ import annotations

from typing import get_args

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.exports import Trouble
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import ExportState
from fanlog.server.methods import method
from fanlog.v1 import export_pb2 as pb
from fanlog.wire.exports import batch_pb

_REASON_LENGTH_MAX = 1_000
_STATES: dict[str, ExportState] = {state: state for state in get_args(ExportState)}


async def list_exports(broker: Broker, _: pb.ListExportsRequest) -> pb.ListExportsResponse:
    return pb.ListExportsResponse(
        log_id=broker.log_reads.log_id,
        exports=[
            pb.Export(subscription=one.name, id=one.id) for one in await broker.exports.list_all()
        ],
    )


async def get_batch(broker: Broker, request: pb.GetBatchRequest) -> pb.GetBatchResponse:
    name = str(names.parse_subscription(request.subscription))
    subscription, progress = await broker.exports.batch(name)
    answer = pb.GetBatchResponse(
        log_id=broker.log_reads.log_id, id=subscription.id, advanced=progress.advanced
    )
    if progress.offsets:
        catalog = broker.hard.catalog
        topics = {p: catalog.topic_name_of(p) or subscription.topic for p in progress.offsets}
        answer.batch.CopyFrom(batch_pb(progress, topics))
    return answer


async def advance(broker: Broker, request: pb.AdvanceRequest) -> pb.AdvanceResponse:
    name = str(names.parse_subscription(request.subscription))
    count = await broker.exports.advance(name, request.number)
    return pb.AdvanceResponse(acknowledged=count)


async def report_export(broker: Broker, request: pb.ReportExportRequest) -> pb.ReportExportResponse:
    name = str(names.parse_subscription(request.subscription))
    state = _STATES.get(request.state)
    if state is None:
        raise InvalidArgument(
            f"state: {names.shown(request.state)} is not one of {', '.join(_STATES)}"
        )
    broker.exports.report(name, Trouble(state, request.reason[:_REASON_LENGTH_MAX]))
    return pb.ReportExportResponse()


METHODS = (
    method("ListExports", pb.ListExportsRequest, pb.ListExportsResponse, list_exports),
    method("GetBatch", pb.GetBatchRequest, pb.GetBatchResponse, get_batch),
    method("Advance", pb.AdvanceRequest, pb.AdvanceResponse, advance),
    method("ReportExport", pb.ReportExportRequest, pb.ReportExportResponse, report_export),
)
