"""OIDC tokens: RS256 JWTs that say for which subscription's account a request was made.

A receiver finds the public key in the JWKS on our HTTP port, by the token's `kid`. The library
that signs is imported with the first key: most servers never have one.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import orjson

from fanlog import limits

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_BITS = 2048


class SigningKey:
    """One RSA key; the same one makes the same `kid`."""

    def __init__(self, private: RSAPrivateKey) -> None:
        self._private = private
        numbers = private.public_key().public_numbers()
        self._public = {"e": _number(numbers.e), "kty": "RSA", "n": _number(numbers.n)}
        # The thumbprint of RFC 7638: the members that make the key, sorted.
        self.kid = _base64(hashlib.sha256(orjson.dumps(self._public)).digest())
        self._head = _part({"alg": "RS256", "kid": self.kid, "typ": "JWT"})

    @classmethod
    def generate(cls) -> SigningKey:
        """Takes a tenth of a second or more: not on the loop."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        return cls(rsa.generate_private_key(public_exponent=65_537, key_size=_BITS))

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        """Raises ValueError: Not an RSA key in PEM."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        private = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(private, rsa.RSAPrivateKey):
            raise ValueError("not an RSA key")
        return cls(private)

    def pem(self) -> bytes:
        from cryptography.hazmat.primitives import serialization

        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def jwks(self) -> dict[str, object]:
        """The key set to be published: the public half alone."""
        return {"keys": [{**self._public, "alg": "RS256", "kid": self.kid, "use": "sig"}]}

    def token(self, *, issuer: str, audience: str, email: str, wall_s: int) -> str:
        """A token that is good from now on for an hour."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        claims = {
            "aud": audience,
            "azp": email,
            "email": email,
            "email_verified": True,
            "exp": wall_s + limits.PUSH_TOKEN_S,
            "iat": wall_s,
            "iss": issuer,
            "sub": email,
        }
        signed = f"{self._head}.{_part(claims)}"
        signature = self._private.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"


def _part(value: dict[str, object]) -> str:
    return _base64(orjson.dumps(value))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
