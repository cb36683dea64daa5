"""The public keys of issuers: fetched, remembered, and fetched again when they may have changed.

A key id that is not known may be new: then the keys are fetched at once, at a bounded rate, since
anybody can make up key ids. Known keys are fetched again every hour in the background, and used
meanwhile; after a longer rest, when they may have been revoked long ago, they are waited for. When
an issuer cannot be reached, its last keys stay in use for a day.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from fanlog.auth.disbelief import NotBelieved
from fanlog.auth.issuers import Issuer, is_trusted_url
from fanlog.broker.clock import Clock

log = logging.getLogger("fanlog.auth")

REFRESH_S: Final = 3_600.0
#: Keys that nobody tried to fetch for so long are not used before that is tried.
RESTED_S: Final = 2 * REFRESH_S
#: How long keys are used that could not be fetched again.
STALE_S: Final = 24 * 3_600.0
#: An unknown key id, or a failure, has the keys fetched no sooner than so long after the last time.
AGAIN_S: Final = 30.0
_TIMEOUT_S: Final = 5.0
_BYTES_MAX: Final = 256 * 1024
_KEYS_MAX: Final = 100
_DISCOVERY: Final = "/.well-known/openid-configuration"

#: Gives the bytes at an address, or of a file; blocks. Raises OSError or ValueError.
Fetch = Callable[[str], bytes]


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(self, issuer: Issuer, clock: Clock, fetch: Fetch) -> None:
        self._issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._keys: dict[str, Key] = {}
        self._fetched_s = float("-inf")
        self._tried_s = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str) -> Key:
        """Raises NotBelieved: There is no such key, or no keys can be had."""
        now_s = self._clock.now()
        found = self._usable(key_id)
        has_rested = now_s - self._tried_s > RESTED_S
        if found is None or now_s - self._fetched_s > REFRESH_S:
            self._refresh()
        if self._fetching is not None and (found is None or has_rested):
            # One caller that goes away must not end it for the others.
            await asyncio.shield(self._fetching)
            found = self._usable(key_id)
        if self._is_stale:
            raise NotBelieved("the issuer's keys cannot be had")
        if found is None:
            raise NotBelieved("the issuer has no such key")
        return found

    @property
    def _is_stale(self) -> bool:
        return self._clock.now() - self._fetched_s > STALE_S

    def _usable(self, key_id: str) -> Key | None:
        if self._is_stale:
            return None
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _refresh(self) -> None:
        """Begin to fetch the keys, unless that is under way or was tried just now."""
        now_s = self._clock.now()
        if self._fetching is None and now_s - self._tried_s >= AGAIN_S:
            self._tried_s = now_s
            self._fetching = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            keys = await asyncio.to_thread(self._read)
        except (OSError, ValueError, JoseError, http.client.HTTPException) as error:
            log.warning(
                "action=keys_not_fetched issuer=%s error=%s; the keys before stay in use for a day",
                *(self._issuer.issuer, error),
            )
        else:
            self._keys = keys
            self._fetched_s = self._clock.now()
        finally:
            self._fetching = None

    def _read(self) -> dict[str, Key]:
        issuer = self._issuer
        if issuer.jwks_file is not None:
            raw = issuer.jwks_file.read_bytes()
        else:
            raw = self._fetch(issuer.jwks_url or self._discover())
        found = json.loads(raw)
        if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
            raise ValueError("not a key set")
        if len(found["keys"]) > _KEYS_MAX:
            raise ValueError(f"more than {_KEYS_MAX} keys")
        if not all(isinstance(one, dict) for one in found["keys"]):
            raise ValueError("not a key set")
        public = [one for one in found["keys"] if one.get("kty") in ("RSA", "EC", "OKP")]
        signing = [one for one in public if one.get("use", "sig") == "sig"]
        keys: dict[str, Key] = {}
        for one in signing:
            # One of a curve that is not known here must not take the others along.
            try:
                [keys[str(one.get("kid", ""))]] = KeySet.import_key_set({"keys": [one]}).keys
            except (JoseError, ValueError, KeyError) as error:
                log.warning("action=key_left_out issuer=%s error=%r", issuer.issuer, error)
        if signing and not keys:
            raise ValueError("no key of the set can be used")
        return keys

    def _discover(self) -> str:
        found = json.loads(self._fetch(self._issuer.issuer.rstrip("/") + _DISCOVERY))
        if not isinstance(found, dict) or found.get("issuer") != self._issuer.issuer:
            raise ValueError("the discovery page is of another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not is_trusted_url(url):
            raise ValueError("the discovery page names no https address of keys")
        return url


def fetch(url: str, ca: Path | None = None) -> bytes:
    """The bytes at an address: no redirects, no proxies, bounded in time and size.

    Raises:
        OSError, ValueError, http.client.HTTPException: They cannot be had.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"accept": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"{url} answers {answer.status}")
        raw = answer.read(_BYTES_MAX + 1)
    finally:
        connection.close()
    if len(raw) > _BYTES_MAX:
        raise ValueError(f"{url} has more than {_BYTES_MAX} bytes")
    return raw
