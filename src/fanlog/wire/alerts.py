"""Alerts: protobuf to values and back."""

from __future__ import annotations

from typing import Final

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.alerts import CONDITION_NAMES, Alert, AlertView, Condition, check_condition
from fanlog.v1 import alerts_pb2 as pb
from fanlog.wire.fields import duration, seconds_of, timestamp

_OUTPUT: Final = frozenset(
    {
        *("create_time", "holding", "since_time"),
        *("messages", "last_message_id", "last_sentence", "last_error"),
    }
)


def alert_of(name: str, given: pb.Alert) -> Alert:
    """Read a rule that is to be made.

    Raises:
        InvalidArgument: Names the field, its value and what it may be.
        PermissionDenied: It is of the system project.
    """
    names.parse_alert(name)
    names.refuse_system(name, field="name")
    if given.name not in ("", name):
        raise InvalidArgument(f"alert.name: {names.shown(given.name)} is not {name!r}")
    for descriptor, _ in given.ListFields():
        if descriptor.name in _OUTPUT:
            raise InvalidArgument(f"alert.{descriptor.name}: is set by the server; leave it unset")
    minimum_s = limits.ALERT_MINIMUM_S
    if given.HasField("minimum_time"):
        minimum_s = seconds_of(given.minimum_time, "minimum_time")
    alert = Alert(
        name=name,
        condition=_condition(given),
        subscription=_subscription(name, given.subscription),
        limit=given.limit if given.HasField("limit") else None,
        clear=given.clear if given.HasField("clear") else None,
        minimum_s=minimum_s,
    )
    alert.check()
    return alert


def alert_pb(view: AlertView) -> pb.Alert:
    alert, state = view.alert, view.state
    shown = pb.Alert(
        name=alert.name,
        condition=alert.condition,
        subscription=alert.subscription,
        limit=alert.limit,
        clear=alert.clear,
        minimum_time=duration(alert.minimum_s),
        holding=state.is_holding,
        since_time=timestamp(state.since_s),
        messages=state.number,
        last_message_id=state.last_message_id,
        last_sentence=state.sentence,
        last_error=view.error,
    )
    if alert.created_s:
        shown.create_time.CopyFrom(timestamp(alert.created_s))
    return shown


def _condition(given: pb.Alert) -> Condition:
    if given.condition == pb.Alert.CONDITION_UNSPECIFIED:
        raise InvalidArgument(f"condition: one of {', '.join(CONDITION_NAMES)} is required")
    if given.condition not in pb.Alert.Condition.values():
        raise InvalidArgument(
            f"condition: {given.condition} is not one of {', '.join(CONDITION_NAMES)}"
        )
    return check_condition(pb.Alert.Condition.Name(given.condition))


def _subscription(name: str, given: str) -> str:
    if not given:
        return ""
    found = names.parse_subscription(given, field="subscription")
    if found.project != names.project_of(name):
        raise InvalidArgument(
            f"subscription: {names.shown(given)} is in another project than the alert, "
            f"{names.project_of(name)!r}"
        )
    return str(found)
