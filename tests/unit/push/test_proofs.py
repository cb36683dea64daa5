"""Signatures and tokens, checked by implementations that are not ours."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from fanlog.errors import InvalidArgument
from fanlog.model import endpoints
from fanlog.push.rules.oidc import SigningKey
from fanlog.push.rules.signatures import webhook_headers

NOW_S = 1_800_000_000
OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 24).decode()
SEED = bytes(range(32))
PRIVATE = "whsk_" + base64.b64encode(SEED).decode()
BODY = b'{"caf\xc3\xa9": 1}'

# Ed25519 by the book (RFC 8032, 5.1.7): slow, and nothing of it is anybody else's.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493


def _x_of(y: int, sign: int) -> int:
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if (x * x - xx) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - xx) % P == 0
    return P - x if x & 1 != sign else x


def _point(encoded: bytes) -> tuple[int, int]:
    number = int.from_bytes(encoded, "little")
    y = number & ((1 << 255) - 1)
    return _x_of(y, number >> 255), y


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def _times(number: int, point: tuple[int, int]) -> tuple[int, int]:
    found = (0, 1)
    while number:
        if number & 1:
            found = _add(found, point)
        point = _add(point, point)
        number >>= 1
    return found


def is_signed(public: bytes, signature: bytes, content: bytes) -> bool:
    base_y = 4 * pow(5, -1, P) % P
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    digest = hashlib.sha512(r + public + content).digest()
    k = int.from_bytes(digest, "little") % ORDER
    left = _times(s, (_x_of(base_y, 0), base_y))
    return left == _add(_point(r), _times(k, _point(public)))


@pytest.fixture
def at_now(monkeypatch):
    """The other implementation asks the time itself."""
    import standardwebhooks.webhooks as theirs

    real = theirs.datetime

    class Frozen(real):
        @classmethod
        def now(cls, tz=None):
            return real.fromtimestamp(NOW_S + 1, tz)

    monkeypatch.setattr(theirs, "datetime", Frozen)


def test_a_known_signature():
    # The example of the Standard Webhooks specification's libraries.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = webhook_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_v1_is_what_standard_webhooks_says(at_now):
    headers = webhook_headers([OLD], "7000000000001", NOW_S, BODY)
    assert Webhook(OLD).verify(BODY.decode(), headers) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(BODY.decode() + " ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY.decode(), headers)


def test_either_of_two_secrets_is_enough(at_now):
    headers = webhook_headers([OLD, NEW], "1", NOW_S, BODY)
    for secret in (OLD, NEW):
        Webhook(secret).verify(BODY.decode(), headers)


def test_v1a_is_ed25519():
    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
    headers = webhook_headers([PRIVATE, NEW], "1", NOW_S, BODY)
    first, second = headers["webhook-signature"].split(" ")
    version, _, signature = first.partition(",")
    assert version == "v1a"
    assert second.startswith("v1,")
    content = b"1.%d." % NOW_S + BODY
    assert is_signed(public, base64.b64decode(signature), content)
    assert not is_signed(public, base64.b64decode(signature), content + b"!")


def test_without_secrets_nothing_is_signed():
    assert webhook_headers([], "1", NOW_S, BODY) == {}


@pytest.mark.parametrize(
    "text",
    [
        "hunter2", "whsec_", "whsec_hunter2!", "whsec_" + base64.b64encode(b"short").decode(),
        "whsk_" + base64.b64encode(b"x" * 33).decode(), "whpk_" + base64.b64encode(SEED).decode(),
        f"{OLD} {NEW} {PRIVATE}",
    ],
)  # fmt: skip
def test_secrets_that_are_refused_are_not_repeated(text):
    with pytest.raises(InvalidArgument) as refused:
        endpoints.parse_secrets(text)
    for secret in ("hunter2", OLD, base64.b64encode(SEED).decode()):
        assert secret not in refused.value.message


def test_secrets():
    assert endpoints.parse_secrets("") == ()
    assert endpoints.parse_secrets(f" {OLD}  {PRIVATE}") == (OLD, PRIVATE)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_tokens_are_rs256_with_the_published_key():
    key = SigningKey.generate()
    token = key.token(issuer="http://me", audience="http://you", email="a@b.c", wall_s=NOW_S)
    head, claims, signature = token.split(".")
    [published] = key.jwks()["keys"]
    assert json.loads(_decoded(head)) == {"alg": "RS256", "kid": published["kid"], "typ": "JWT"}
    found = json.loads(_decoded(claims))
    assert (found["iss"], found["aud"], found["email"]) == ("http://me", "http://you", "a@b.c")
    assert (found["iat"], found["exp"]) == (NOW_S, NOW_S + 3600)
    # RSASSA-PKCS1-v1_5 by the book: the signature to the e is the padded digest.
    n = int.from_bytes(_decoded(published["n"]), "big")
    e = int.from_bytes(_decoded(published["e"]), "big")
    digest = hashlib.sha256(f"{head}.{claims}".encode()).digest()
    info = bytes.fromhex("3031300d060960864801650304020105000420") + digest
    padded = b"\x00\x01" + b"\xff" * (256 - len(info) - 3) + b"\x00" + info
    assert pow(int.from_bytes(_decoded(signature), "big"), e, n) == int.from_bytes(padded, "big")
    assert not set(published) & {"d", "p", "q"}


def test_a_kept_key_is_the_same_key():
    key = SigningKey.generate()
    assert SigningKey.from_pem(key.pem()).jwks() == key.jwks()
    with pytest.raises(ValueError):
        SigningKey.from_pem(b"nothing")
