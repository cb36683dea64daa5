"""Records of identity: service accounts, policies of projects and of the server, roles, secrets."""

from __future__ import annotations

from dataclasses import dataclass, field

from fanlog.core.iam import Policy
from fanlog.core.records.codec import Form, Stored, digest_of, json_of, numbers, record
from fanlog.core.roles import CustomRole
from fanlog.model.identity import ServiceAccount

_HASHED_NAME = Form(digest_of, lambda digest: (digest,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePolicy:
    """The policy of a project, or of the server."""

    #: `projects/p`, or `server`.
    scope: str
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Bytes that only this server knows, in hex."""

    #: `ack-ids`, `access-tokens` or `push-oidc`.
    name: str
    #: Sealed, in the log of a server with a seal key.
    text: str = field(repr=False)
    #: The start of the broker at which it was made.
    boot: int


@record(
    "a",
    key=numbers(">Q"),
    value=json_of(ServiceAccount, always={ServiceAccount: ("keys", "tokens")}),
    key_of=lambda account: (account.id,),
)
@dataclass(frozen=True, slots=True)
class AccountRecord(Stored):
    id: int
    account: ServiceAccount | None


@record(
    "p",
    key=_HASHED_NAME,
    value=json_of(ScopePolicy, always={Policy: ("bindings",)}),
    key_of=lambda found: (found.scope,),
)
@dataclass(frozen=True, slots=True)
class ScopePolicyRecord(Stored):
    scope: str
    policy: ScopePolicy | None


@record("r", key=_HASHED_NAME, value=json_of(CustomRole), key_of=lambda role: (role.name,))
@dataclass(frozen=True, slots=True)
class RoleRecord(Stored):
    name: str
    role: CustomRole | None


@record("s", key=_HASHED_NAME, value=json_of(Secret), key_of=lambda secret: (secret.name,))
@dataclass(frozen=True, slots=True)
class SecretRecord(Stored):
    name: str
    secret: Secret | None


IdentityRecord = AccountRecord | ScopePolicyRecord | RoleRecord | SecretRecord
