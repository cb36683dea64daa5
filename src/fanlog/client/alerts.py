"""Alerts, `fanlog.v1.Alerts`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from fanlog.client.connection import Connection
from fanlog.v1 import alerts_pb2 as pb

_SERVICE: Final = "fanlog.v1.Alerts"


class AlertClient:
    """The alerts of one server; names are full, `projects/p/alerts/a`.

    Errors as of `Connection`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, alert: pb.Alert) -> pb.Alert:
        """Make a rule, by its full name."""
        parent, _, alert_id = alert.name.partition("/alerts/")
        request = pb.CreateAlertRequest(parent=parent, alert_id=alert_id, alert=alert)
        return self._connection.call(f"{_SERVICE}/CreateAlert", request, pb.Alert)

    def get(self, name: str) -> pb.Alert:
        return self._connection.call(
            f"{_SERVICE}/GetAlert", pb.GetAlertRequest(name=name), pb.Alert
        )

    def list_alerts(self, project: str) -> Iterator[pb.Alert]:
        """Yield every alert of `projects/p`."""
        request = pb.ListAlertsRequest(parent=project)
        method = f"{_SERVICE}/ListAlerts"
        for page in self._connection.pages(method, request, pb.ListAlertsResponse):
            yield from page.alerts

    def update(self, alert: pb.Alert, paths: Sequence[str]) -> pb.Alert:
        """Change the fields of a rule that are named."""
        request = pb.UpdateAlertRequest(alert=alert, update_mask=FieldMask(paths=paths))
        return self._connection.call(f"{_SERVICE}/UpdateAlert", request, pb.Alert)

    def delete(self, name: str) -> None:
        request = pb.DeleteAlertRequest(name=name)
        self._connection.call(f"{_SERVICE}/DeleteAlert", request, pb.DeleteAlertResponse)
