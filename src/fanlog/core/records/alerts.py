"""The records of an alert: its rule, and whether that holds."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.core.records.codec import Form, Stored, digest_of, json_of, record
from fanlog.model.alerts import Alert, AlertState

#: As with jobs: a name may be longer than a key.
_HASHED_NAME = Form(digest_of, lambda digest: (digest,))


@record("e", key=_HASHED_NAME, value=json_of(Alert), key_of=lambda found: (found.name,))
@dataclass(frozen=True, slots=True)
class AlertRecord(Stored):
    name: str
    alert: Alert | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The state of the rule of that name."""

    name: str
    state: AlertState


@record("h", key=_HASHED_NAME, value=json_of(StoredState), key_of=lambda found: (found.name,))
@dataclass(frozen=True, slots=True)
class AlertStateRecord(Stored):
    name: str
    stored: StoredState | None


def state_record(name: str, state: AlertState) -> AlertStateRecord:
    return AlertStateRecord(name, StoredState(name=name, state=state))


AnyAlertRecord = AlertRecord | AlertStateRecord
