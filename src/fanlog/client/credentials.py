"""The credentials of a connection: the text of `authorization` for each call.

A secret is in one attribute that `repr` leaves out, and in no error. Files are read again when they
change, so that a token or a key can be replaced while a program runs.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from fanlog.client.address import TOKEN_VARIABLE, ServerAddress, token_of_environment
from fanlog.errors import InvalidArgument
from fanlog.model import names

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

#: As Google's libraries sign for.
AUDIENCE: Final = "https://pubsub.googleapis.com/"
#: A signature holds for an hour, the most that servers take, and is made anew before that.
_LIFE_S: Final = 3_600
_RENEWAL_S: Final = 3_300


class Credentials(Protocol):
    """The caller, as a connection says it."""

    #: How sentences call it, such as "the token in FILE"; the secret is no part of it.
    name: str

    def authorization(self) -> str:
        """The value of `authorization` for a call that is made now."""


def credentials_of(
    address: ServerAddress,
    *,
    environment_token: str | None = None,
    now: Callable[[], float] = time.time,
) -> Credentials | None:
    """The credentials that an address names, or else FANLOG_TOKEN has; None for neither.

    Raises:
        InvalidArgument: They cannot be read, or others could read them on their way.
    """
    token = token_of_environment() if environment_token is None else environment_token
    found: Credentials | None = None
    if address.credentials:
        found = _KeyFile(_Watched("credentials", address.credentials), now)
    elif address.token_file:
        found = _TokenFile(_Watched("token_file", address.token_file))
    elif token:
        found = _Token(f"Bearer {_checked(token, TOKEN_VARIABLE)}")
    if found is not None and not address.keeps_secrets:
        raise InvalidArgument(
            f"{found.name} is not sent to {names.shown(address.host_port)} in plain text, where"
            " others can read it; name the authority of the server's certificate with --ca (the"
            " option ca, or FANLOG_CA), or write https:// before its address"
        )
    return found


@dataclass(eq=False, slots=True)
class _Token:
    """A token that is given itself."""

    _authorization: str = field(repr=False)
    name: str = f"the token of {TOKEN_VARIABLE}"

    def authorization(self) -> str:
        return self._authorization


class _Watched:
    """A file whose content is asked for again and again."""

    def __init__(self, setting: str, path: str) -> None:
        self.setting = setting
        self.path = path
        self._state: tuple[int, int, int] | None = None

    @property
    def place(self) -> str:
        return f"{self.setting}: {names.shown(self.path)}"

    def changed(self) -> bytes | None:
        """Its content, if that may be another than the last time; None if not.

        Raises:
            InvalidArgument: It cannot be read, and never could: a file that is gone for the moment
                is being replaced.
        """
        try:
            found = os.stat(self.path)
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if state == self._state:
                return None
            content = Path(self.path).read_bytes()
        except OSError as error:
            if self._state is not None:
                return None
            raise InvalidArgument(f"{self.place}: {error.strerror}") from error
        self._state = state
        return content


class _TokenFile:
    """An API token in a file."""

    def __init__(self, file: _Watched) -> None:
        self.name = f"the token in {names.shown(file.path)}"
        self._file = file
        self._authorization = ""
        self.authorization()

    def authorization(self) -> str:
        content = self._file.changed()
        if content is not None:
            token = _checked(content.decode("ascii", "replace"), self._file.place)
            self._authorization = f"Bearer {token}"
        return self._authorization


class _KeyFile:
    """A service account's key, which signs."""

    def __init__(self, file: _Watched, now: Callable[[], float]) -> None:
        self.name = f"the key in {names.shown(file.path)}"
        self._file = file
        self._now = now
        self._signer: _Signer | None = None
        #: When it was signed, and the value.
        self._signed: tuple[float, str] = (0.0, "")
        self.authorization()

    def authorization(self) -> str:
        content = self._file.changed()
        if content is not None:
            self._signer = _Signer.parse(content, self._file.place)
            self._signed = (0.0, "")
        signed_s, value = self._signed
        now_s = self._now()
        # A clock that was set back would else have signed in the future.
        if value and 0 <= now_s - signed_s < _RENEWAL_S:
            return value
        assert self._signer is not None, "the file was read when this was made"
        value = f"Bearer {self._signer.sign(int(now_s))}"
        self._signed = (now_s, value)
        return value


@dataclass(frozen=True, slots=True)
class _Signer:
    """Signs as one account with one key."""

    email: str
    key_id: str
    _key: RSAPrivateKey = field(repr=False)

    @classmethod
    def parse(cls, content: bytes, place: str) -> _Signer:
        """Raises InvalidArgument, which quotes nothing of the content."""
        # Imported here: a program with a token, or without credentials, need not wait for it.
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            fields = json.loads(content)
            email, key_id = str(fields["client_email"]), str(fields["private_key_id"])
            key = load_pem_private_key(str(fields["private_key"]).encode(), None)
        except (ValueError, KeyError, TypeError, RecursionError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, RSAPrivateKey):
            # Not from the error: what that quotes may be of the key.
            raise InvalidArgument(
                f"{place} is not the key file of a service account, as `fanlog auth key create`"
                " writes it"
            ) from None
        return cls(email, key_id, key)

    def sign(self, now_s: int) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        head = {"alg": "RS256", "typ": "JWT", "kid": self.key_id}
        claims = {
            "iss": self.email,
            "sub": self.email,
            "aud": AUDIENCE,
            "iat": now_s,
            "exp": now_s + _LIFE_S,
        }
        text = b".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        return (text + b"." + _encoded(signature)).decode("ascii")


def _checked(text: str, place: str) -> str:
    """A token without the line's end behind it; one that no header can have is refused."""
    token = text.strip()
    if not token or not all("!" <= char <= "~" for char in token):
        raise InvalidArgument(f"{place} has no token: one word of ASCII characters is expected")
    return token


def _encoded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
