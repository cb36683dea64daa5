"""Seal keys: secrets at rest are sealed with a key that is not in the data folder.

A sealed secret is a text: `sealed:` and, in base64, bytes of AES-256-GCM:

       0         1                   9                            21
     +---------+-------------------+----------------------------+--------------------------+
     | version | id of the key     | nonce                      | encrypted text, tag (16) |
     +---------+-------------------+----------------------------+--------------------------+

The version, the id and the *place* of the secret (its record, and where in it) are authenticated
with the text: sealed bytes that were moved to another place cannot be opened there.

Pure: chance is an argument. The library is imported with the first key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fanlog.errors import ConfigError, DataLoss

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: How a key begins as text: so that scanners for leaked secrets find one.
KEY_PREFIX: Final = "flsk_"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
#: No secret begins like this: those of webhooks have prefixes of their own, all others are hex.
SEALED_PREFIX: Final = "sealed:"
SETTINGS: Final = "--seal-key-file, or FANLOG_SEAL_KEY"

_VERSION: Final = 1
_ID_BYTES: Final = 8
_HEAD_BYTES: Final = 1 + _ID_BYTES
_TAG_BYTES: Final = 16
_CONTEXT: Final = b"fanlog sealed secret\0"


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key. Its id is a hash, which says nothing of it."""

    content: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> SealKey:
        """Raises ValueError: Not the text of a key; the error does not contain it."""
        body = text.removeprefix(KEY_PREFIX)
        try:
            content = base64.b64decode(body + "=" * (-len(body) % 4), altchars="-_", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        if body == text or len(content) != KEY_BYTES:
            raise ValueError(
                f"a seal key is {KEY_PREFIX!r} and {KEY_BYTES} bytes in base64, as `fanlog auth "
                "seal-key create` makes it"
            )
        return cls(content)

    def text(self) -> str:
        return KEY_PREFIX + base64.urlsafe_b64encode(self.content).rstrip(b"=").decode()

    @property
    def id(self) -> bytes:
        return hashlib.blake2b(
            self.content, digest_size=_ID_BYTES, person=b"fanlog seal key"
        ).digest()


class SealKeys:
    """The keys of a server: the first seals, all of them open. Without any, secrets stay plain."""

    def __init__(
        self, keys: Sequence[SealKey] = (), new_nonce: Callable[[], bytes] | None = None
    ) -> None:
        """`new_nonce` gives twelve bytes that nobody can guess; none is needed without keys."""
        assert not keys or new_nonce is not None
        self._new_nonce = new_nonce
        self._ciphers: dict[bytes, AESGCM] = {key.id: _cipher(key) for key in keys}
        self._first = keys[0].id if keys else b""

    def __bool__(self) -> bool:
        return bool(self._ciphers)

    @property
    def first_id(self) -> str:
        """The id of the key that seals; empty without keys."""
        return self._first.hex()

    def seal(self, text: str, place: bytes) -> str:
        """A secret of a place as it is stored."""
        if self._new_nonce is None:
            return text
        head, nonce = bytes([_VERSION]) + self._first, self._new_nonce()
        assert len(nonce) == NONCE_BYTES
        sealed = self._ciphers[self._first].encrypt(nonce, text.encode(), _bound(head, place))
        return SEALED_PREFIX + base64.b64encode(head + nonce + sealed).decode()

    def open(self, text: str, place: bytes) -> str:
        """The secret of a place, from the text that is stored there; a plain one stays as it is.

        Raises:
            ConfigError: It is sealed with a key that is not given.
            DataLoss: It was not sealed for this place, or it is damaged.
        """
        if not text.startswith(SEALED_PREFIX):
            return text
        head, nonce, sealed = _parts(text)
        cipher = self._ciphers.get(head[1:])
        if cipher is None:
            raise ConfigError(self._missing(head[1:]))
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(nonce, sealed, _bound(head, place)).decode()
        except (InvalidTag, UnicodeDecodeError):
            raise _unsound() from None

    def is_current(self, text: str) -> bool:
        """Whether a stored text is as `seal` would leave it: sealed with the first key, or plain.

        Raises:
            DataLoss: It is damaged.
        """
        if not text.startswith(SEALED_PREFIX):
            return not self
        return _parts(text)[0][1:] == self._first

    def _missing(self, key_id: bytes) -> str:
        wanted = f"secrets of this data folder are sealed with the seal key {key_id.hex()}"
        if not self:
            return f"{wanted}, and no seal key is given; say where it is ({SETTINGS})"
        given = ", ".join(one.hex() for one in self._ciphers)
        return f"{wanted}; given is {given}: name the file of the other one, too ({SETTINGS})"


#: Of a server without a seal key.
NO_KEYS: Final = SealKeys()


def parse_keys(text: str) -> list[SealKey]:
    """Keys with blanks or line ends between them; lines that begin with `#` are comments.

    Raises:
        ValueError: There is none, one is given twice, or something else is there.
    """
    lines = (line.strip() for line in text.splitlines())
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    keys = [SealKey.parse(word) for word in words]
    if not keys:
        raise ValueError("there is no seal key in it")
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("a seal key is in it twice")
    return keys


def _cipher(key: SealKey) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key.content)


def _bound(head: bytes, place: bytes) -> bytes:
    return _CONTEXT + head + place


def _parts(text: str) -> tuple[bytes, bytes, bytes]:
    """Version and id of the key, nonce, and the rest."""
    try:
        content = base64.b64decode(text[len(SEALED_PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise _unsound() from None
    if len(content) < _HEAD_BYTES + NONCE_BYTES + _TAG_BYTES:
        raise _unsound()
    if content[0] != _VERSION:
        raise DataLoss(
            f"a sealed secret has version {content[0]}; this build reads version {_VERSION}"
        )
    nonce_end = _HEAD_BYTES + NONCE_BYTES
    return content[:_HEAD_BYTES], content[_HEAD_BYTES:nonce_end], content[nonce_end:]


def _unsound() -> DataLoss:
    return DataLoss("a sealed secret is damaged, or was moved here from another place")
