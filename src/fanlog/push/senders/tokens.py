"""OIDC tokens of this server: its key, made once and kept as a secret of the server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Protocol

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.errors import ConfigError, FanlogError, Unavailable
from fanlog.model.resources import PushConfig
from fanlog.push.rules.oidc import SigningKey

log = logging.getLogger("fanlog.push")

#: Where the key was before it was hard state, in the data folder.
FORMER_NAME = "push-oidc.pem"

#: A token is made anew when it has so much of its time left.
_LEFT_S = 600
_TOKENS_MAX = 10_000


class KeptKey(Protocol):
    """Where the key is kept, in PEM."""

    def push_key(self) -> bytes | None: ...
    async def keep_push_key(self, pem: bytes) -> None: ...


class Tokens:
    """Makes and remembers tokens. The key is read or made when the first token is needed."""

    def __init__(self, kept: KeptKey, clock: Clock) -> None:
        self._kept = kept
        self._clock = clock
        #: The address that the key set is found under.
        self.issuer = ""
        self._key: asyncio.Task[SigningKey] | None = None
        self._is_closed = False
        self._tokens: dict[tuple[str, str], tuple[int, str]] = {}

    async def adopt(self, folder: Path) -> None:
        """Keep the key that an earlier build left in a file, and remove the file.

        A crash between the two leaves both, and the next start removes the file.

        Raises:
            ConfigError: The file has no key in it, or cannot be removed.
        """
        path = folder / FORMER_NAME
        if not path.exists():
            return
        try:
            pem = await asyncio.to_thread(path.read_bytes)
            SigningKey.from_pem(pem)
            if pem != self._kept.push_key():
                await self._kept.keep_push_key(pem)
            await asyncio.to_thread(path.unlink)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the key of OIDC tokens in {path}: {error}") from error
        log.info("action=push_key_adopted path=%s; it is hard state, the file is gone", path)

    def close(self) -> None:
        """Make no key any more: it could not be kept."""
        self._is_closed = True
        if self._key is not None:
            self._key.cancel()

    async def token_for(self, push: PushConfig) -> str | None:
        """The token of a request to an endpoint; empty for none, None when it cannot be made."""
        if not push.oidc_email:
            return ""
        try:
            return await self._token(push.oidc_email, push.oidc_audience or push.endpoint)
        except FanlogError as error:
            log.error("action=push_token_failed error=%s", error)
            return None

    async def _token(self, email: str, audience: str) -> str:
        """Raises FanlogError: The key cannot be read, or not be kept."""
        wall_s = self._clock.wall_ns() // 1_000_000_000
        made_s, token = self._tokens.get((email, audience), (0, ""))
        if not made_s <= wall_s < made_s + limits.PUSH_TOKEN_S - _LEFT_S:
            key = await self._signing_key()
            token = key.token(issuer=self.issuer, audience=audience, email=email, wall_s=wall_s)
            if len(self._tokens) >= _TOKENS_MAX:
                self._tokens.clear()
            self._tokens[email, audience] = wall_s, token
        return token

    async def jwks(self) -> dict[str, object]:
        return (await self._signing_key()).jwks()

    async def _signing_key(self) -> SigningKey:
        key = self._key
        if key is None or _has_failed(key):
            if self._is_closed:
                raise Unavailable("the server is shutting down")
            key = self._key = asyncio.create_task(self._find_or_make())
        try:
            return await asyncio.shield(key)
        except asyncio.CancelledError:
            if key.cancelled():
                raise Unavailable("the server is shutting down") from None
            raise

    async def _find_or_make(self) -> SigningKey:
        pem = self._kept.push_key()
        if pem is None:
            key = await asyncio.to_thread(SigningKey.generate)
            await self._kept.keep_push_key(key.pem())
            return key
        try:
            return await asyncio.to_thread(SigningKey.from_pem, pem)
        except ValueError as error:
            raise ConfigError(f"the key of OIDC tokens: {error}") from error


def _has_failed(task: asyncio.Task[SigningKey]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
