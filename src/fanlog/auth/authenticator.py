"""Authentication: a header or a certificate to the principal that calls.

The first call with a token costs a signature's verification; later ones a look into a table, by the
token's hash. An entry is good until the token ends, or until any account of this server changes.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from fanlog.auth.access_tokens import AccessToken
from fanlog.auth.certificates import NO_CERTIFICATES, CertificateRule
from fanlog.auth.disbelief import NotBelieved
from fanlog.auth.issuers import Issuer
from fanlog.auth.signed_token import TOKEN_BYTES_MAX, SignedToken
from fanlog.auth.slowdown import Slowdown
from fanlog.broker.clock import Clock, sleep
from fanlog.errors import Unauthenticated
from fanlog.model.identity import (
    ACCESS_PREFIX,
    TOKEN_PREFIX,
    AccountKey,
    ApiToken,
    Principal,
    ServiceAccount,
    Standing,
    token_digest,
)
from fanlog.transport.calls import Certificate

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from fanlog.auth.key_sets import Fetch, IssuerKeys

log = logging.getLogger("fanlog.auth")

#: The one sentence for every reason: the server's log has the reason.
REFUSED: Final = (
    "the caller could not be authenticated; send a valid token (authorization: Bearer …), or give "
    "the client a key file of this server"
)
#: Longest life of a token that a service account signs itself, as Google has it.
SELF_SIGNED_S_MAX: Final = 3_600.0
#: What official clients say a token is for: this API, by its address at Google.
AUDIENCES: Final = frozenset(
    f"https://pubsub.googleapis.com/{service}"
    for service in (
        "",
        "google.pubsub.v1.Publisher",
        "google.pubsub.v1.Subscriber",
        "google.pubsub.v1.SchemaService",
        "google.iam.v1.IAMPolicy",
    )
) | {"https://pubsub.googleapis.com"}
SCOPES: Final = frozenset(
    {
        "https://www.googleapis.com/auth/pubsub",
        "https://www.googleapis.com/auth/cloud-platform",
    }
)
#: Where assertions are exchanged for access tokens.
TOKEN_PATH: Final = "/oauth2/token"
_OWN_ALGORITHMS: Final = ("RS256", "ES256")
_KNOWN_MAX: Final = 10_000
#: Failed calls that wait for their answer; beyond it they are answered at once.
_WAITING_MAX: Final = 1_000


class Directory(Protocol):
    """The accounts of this server."""

    server_id: str

    @property
    def version(self) -> int:
        """Another one after each change of an account."""

    def account(self, email: str) -> ServiceAccount | None: ...
    def token_owner(self, digest: str) -> tuple[ServiceAccount, ApiToken] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    issuers: tuple[Issuer, ...] = ()
    certificates: CertificateRule = NO_CERTIFICATES
    #: Names that this server is called by: tokens that accounts sign may be for https addresses
    #: with one of them, besides AUDIENCES.
    hosts: frozenset[str] = frozenset()


class Authenticator:
    """Tells who calls. Lives on the loop."""

    def __init__(
        self,
        directory: Directory,
        settings: AuthSettings,
        clock: Clock,
        access_secret: Callable[[], bytes],
        *,
        fetch: Fetch | None = None,
        pause: Callable[[Clock, float], Awaitable[None]] = sleep,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._access_secret = access_secret
        self._pause = pause
        self._issuers = {one.issuer: one for one in settings.issuers}
        self._keys = self._issuer_keys(fetch)
        #: By the hash of the header; the one used last is last.
        self._known: OrderedDict[bytes, Principal] = OrderedDict()
        self._version = -1
        self._slowdown = Slowdown()
        self._waiting = 0
        #: Callers that were authenticated by a verification, and failures by reason.
        self.successes = 0
        self.failures: Counter[str] = Counter()

    def _issuer_keys(self, fetch: Fetch | None) -> dict[str, IssuerKeys]:
        if not self._issuers:
            return {}
        # Few servers have issuers; the library is large.
        from fanlog.auth import key_sets

        return {
            name: key_sets.IssuerKeys(
                one, self._clock, fetch or partial(key_sets.fetch, ca=one.ca_file)
            )
            for name, one in self._issuers.items()
        }

    # Calls.

    def known(self, authorization: str, _: str = "") -> Principal | None:
        """The principal that showed the same header before, if that is still good."""
        if self._version != self._directory.version:
            self._known.clear()
            self._version = self._directory.version
        key = _digest(authorization)
        found = self._known.get(key)
        if found is None or found.expires_s <= self._now_s():
            return None
        self._known.move_to_end(key)
        return found

    @property
    def believes_certificates(self) -> bool:
        """Whether a certificate says who calls; else it lets its owner connect, and no more."""
        return self._settings.certificates.name != "none"

    async def authenticate(
        self, authorization: str, address: str, certificate: Certificate | None
    ) -> Principal:
        """The principal of a call. A token, where there is one, counts before a certificate.

        Raises:
            Unauthenticated: The same for every reason, after a while if the address failed often.
        """
        try:
            if not authorization and certificate is not None:
                return self._settings.certificates.principal(certificate, self._now_s())
            version = self._directory.version
            principal = await self._verify(authorization)
        except NotBelieved as reason:
            raise await self.refusal(reason, address) from None
        self.successes += 1
        if version == self._directory.version == self._version:
            self._remember(authorization, principal)
        return principal

    def standing(self, principal: Principal) -> Standing:
        """How the credential of a call that goes on stands now."""
        now_s = self._now_s()
        kind, _, name = principal.credential.partition(" ")
        if kind in ("key", "token"):
            account = self._directory.account(principal.member.partition(":")[2])
            if account is None:
                return "revoked"
            held: tuple[AccountKey | ApiToken, ...]
            held = account.keys if kind == "key" else account.tokens
            found = next((one for one in held if one.id == name), None)
            if found is None or _end(found.expires_s) <= now_s:
                return "revoked"
        if principal.expires_s > now_s:
            return "good"
        # A certificate stays that of its connection: the same one would be shown again.
        return "revoked" if kind == "certificate" else "over"

    def _remember(self, authorization: str, principal: Principal) -> None:
        if len(self._known) >= _KNOWN_MAX:
            self._known.popitem(last=False)
        self._known[_digest(authorization)] = principal

    async def refusal(self, reason: NotBelieved, address: str) -> Unauthenticated:
        """The one error for every reason, counted; after a while if the address failed often."""
        self.failures[reason.reason] += 1
        log.warning("action=authentication_failed address=%s reason=%s", address, reason.reason)
        delay_s = self._slowdown.fail(address, self._clock.now())
        if delay_s and self._waiting < _WAITING_MAX:
            self._waiting += 1
            try:
                await self._pause(self._clock, delay_s)
            finally:
                self._waiting -= 1
        return Unauthenticated(REFUSED)

    # Credentials.

    async def _verify(self, authorization: str) -> Principal:
        scheme, _, text = authorization.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text or not text.isascii():
            raise NotBelieved("not a bearer token")
        if len(text) > TOKEN_BYTES_MAX:
            raise NotBelieved("the token is too long")
        if text.startswith(TOKEN_PREFIX):
            return self._api_token(text)
        if text.startswith(ACCESS_PREFIX):
            return self._access_token(text)
        token = SignedToken.parse(text)
        issuer = self._issuers.get(str(token.claims.get("iss")))
        if issuer is None:
            return self._self_signed(token)
        key = await self._keys[issuer.issuer].key(token.key_id)
        token.verify(key, issuer.algorithms)
        return issuer.principal(token, token.check_times(self._now_s()))

    def _api_token(self, text: str) -> Principal:
        found = self._directory.token_owner(token_digest(text))
        if found is None:
            raise NotBelieved("no such token")
        account, token = found
        expires_s = _end(token.expires_s)
        if expires_s <= self._now_s():
            raise NotBelieved("the token has expired")
        return Principal(member=account.member, credential=f"token {token.id}", expires_s=expires_s)

    def _access_token(self, text: str) -> Principal:
        token = AccessToken.parse(text, self._access_secret())
        if token.expires_s <= self._now_s():
            raise NotBelieved("the access token has expired")
        account, key = self._key_of(token.email, token.key_id)
        return Principal(
            member=account.member, credential=f"key {key.id}", expires_s=float(token.expires_s)
        )

    def _self_signed(self, token: SignedToken) -> Principal:
        account, key, expires_s = self.signer(token)
        audiences = token.audiences()
        if audiences:
            if not audiences & AUDIENCES and not any(map(self._is_own, audiences)):
                raise NotBelieved("the token is for another audience")
        elif not SCOPES & set(str(token.claims.get("scope", "")).split()):
            raise NotBelieved("the token has neither an audience nor a scope of Pub/Sub")
        return Principal(member=account.member, credential=f"key {key.id}", expires_s=expires_s)

    def _is_own(self, audience: str) -> bool:
        try:
            parts = urlsplit(audience)
            is_named = parts.scheme == "https" and parts.hostname in self._settings.hosts
            # An assertion for the exchange is no token for calls.
            return is_named and parts.path != TOKEN_PATH
        except ValueError:
            return False

    def signer(self, token: SignedToken) -> tuple[ServiceAccount, AccountKey, float]:
        """The account and the key that signed a token, and when it ends.

        Raises:
            NotBelieved: No account of this server signed it, or it does not hold now.
        """
        email = token.text_claim("iss")
        if token.claims.get("sub", email) != email:
            raise NotBelieved("the token's issuer and subject differ")
        account, key = self._key_of(email, token.key_id)
        token.verify(_import(key.public), _OWN_ALGORITHMS)
        expires_s = token.check_times(self._now_s(), life_s_max=SELF_SIGNED_S_MAX)
        return account, key, min(expires_s, _end(key.expires_s))

    def _key_of(self, email: str, key_id: str) -> tuple[ServiceAccount, AccountKey]:
        account = self._directory.account(email)
        if account is None:
            raise NotBelieved("no such account")
        key = next((one for one in account.keys if one.id == key_id), None)
        if key is None:
            raise NotBelieved("the account has no such key")
        if _end(key.expires_s) <= self._now_s():
            raise NotBelieved("the key has expired")
        return account, key

    def _now_s(self) -> float:
        return self._clock.wall_ns() / 1e9


def _end(expires_s: float | None) -> float:
    return math.inf if expires_s is None else expires_s


def _digest(authorization: str) -> bytes:
    # Not the header itself: looking a text up in a table takes longer the more of it fits.
    # SHA-256 has instructions of the processor: of a long token it takes half of BLAKE2's time.
    return hashlib.sha256(authorization.encode("utf-8", "replace")).digest()


@lru_cache(maxsize=1_000)
def _import(public: str) -> Key:
    from joserfc.jwk import ECKey, RSAKey

    kind = RSAKey if "BEGIN PUBLIC KEY" in public and len(public) > 300 else ECKey
    return kind.import_key(public)
