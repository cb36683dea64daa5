"""Alerts of a resources file: read from it, made when they are missing.

    [alerts.billing-behind]
    condition = "BACKLOG_AGE"
    subscription = "billing"
    limit = 600
    clear = 60
    minimum_time = "120s"

The fields are those of the API's JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from google.protobuf import json_format

from fanlog.broker.broker import Broker
from fanlog.model.alerts import Alert
from fanlog.v1 import alerts_pb2
from fanlog.wire.alerts import alert_of


def read_alert(name: str, value: Mapping[str, object], subscription: str) -> Alert:
    """Read one alert, of that full name; the subscription has its full name, or is empty.

    Raises:
        InvalidArgument: Names the field and the mistake in it.
        ParseError: A field that does not exist, or a value of another kind.
    """
    fields = dict(value)
    if subscription:
        fields["subscription"] = subscription
    given = alerts_pb2.Alert()
    json_format.ParseDict(fields, given)
    return alert_of(name, given)


def find_alert(broker: Broker, wanted: Alert) -> Alert | None:
    """The alert of that name as it is, but for what no file says; None if there is none."""
    present = broker.hard.alerts.find(wanted.name)
    return present and replace(present, created_s=wanted.created_s)
