"""The exports' service, `fanlog.v1.Exports`, over a `Connection`: batches and how they went."""

from __future__ import annotations

from typing import Final

from fanlog.client.connection import Connection
from fanlog.v1 import export_pb2

_SERVICE: Final = "fanlog.v1.Exports"


class ExportClient:
    """The export subscriptions of one broker, for a pipeline. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_subscriptions(self) -> list[str]:
        """Full names of all export subscriptions."""
        answer = self._connection.call(
            f"{_SERVICE}/ListExports",
            export_pb2.ListExportsRequest(),
            export_pb2.ListExportsResponse,
        )
        return [one.subscription for one in answer.exports]

    def get_batch(self, subscription: str) -> export_pb2.GetBatchResponse:
        """The batch to write next, the same until it is advanced past; or none."""
        request = export_pb2.GetBatchRequest(subscription=subscription)
        return self._connection.call(f"{_SERVICE}/GetBatch", request, export_pb2.GetBatchResponse)

    def advance(self, subscription: str, number: int) -> int:
        """Say that a batch is written and durable; gives how many messages are acknowledged."""
        request = export_pb2.AdvanceRequest(subscription=subscription, number=number)
        answer = self._connection.call(f"{_SERVICE}/Advance", request, export_pb2.AdvanceResponse)
        return answer.acknowledged

    def report(self, subscription: str, state: str, reason: str) -> None:
        """Say why an export does not go on."""
        request = export_pb2.ReportExportRequest(
            subscription=subscription, state=state, reason=reason
        )
        self._connection.call(f"{_SERVICE}/ReportExport", request, export_pb2.ReportExportResponse)
