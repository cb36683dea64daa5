"""What a request is about, for the audit log: the name of a resource, and what is done to it.

Names of accounts and keys and of members of policies stand there, and nothing that is secret.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError, Message

#: Fields that name the resource of a request, the nearest first; of those that are messages, the
#: name in them counts.
_NAMES: Final = ("name", "topic", "subscription", "snapshot", "schedule", "account", "resource")
#: Fields that say where something is made or listed, and what.
_PLACES: Final = ("parent", "project")
_LISTS: Final = ("topics", "subscriptions")
_ACCOUNTS: Final = "fanlog.v1.Auth."
_CHARACTERS_MAX: Final = 1_024


def subject_of(method: str, request: type[Message], raw: bytes) -> tuple[str, str]:
    """The resource that a request names, and the detail of a change; empty for none."""
    try:
        message: Any = request.FromString(raw)
    except DecodeError:
        return "", ""
    return _resource(method, message)[:_CHARACTERS_MAX], _detail(message)[:_CHARACTERS_MAX]


def _resource(method: str, message: Any) -> str:
    fields = message.DESCRIPTOR.fields_by_name
    for field in _NAMES:
        name = _name_in(getattr(message, field)) if field in fields else ""
        if name:
            is_account = method.startswith(_ACCOUNTS) and field in ("name", "account")
            return f"accounts/{name}" if is_account else name
    for field in _PLACES:
        name = _name_in(getattr(message, field)) if field in fields else ""
        if name:
            made = getattr(message, "schema_id", "")
            return f"{name}/schemas/{made}" if made else name
    for field in _LISTS:
        if field in fields:
            return " ".join(getattr(message, field)[:10])
    return ""


def _name_in(value: Any) -> str:
    if isinstance(value, Message):
        value = getattr(value, "name", "")
    return value if isinstance(value, str) else ""


def _detail(message: Any) -> str:
    fields = message.DESCRIPTOR.fields_by_name
    for field, what in (("key_id", "key"), ("token_id", "token")):
        if field in fields:
            return f"{what} {getattr(message, field)}"
    if "policy" in fields:
        bindings = message.policy.bindings[:100]
        return "; ".join(f"{one.role}: {' '.join(one.members[:100])}" for one in bindings)
    return ""
