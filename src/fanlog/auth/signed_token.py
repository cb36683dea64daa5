"""JSON Web Tokens: read strictly, and verified with one key and one of few algorithms.

Everything in a token comes from a stranger until its signature is verified. The head chooses a key
by its id and nothing else: keys in the head, or addresses of keys, are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fanlog.auth.disbelief import NotBelieved

if TYPE_CHECKING:
    from joserfc.jwk import Key

#: Bytes of a token: those of Kubernetes with many audiences have two thousand.
TOKEN_BYTES_MAX: Final = 16 * 1024
#: Algorithms that may be allowed: all have a public and a private key. HMAC has one secret for both
#: sides, and `none` no signature.
ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
)
#: The clocks of two machines may differ by so much.
SKEW_S: Final = 60.0
_DEPTH_MAX: Final = 20
#: Members of the head that would have the token say how it is to be believed.
_REFUSED: Final = frozenset({"crit", "jwk", "jku", "x5c", "x5u", "b64", "zip"})


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A token whose signature was not verified yet."""

    text: str
    algorithm: str
    key_id: str
    claims: dict[str, object]

    @classmethod
    def parse(cls, text: str) -> SignedToken:
        """Raises NotBelieved."""
        if len(text) > TOKEN_BYTES_MAX:
            raise NotBelieved("the token is too long")
        parts = text.split(".")
        if len(parts) != 3:
            raise NotBelieved("the token has not three parts")
        head, claims = _read(parts[0], "head"), _read(parts[1], "claims")
        _decode(parts[2], "signature")
        refused = _REFUSED & head.keys()
        if refused:
            raise NotBelieved(f"the head has {min(refused)}")
        algorithm, key_id = head.get("alg"), head.get("kid", "")
        if not isinstance(algorithm, str) or not isinstance(key_id, str):
            raise NotBelieved("the head has no algorithm, or a key id that is no text")
        return cls(text, algorithm, key_id, claims)

    def verify(self, key: Key, algorithms: tuple[str, ...]) -> None:
        """Raises NotBelieved: Not signed by the key, or by an algorithm that is not allowed."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if self.algorithm not in algorithms or self.algorithm not in ALGORITHMS:
            raise NotBelieved("the algorithm is not allowed")
        try:
            jws.deserialize_compact(self.text, key, algorithms=[self.algorithm])
        except (JoseError, ValueError, TypeError) as error:
            raise NotBelieved("the signature is wrong") from error

    def text_claim(self, name: str) -> str:
        """A claim that must be a text; raises NotBelieved."""
        value = self.claims.get(name)
        if not isinstance(value, str) or not value:
            raise NotBelieved(f"the claim {name} is missing, or no text")
        return value

    def audiences(self) -> frozenset[str]:
        """The audiences that are named; Go's library names none by an empty text.

        Raises:
            NotBelieved: The claim is neither a text nor a list of texts.
        """
        value = self.claims.get("aud", [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise NotBelieved("the claim aud is no text")
        return frozenset(filter(None, values))

    def check_times(self, now_s: float, *, life_s_max: float | None = None) -> float:
        """When the token ends.

        Raises:
            NotBelieved: It has ended, has not begun, does not say when it ends, or lasts too long.
        """
        expires_s = self._time("exp")
        if expires_s is None:
            raise NotBelieved("the claim exp is missing")
        if expires_s + SKEW_S <= now_s:
            raise NotBelieved("the token has expired")
        for name in ("nbf", "iat"):
            begins_s = self._time(name)
            if begins_s is not None and begins_s - SKEW_S > now_s:
                raise NotBelieved(f"the claim {name} is in the future")
        if life_s_max is not None:
            issued_s = self._time("iat")
            if issued_s is None or expires_s - issued_s > life_s_max:
                raise NotBelieved("the token does not say when it was issued, or lasts too long")
        return expires_s + SKEW_S

    def _time(self, name: str) -> float | None:
        value = self.claims.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
            raise NotBelieved(f"the claim {name} is no time")
        return float(value)


def _read(part: str, what: str) -> dict[str, object]:
    raw = _decode(part, what)
    try:
        value = json.loads(raw, object_pairs_hook=_once, parse_constant=_refuse_constant)
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        raise NotBelieved(f"the {what} cannot be read") from error
    if not isinstance(value, dict):
        raise NotBelieved(f"the {what} is no object")
    return value


def _decode(part: str, what: str) -> bytes:
    """Base64 in the one form that its bytes have: no padding, no other characters or bits."""
    try:
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError) as error:
        raise NotBelieved(f"the {what} is not base64") from error
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != part.encode("utf-8", "replace"):
        raise NotBelieved(f"the {what} is not base64")
    return raw


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member is given twice")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _check_depth(value: object, depth: int = 0) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_depth(one, depth + 1)
