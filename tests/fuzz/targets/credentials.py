"""Credentials and policies of strangers: tokens, policies as requests have them, public keys."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from google.iam.v1.iam_policy_pb2 import SetIamPolicyRequest
from google.protobuf.message import DecodeError
from joserfc.jwk import ECKey

from fanlog.auth.access_tokens import AccessToken
from fanlog.auth.authenticator import Authenticator, AuthSettings
from fanlog.auth.issuers import parse_issuers
from fanlog.broker.clock import Clock, ManualClock
from fanlog.core.iam import Policy
from fanlog.errors import FanlogError, Unauthenticated
from fanlog.model.identity import (
    AccountKey,
    ApiToken,
    ServiceAccount,
    account_email,
    token_digest,
)
from fanlog.v1 import auth_pb2
from fanlog.wire import auth, iam
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw

SERVER_ID: Final = "0123456789abcdef"
EMAIL: Final = account_email("ci", SERVER_ID)
ISSUER: Final = "https://issuer.example"
KEY_ID: Final = "k"
TOKEN: Final = "flt_known"
#: How the bytes of an input become a header.
TEXT, UNSIGNED, SIGNED, ACCESS = range(4)

_SECRET: Final = b"secret"
# No secret of anybody: signatures are to be had, so that what is behind them is looked at.
_KEY: Final = ec.derive_private_key(20_261_118, ec.SECP256R1())
_PUBLIC: Final = (
    _KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


class _Accounts:
    server_id = SERVER_ID
    version = 1

    def __init__(self) -> None:
        self._account = ServiceAccount(
            id=1,
            name="ci",
            email=EMAIL,
            created_s=0.0,
            keys=(AccountKey(id=KEY_ID, public=_PUBLIC, created_s=0.0),),
            tokens=(ApiToken(id="t", digest=token_digest(TOKEN), created_s=0.0),),
        )

    def account(self, email: str) -> ServiceAccount | None:
        return self._account if email == EMAIL else None

    def token_owner(self, digest: str) -> tuple[ServiceAccount, ApiToken] | None:
        [token] = self._account.tokens
        return (self._account, token) if digest == token.digest else None


def _key_set(_: str) -> bytes:
    public = ECKey.import_key(_PUBLIC).as_dict(private=False)
    return json.dumps({"keys": [{**public, "kid": KEY_ID}]}).encode()


async def _no_pause(_: Clock, __: float) -> None:
    pass


@cache
def _authenticator() -> Authenticator:
    table = {
        "issuer": ISSUER,
        "audiences": ["fanlog"],
        "jwks_url": f"{ISSUER}/keys",
        "principal_claim": "sub",
        "groups_claim": "groups",
    }
    settings = AuthSettings(issuers=parse_issuers([table]))
    return Authenticator(
        *(_Accounts(), settings, ManualClock(), lambda: _SECRET), fetch=_key_set, pause=_no_pause
    )


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _signature(content: str) -> bytes:
    r, s = decode_dss_signature(_KEY.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _header(draw: Draw, way: int) -> str:
    if way == TEXT:
        return draw.rest().decode("utf-8", "surrogateescape")
    if way == ACCESS:
        email, key_id = draw.text(), draw.text()
        return f"Bearer {AccessToken(email, key_id, draw.number(8)).sign(_SECRET)}"
    content = f"{_text(draw.chunk())}.{_text(draw.chunk())}"
    signature = draw.rest() if way == UNSIGNED else _signature(content)
    return f"Bearer {content}.{_text(signature)}"


def token(data: bytes) -> None:
    """Refused with the one sentence; or believed, of one who can be known by what was signed."""
    draw = Draw(data)
    way = draw.below(4)
    header = _header(draw, way)
    found = _authenticator()
    try:
        principal = asyncio.run(found.authenticate(header, "192.0.2.1", None))
    except Unauthenticated as error:
        refusal(error)
        return
    if way == TEXT:
        assert TOKEN in header, header
    assert way != UNSIGNED, header
    if principal.credential.startswith("issuer "):
        assert not principal.member.endswith(".fanlog.internal"), principal
    else:
        assert principal.member == f"serviceAccount:{EMAIL}", principal
    assert found.standing(principal) == "good"


def policy_request(data: bytes) -> None:
    """As requests have it, in Google's form and in ours: refused, or stored as it is shown."""
    is_google, raw = data[:1] < b"\x80", data[1:]
    try:
        if is_google:
            request = SetIamPolicyRequest.FromString(raw)
            bindings = iam.bindings_of(request)
        else:
            bindings = auth.bindings_of(auth_pb2.AccessPolicy.FromString(raw))
        policy = Policy(id=7).replace(bindings, b"")
    except DecodeError:
        return
    except FanlogError as error:
        refusal(error)
        return
    if is_google:
        assert not any(one.HasField("condition") for one in request.policy.bindings)
        shown = iam.policy_pb(policy)
        again = iam.bindings_of(SetIamPolicyRequest(policy=shown))
    else:
        again = auth.bindings_of(auth.policy_pb(policy))
    assert again is not None
    assert tuple(again) == policy.bindings


def public_key(data: bytes) -> None:
    """Refused with a sentence, or read as the same key again."""
    try:
        key_id, pem = auth.read_public_key(data.decode("utf-8", "replace"))
    except FanlogError as error:
        refusal(error)
        return
    assert auth.read_public_key(pem) == (key_id, pem)


def claims(**changes: object) -> dict[str, object]:
    """Of a token that is believed at the time of a manual clock."""
    now_s = ManualClock().wall_ns() // 10**9
    found = {"iss": EMAIL, "aud": "https://pubsub.googleapis.com/", "iat": now_s, "exp": now_s + 60}
    return {name: value for name, value in (found | changes).items() if value is not None}


PUBLIC_KEY: Final = _PUBLIC
TARGETS = (
    # What libraries import when they first verify is part of it.
    Target(name="token", run=token, memory_max=16 * 1024 * 1024),
    Target(name="policy_request", run=policy_request),
    Target(name="public_key", run=public_key, memory_max=4 * 1024 * 1024),
)
