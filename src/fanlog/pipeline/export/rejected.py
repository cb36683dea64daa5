"""The messages that exports rejected: to look at, and to redrive once the cause is gone.

A rejected message is acknowledged. To redrive it is to reopen it on the export subscription, and to
take its row out of the table; if it is rejected again there will be another row. Needs the extra
`lake`, and a lake that can be reached from here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64

from fanlog.client.client import Client
from fanlog.client.exports import ExportClient
from fanlog.client.log import LogClient
from fanlog.client.reopening import ReopenClient
from fanlog.errors import FailedPrecondition
from fanlog.lake.location import Location
from fanlog.model import exports, names
from fanlog.pipeline.export.rejected_table import RejectedRows
from fanlog.v1 import log_pb2, replay_pb2
from fanlog.wire import types


@dataclass(frozen=True, slots=True)
class Redriven:
    """The result of a redrive."""

    #: Rows taken out of the table.
    rows: int
    #: Messages that will be exported again; fewer where some are gone.
    reopened: int


class Rejected:
    """The rejected messages of one export subscription.

    Raises:
        FailedPrecondition: The subscription is no export, or the broker has no lake.
    """

    def __init__(self, client: Client, subscription: str) -> None:
        self._client = client
        self._subscription = subscription
        name = _name(client.get_subscription(subscription))
        selection = log_pb2.TopicSelection(subscription=subscription)
        answer = LogClient(client).get_offsets(selection)
        if not answer.lake_uri:
            raise FailedPrecondition(
                f"the broker at {client.endpoint} has no lake, and so no exports"
            )
        self._rows = RejectedRows(Location.parse(answer.lake_uri), name, subscription)

    def rows(self, reason: str = "") -> pa.Table:
        """The rows, oldest first; with a `reason`, those that have this text in theirs."""
        return self._rows.rows(reason)

    def redrive(self, reason: str = "") -> Redriven:
        """Have messages exported again; done again after a failure, it does nothing twice."""
        answer = ExportClient(self._client).get_batch(self._subscription)
        # Messages that are not acknowledged yet could not be reopened.
        rows = reopened = 0
        for number, sets in self._rows.offsets(reason, to_batch=answer.advanced):
            rows += sum(map(len, sets.values()))
            reopened += self._reopen(sets, f"rejected/{number}/{reason}")
        if rows:
            self._rows.forget(reason, to_batch=answer.advanced)
        return Redriven(rows, reopened)

    def _reopen(self, sets: dict[int, BitMap64], request_id: str) -> int:
        offsets = [
            replay_pb2.OffsetSet(partition=partition, bitmap=bits.serialize())
            for partition, bits in sets.items()
        ]
        answer = ReopenClient(self._client).reopen(
            self._subscription, offsets=offsets, request_id=request_id
        )
        return answer.reopened


def _name(subscription: types.Subscription) -> str:
    """The name that the table of an export's rejected messages is called after."""
    if subscription.bigquery_config.table:
        return subscription.bigquery_config.table
    if subscription.cloud_storage_config.bucket:
        name = names.parse_subscription(subscription.name)
        return f"{name.project}.{name.id}"
    raise FailedPrecondition(
        f"subscription {subscription.name!r} has neither {exports.TABLE_FIELD} nor "
        f"{exports.FILES_FIELD}; there is nothing it could have rejected"
    )
