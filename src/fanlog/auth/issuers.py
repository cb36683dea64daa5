"""Issuers of tokens that are not ours: whom to believe, and which principal a token names.

Kubernetes, Keycloak, GitHub Actions, Google: each is a table in the settings. An issuer vouches for
the callers that it names and for nobody else: it can name no account of this server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import quote, urlsplit

from fanlog.auth.disbelief import NotBelieved
from fanlog.auth.signed_token import ALGORITHMS, SignedToken
from fanlog.core.iam import is_member
from fanlog.model.identity import DOMAIN, Principal

#: How a claim is made a member of policies: an address of a person or of a program, a Kubernetes
#: account of a pool, or any subject of the issuer.
Kind = Literal["user", "serviceAccount", "kubernetes", "principal"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_KUBERNETES: Final = "system:serviceaccount:"
_GROUPS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """One issuer whose tokens are believed."""

    #: The claim `iss`, an https address.
    issuer: str
    #: A token must be for one of these.
    audiences: tuple[str, ...]
    #: Where its keys are: an address, a file, or neither for what its discovery page says.
    jwks_url: str = ""
    jwks_file: Path | None = None
    #: The authority of the server that has them, in PEM; None for those that the system trusts.
    ca_file: Path | None = None
    kind: Kind = "user"
    #: The claim that names the caller; one that is `email` must be verified.
    principal_claim: str = "email"
    #: The claim that lists its groups; empty for none.
    groups_claim: str = ""
    #: Of the accounts of Kubernetes: POOL[namespace/account].
    pool: str = ""
    #: Behind names that are no address; empty for the host of the issuer, without a port.
    domain: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256")

    @property
    def host(self) -> str:
        return self.domain or urlsplit(self.issuer).hostname or self.issuer

    @property
    def names_by_host(self) -> bool:
        """Whether a principal or a group may get the host into its name."""
        if self.kind == "kubernetes":
            return bool(self.groups_claim)
        return (
            self.kind == "principal" or self.principal_claim != "email" or bool(self.groups_claim)
        )

    def principal(self, token: SignedToken, expires_s: float) -> Principal:
        """The caller that a verified token names; raises NotBelieved."""
        if self.audiences and not token.audiences() & set(self.audiences):
            raise NotBelieved("the token is for another audience")
        member = self._member(token)
        if not is_member(member) or member.endswith(f".{DOMAIN}"):
            raise NotBelieved("the token's name is none of a principal that the issuer may name")
        return Principal(
            member=member,
            groups=self._groups(token),
            credential=f"issuer {self.issuer}",
            expires_s=expires_s,
        )

    def _member(self, token: SignedToken) -> str:
        name = token.text_claim(self.principal_claim)
        match self.kind:
            case "kubernetes":
                parts = name.removeprefix(_KUBERNETES).split(":")
                if not name.startswith(_KUBERNETES) or len(parts) != 2:
                    raise NotBelieved("the token is of no account of Kubernetes")
                return f"serviceAccount:{self.pool}[{parts[0]}/{parts[1]}]"
            case "principal":
                return f"principal://{self.host}/subject/{quote(name, safe='')}"
            case "user" | "serviceAccount":
                if (
                    self.principal_claim == "email"
                    and token.claims.get("email_verified") is not True
                ):
                    raise NotBelieved("the token's address is not verified")
                address = name if "@" in name else f"{name}@{self.host}"
                return f"{self.kind}:{address}"

    def _groups(self, token: SignedToken) -> frozenset[str]:
        if not self.groups_claim or self.groups_claim not in token.claims:
            return frozenset()
        value = token.claims[self.groups_claim]
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or len(values) > _GROUPS_MAX:
            raise NotBelieved("the token's groups are no list, or too many")
        groups = set()
        for one in values:
            name = str(one).strip("/").replace("/", ".")
            member = f"group:{name if '@' in name else f'{name}@{self.host}'}"
            if is_member(member):
                groups.add(member)
        return frozenset(groups)


_TEXTS: Final = frozenset(
    {"issuer", "jwks_url", "principal_claim", "groups_claim", "pool", "domain"}
)
_FILES: Final = frozenset({"jwks_file", "ca_file"})
_LISTS: Final = frozenset({"audiences", "algorithms"})


def parse_issuers(tables: object) -> tuple[Issuer, ...]:
    """Read issuers as a settings file has them: a list of tables.

    Raises:
        ValueError: Says which table, which key, and what is wrong.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise ValueError("must be a list of tables, [[issuers]]")
    found = [_parse_issuer(table, f"issuers[{index}]") for index, table in enumerate(tables)]
    names = [one.issuer for one in found]
    if len(set(names)) < len(names):
        raise ValueError("has an issuer twice")
    hosts = [one.host for one in found if one.names_by_host]
    for host in hosts:
        # A realm of the same server could otherwise name the callers of another one.
        if hosts.count(host) > 1:
            raise ValueError(f"has two issuers with names of {host!r}; give one of them a domain")
    return tuple(found)


def _parse_issuer(table: object, where: str) -> Issuer:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} must be a table")
    known = {field.name for field in fields(Issuer)}
    unknown = {str(key) for key in table} - known
    if unknown:
        raise ValueError(
            f"{where} has no key {min(unknown)!r}; there are {', '.join(sorted(known))}"
        )
    values: dict[str, object] = {}
    for key, value in table.items():
        if key in _TEXTS and not (isinstance(value, str) and value):
            raise ValueError(f"{where}.{key} must be a text")
        if key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{where}.{key} must be a list of texts")
            value = tuple(value)
        values[key] = Path(str(value)) if key in _FILES else value
    return _checked(values, where)


def _checked(values: dict[str, object], where: str) -> Issuer:
    for key in ("issuer", "audiences"):
        if not values.get(key):
            raise ValueError(f"{where}.{key} is needed")
    kind = values.get("kind", "user")
    if kind not in KINDS:
        raise ValueError(f"{where}.kind must be one of {', '.join(KINDS)}")
    if kind in ("kubernetes", "principal"):
        values.setdefault("principal_claim", "sub")
    if kind == "kubernetes" and not values.get("pool"):
        raise ValueError(f"{where}.pool is needed for accounts of Kubernetes")
    found = Issuer(**values)  # type: ignore[arg-type]
    for name in found.algorithms:
        if name not in ALGORITHMS:
            raise ValueError(f"{where}.algorithms: {name!r} is not one of {', '.join(ALGORITHMS)}")
    if found.jwks_url and found.jwks_file is not None:
        raise ValueError(f"{where} has jwks_url and jwks_file; one of them is allowed")
    if found.jwks_file is not None and found.ca_file is not None:
        raise ValueError(f"{where} has jwks_file and ca_file; nothing is fetched for the first")
    for url in filter(None, (found.jwks_url, "" if found.jwks_file else found.issuer)):
        if not is_trusted_url(url):
            raise ValueError(f"{where}: {url!r} must be an https address, or http on this machine")
    return found


def is_trusted_url(url: str) -> bool:
    """Whether keys may be fetched from an address: nobody on the way may change them."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.netloc)
    return parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
