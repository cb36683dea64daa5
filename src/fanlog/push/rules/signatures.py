"""Standard Webhooks: a receiver that knows the secret can tell that a request is ours.

The signature covers `id.timestamp.body`. `v1` is HMAC-SHA256 with a secret both sides know
(`whsec_`), `v1a` is ed25519 with a key only we know (`whsk_`). With two secrets there are two
signatures, and a receiver needs to know either: so secrets are replaced without a gap.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Sequence
from functools import lru_cache

from fanlog.model.endpoints import ED25519_PREFIX, secret_bytes


def webhook_headers(
    secrets: Sequence[str], message_id: str, wall_s: int, body: bytes
) -> dict[str, str]:
    """The three headers of a signed request; none without a secret."""
    if not secrets:
        return {}
    signed = b"%b.%d.%b" % (message_id.encode(), wall_s, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(wall_s),
        "webhook-signature": " ".join(_signer(secret)(signed) for secret in secrets),
    }


@lru_cache(maxsize=1024)
def _signer(secret: str) -> Callable[[bytes], str]:
    key = secret_bytes(secret)
    if secret.startswith(ED25519_PREFIX):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        # Some tools write the public half behind the private one.
        private = Ed25519PrivateKey.from_private_bytes(key[:32])
        return lambda signed: _tag("v1a", private.sign(signed))
    return lambda signed: _tag("v1", hmac.digest(key, signed, "sha256"))


def _tag(version: str, signature: bytes) -> str:
    return f"{version},{base64.b64encode(signature).decode()}"
