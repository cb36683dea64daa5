"""fanlog.v1.Alerts, for any surface."""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.model.alerts import AlertView
from fanlog.server.methods import method
from fanlog.v1 import alerts_pb2 as pb
from fanlog.wire import paging
from fanlog.wire.alerts import alert_of, alert_pb, changes_of


async def create_alert(broker: Broker, request: pb.CreateAlertRequest) -> pb.Alert:
    project = names.parse_project(request.parent, field="parent")
    name = names.alert_name(project, request.alert_id)
    names.parse_alert(name, field="alert_id")
    return alert_pb(await broker.alerts.create(alert_of(name, request.alert)))


async def get_alert(broker: Broker, request: pb.GetAlertRequest) -> pb.Alert:
    return alert_pb(await broker.alerts.get(names.parse_alert(request.name)))


async def list_alerts(broker: Broker, request: pb.ListAlertsRequest) -> pb.ListAlertsResponse:
    project = names.parse_project(request.parent, field="parent")
    page = paging.read_page(f"alerts of {request.parent}", request)
    found = await broker.alerts.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, _name_of, alert_pb)
    return pb.ListAlertsResponse(alerts=shown, next_page_token=token)


async def update_alert(broker: Broker, request: pb.UpdateAlertRequest) -> pb.Alert:
    name = names.parse_alert(request.alert.name, field="alert.name")
    return alert_pb(await broker.alerts.update(name, changes_of(request)))


async def delete_alert(broker: Broker, request: pb.DeleteAlertRequest) -> pb.DeleteAlertResponse:
    await broker.alerts.delete(names.parse_alert(request.name))
    return pb.DeleteAlertResponse()


def _name_of(view: AlertView) -> str:
    return view.alert.name


METHODS = (
    method("CreateAlert", pb.CreateAlertRequest, pb.Alert, create_alert, "parent"),
    method("GetAlert", pb.GetAlertRequest, pb.Alert, get_alert),
    method("ListAlerts", pb.ListAlertsRequest, pb.ListAlertsResponse, list_alerts),
    method("UpdateAlert", pb.UpdateAlertRequest, pb.Alert, update_alert, "alert.name"),
    method("DeleteAlert", pb.DeleteAlertRequest, pb.DeleteAlertResponse, delete_alert, "name"),
)
