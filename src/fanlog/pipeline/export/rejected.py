"""What exports rejected: looked at, and given back to the export once the cause is gone.

A rejected message is acknowledged. To redrive it is to reopen it on the export subscription, and to
take its row out of the table; if it is rejected again there will be another row. Needs the extra
`lake`, and a lake that can be reached from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanlog.errors import FailedPrecondition
from fanlog.model import exports, names
from fanlog.v1 import export_pb2, log_pb2, replay_pb2

if TYPE_CHECKING:
    from fanlog.client.client import Client


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of a redrive."""

    #: Rows taken out of the table.
    rows: int
    #: Messages that will be exported again; fewer where some are gone.
    reopened: int


class Rejected:
    """What one export subscription rejected.

    Raises:
        FailedPrecondition: The subscription is no export, or the broker has no lake.
        ImportError: The extra `lake` is not installed.
    """

    def __init__(self, client: Client, subscription: str) -> None:
        from fanlog.lake.location import Location
        from fanlog.pipeline.export.redrive import RejectedRows

        self._client = client
        self._subscription = subscription
        name = _name(client.get_subscription(subscription))
        request = log_pb2.GetOffsetsRequest(
            selection=log_pb2.TopicSelection(subscription=subscription)
        )
        answer = client.call("fanlog.v1.Log/GetOffsets", request, log_pb2.GetOffsetsResponse)
        if not answer.lake_uri:
            raise FailedPrecondition(
                f"the broker at {client.endpoint} has no lake, and so no exports"
            )
        self._rows = RejectedRows(Location.parse(answer.lake_uri), name, subscription)

    def rows(self, reason: str = "") -> Any:
        """The rows as an Arrow table, oldest first; of those reasons that have a word in them."""
        return self._rows.rows(reason)

    def redrive(self, reason: str = "") -> Redriven:
        """Have messages exported again; done again after a failure, it does nothing twice."""
        request = export_pb2.GetBatchRequest(subscription=self._subscription)
        answer = self._client.call(
            "fanlog.v1.Exports/GetBatch", request, export_pb2.GetBatchResponse
        )
        # What is not acknowledged yet could not be reopened.
        rows = reopened = 0
        for number, sets in self._rows.offsets(reason, to_batch=answer.advanced):
            rows += sum(map(len, sets.values()))
            reopened += self._reopen(sets, f"rejected/{number}/{reason}")
        if rows:
            self._rows.forget(reason, to_batch=answer.advanced)
        return Redriven(rows, reopened)

    def _reopen(self, sets: dict[int, Any], request_id: str) -> int:
        request = replay_pb2.ReopenRequest(
            subscription=self._subscription,
            offsets=[
                replay_pb2.OffsetSet(partition=partition, bitmap=bits.serialize())
                for partition, bits in sets.items()
            ],
            request_id=request_id,
        )
        answer = self._client.call("fanlog.v1.Replay/Reopen", request, replay_pb2.ReopenResponse)
        return int(answer.reopened)


def _name(subscription: Any) -> str:
    """What the table of an export's rejected messages is called after."""
    if subscription.bigquery_config.table:
        return str(subscription.bigquery_config.table)
    if subscription.cloud_storage_config.bucket:
        name = names.parse_subscription(subscription.name)
        return f"{name.project}.{name.id}"
    raise FailedPrecondition(
        f"subscription {subscription.name!r} has neither {exports.TABLE_FIELD} nor "
        f"{exports.FILES_FIELD}; there is nothing it could have rejected"
    )
