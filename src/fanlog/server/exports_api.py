"""fanlog.v1.Exports: what the pipeline asks of export subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from fanlog.broker.verbs.exports import Trouble
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import ExportState
from fanlog.server.calls import Unary, parsed
from fanlog.v1 import export_pb2
from fanlog.wire.exports import batch_pb

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker

EXPORTS = "fanlog.v1.Exports"

_REASON_LENGTH_MAX = 1_000


def methods(broker: Broker) -> dict[str, Unary]:
    api = ExportsApi(broker)
    return {
        "ListExports": parsed(export_pb2.ListExportsRequest, api.list_all),
        "GetBatch": parsed(export_pb2.GetBatchRequest, api.get_batch),
        "Advance": parsed(export_pb2.AdvanceRequest, api.advance),
        "ReportExport": parsed(export_pb2.ReportExportRequest, api.report),
    }


class ExportsApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list_all(self, _: Any) -> Any:
        return export_pb2.ListExportsResponse(
            log_id=self._broker.log_reads.log_id,
            exports=[
                export_pb2.Export(subscription=one.name, id=one.id)
                for one in await self._broker.exports.list_all()
            ],
        )

    async def get_batch(self, request: Any) -> Any:
        name = str(names.parse_subscription(request.subscription))
        subscription, progress = await self._broker.exports.batch(name)
        answer = export_pb2.GetBatchResponse(
            log_id=self._broker.log_reads.log_id, id=subscription.id, advanced=progress.advanced
        )
        if progress.offsets:
            catalog = self._broker.hard.catalog
            topics = {p: catalog.topic_name_of(p) or subscription.topic for p in progress.offsets}
            answer.batch.CopyFrom(batch_pb(progress, topics))
        return answer

    async def advance(self, request: Any) -> Any:
        name = str(names.parse_subscription(request.subscription))
        count = await self._broker.exports.advance(name, request.number)
        return export_pb2.AdvanceResponse(acknowledged=count)

    async def report(self, request: Any) -> Any:
        name = str(names.parse_subscription(request.subscription))
        if request.state not in get_args(ExportState):
            raise InvalidArgument(
                f"state: {names.shown(request.state)} is not one of "
                f"{', '.join(get_args(ExportState))}"
            )
        self._broker.exports.report(
            name, Trouble(request.state, request.reason[:_REASON_LENGTH_MAX])
        )
        return export_pb2.ReportExportResponse()
