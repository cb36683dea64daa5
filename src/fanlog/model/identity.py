"""Callers and their credentials: principals, service accounts, keys, API tokens.

A principal has one of Google's forms: `serviceAccount:ADDRESS`, `user:ADDRESS`, `group:ADDRESS`.
The service accounts of this server have an address that contains the server's id, so that an
account of another server is never taken for one of ours. Of a key the public half is kept, of a
token a hash.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown

#: What the addresses of a server's own accounts end with, behind the server's id.
DOMAIN: Final = "fanlog.internal"
#: How an API token begins: so that scanners for leaked secrets find one.
TOKEN_PREFIX: Final = "flt_"
#: How an access token of this server's `/oauth2/token` begins.
ACCESS_PREFIX: Final = "fla_"

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller that was authenticated."""

    #: Such as `serviceAccount:ci@….fanlog.internal` or `user:ann@example.com`.
    member: str
    #: The groups that the issuer vouches for, such as `group:ops@example.com`.
    groups: frozenset[str] = frozenset()
    #: The id of the key or token, or how else the caller showed who it is; for the record.
    credential: str = ""
    #: When the credential ends, in seconds since 1970.
    expires_s: float = math.inf


#: How a credential stands that was believed before: still good; over, as short-lived tokens are
#: that their owner can make anew; or taken away, with its key or token revoked or expired.
Standing = Literal["good", "over", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """The public half of a service account's key."""

    id: str
    #: The public key in PEM.
    public: str
    created_s: float
    #: None for a key that does not end.
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A token of a service account: everything but the token itself."""

    id: str
    #: SHA-256 of the token, in hex.
    digest: str
    created_s: float
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """A program that may call, and its credentials."""

    id: int
    name: str
    #: NAME@SERVER-ID.fanlog.internal
    email: str
    created_s: float
    keys: tuple[AccountKey, ...] = ()
    tokens: tuple[ApiToken, ...] = ()

    @property
    def member(self) -> str:
        return f"serviceAccount:{self.email}"


def account_email(name: str, server_id: str) -> str:
    """The address of a server's own account."""
    return f"{name}@{server_id}.{DOMAIN}"


def check_account_name(name: str) -> str:
    """Raises InvalidArgument: Not a name that an account can have."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"account: {shown(name)} cannot be the name of one; 2 to 63 lower-case letters, "
            "digits and hyphens can, a letter first and no hyphen last"
        )
    return name


def token_digest(token: str) -> str:
    """The hash by which a token is kept and found. It has 256 bits of chance: no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()
