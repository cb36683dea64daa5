"""Access tokens: short-lived, made for a key of a service account, and good while that key is.

fla_ · base64url of {"a": address, "k": key id, "e": end in seconds} · . · base64url of an HMAC
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from fanlog.auth.disbelief import NotBelieved
from fanlog.model.identity import ACCESS_PREFIX

LIFE_S: Final = 900
_BYTES_MAX: Final = 2_048


@dataclass(frozen=True, slots=True)
class AccessToken:
    email: str
    key_id: str
    expires_s: int

    def sign(self, secret: bytes) -> str:
        content = json.dumps({"a": self.email, "k": self.key_id, "e": self.expires_s}).encode()
        return f"{ACCESS_PREFIX}{_text(content)}.{_text(_mac(secret, content))}"

    @classmethod
    def parse(cls, text: str, secret: bytes) -> AccessToken:
        """Raises NotBelieved: Not one that was signed with the secret."""
        head, _, tail = text.removeprefix(ACCESS_PREFIX).partition(".")
        if len(text) > _BYTES_MAX or not text.isascii():
            raise NotBelieved("the access token cannot be read")
        try:
            content, mac = _raw(head), _raw(tail)
        except ValueError as error:
            raise NotBelieved("the access token cannot be read") from error
        if not hmac.compare_digest(mac, _mac(secret, content)):
            raise NotBelieved("the access token was not made here")
        found = json.loads(content)
        return cls(found["a"], found["k"], found["e"])


def _mac(secret: bytes, content: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _raw(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
