"""Alerts: protobuf to values and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.alerts import CONDITION_NAMES, Alert, AlertView, Condition, check_condition
from fanlog.v1 import alerts_pb2 as pb
from fanlog.wire.fields import duration, mask_paths, seconds_of, timestamp

_OUTPUT: Final = frozenset(
    {
        *("create_time", "holding", "since_time"),
        *("messages", "last_message_id", "last_sentence", "last_error"),
    }
)


def _minimum_s(given: pb.Alert) -> float:
    if not given.HasField("minimum_time"):
        return limits.ALERT_MINIMUM_S
    return seconds_of(given.minimum_time, "minimum_time")


#: By the field of the API that may be changed: the rule's own, and its value.
_CHANGES: Final[dict[str, tuple[str, Callable[[pb.Alert], Any]]]] = {
    "limit": ("limit", lambda one: one.limit if one.HasField("limit") else None),
    "clear": ("clear", lambda one: one.clear if one.HasField("clear") else None),
    "minimum_time": ("minimum_s", _minimum_s),
}
_SERVER: Final = "is set by the server"
_FIXED: Final = "stays as it is; make another alert"
_IMMUTABLE: Final = dict.fromkeys(_OUTPUT, _SERVER) | dict.fromkeys(
    ("name", "condition", "subscription"), _FIXED
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
    alert = Alert(
        name=name,
        condition=_condition(given),
        subscription=_subscription(name, given.subscription),
        **{field: read(given) for field, read in _CHANGES.values()},
    )
    alert.check()
    return alert


def changes_of(request: pb.UpdateAlertRequest) -> dict[str, Any]:
    """The fields that an update changes, with their new values.

    Raises:
        InvalidArgument: The mask is empty or names what cannot be changed, or a value is wrong.
    """
    paths = mask_paths(request.update_mask, _CHANGES, _IMMUTABLE, request.alert)
    return {_CHANGES[path][0]: _CHANGES[path][1](request.alert) for path in paths}


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
